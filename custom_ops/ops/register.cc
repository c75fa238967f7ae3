// The library's entry point: registers every op under every name of its pool.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bad_id_registry.h"
#include "exports.h"
#include "op.h"
#include "ort_node.h"

namespace dpiframe {
namespace {

constexpr const char* kDomain = "dpiframe";
constexpr const char* kTagEntry = "dpiframe.session";

const OpDefinition* const kOps[] = {
    &kFusedElementwiseCpu,  &kFusedGemmCpu,  &kFusedMultiGatherCpu,  &kParallelRegionCpu,
#ifdef DPIFRAME_WITH_CUDA
    &kFusedElementwiseCuda, &kFusedGemmCuda, &kFusedMultiGatherCuda, &kParallelRegionCuda,
#endif
};

bool SameProvider(const char* a, const char* b) {
  return a == b || (a != nullptr && b != nullptr && std::strcmp(a, b) == 0);
}

// Whether this build of ONNX Runtime has a provider; the CPU's has no name.
bool HasProvider(const OrtApi& api, const char* provider) {
  if (provider == nullptr) return true;
  char** names = nullptr;
  int count = 0;
  Check(api, api.GetAvailableProviders(&names, &count));
  const bool found = std::any_of(names, names + count, [&](const char* name) { return !std::strcmp(name, provider); });
  if (OrtStatus* status = api.ReleaseAvailableProviders(names, count)) api.ReleaseStatus(status);
  return found;
}

// An op under one name, for the sessions of one tag.
struct RegisteredOp : OrtCustomOp {
  const OpDefinition* definition;
  const OrtApi* api;
  BadIdRegistry* bad_ids;
  std::string registered_name;
};

const RegisteredOp& Registered(const OrtCustomOp* op) { return *static_cast<const RegisteredOp*>(op); }

void FillCallbacks(RegisteredOp* op) {
  op->version = kOrtApiVersion;
  op->GetName = [](const OrtCustomOp* op) { return Registered(op).registered_name.c_str(); };
  op->GetExecutionProviderType = [](const OrtCustomOp* op) { return Registered(op).definition->provider; };
  op->GetInputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op->GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op->GetInputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; };
  op->GetOutputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; };
  op->GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_VARIADIC; };
  op->GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_VARIADIC; };
  op->GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  op->GetVariadicInputMinArity = [](const OrtCustomOp*) { return 1; };
  op->GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
  op->GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 1; };
  op->GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
  op->GetStartVersion = [](const OrtCustomOp*) { return 1; };
  op->GetEndVersion = [](const OrtCustomOp*) { return INT32_MAX; };
  op->CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** kernel) {
    return StatusOf(*api, [&] {
      const RegisteredOp& self = Registered(op);
      *kernel = self.definition->create_kernel(OrtNodeInfo(*self.api, info, self.registered_name, self.bad_ids));
    });
  };
  op->KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
    Kernel* self = static_cast<Kernel*>(kernel);
    return StatusOf(self->api(), [&] {
      OrtNodeCall call(self->api(), context, self->allocator());
      self->Compute(&call);
    });
  };
  op->KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  op->InferOutputShapeFn = [](const OrtCustomOp* op, OrtShapeInferContext* context) {
    const RegisteredOp& self = Registered(op);
    return StatusOf(*self.api, [&] {
      OrtNodeShapes shapes(*self.api, context);
      self.definition->infer_shapes(&shapes);
    });
  };
}

// The ops that one call of RegisterCustomOps gave to session options. ONNX Runtime keeps pointers to them for as long
// as sessions and options live, and says nothing when they go; so they are never freed, but used again once all the
// kernels that came from them are gone.
struct Registration {
  std::string tag;
  const OrtApi* api = nullptr;
  OrtCustomOpDomain* domain = nullptr;
  BadIdRegistry bad_ids;
  std::deque<RegisteredOp> ops;  // a deque keeps its elements in place
};

struct Registrations {
  std::mutex mutex;
  std::vector<std::unique_ptr<Registration>> all;

  Registration* Find(const char* tag) {
    for (const auto& registration : all) {
      if (registration->tag == tag) return registration.get();
    }
    return nullptr;
  }
};

// Never destroyed: kernels may outlive static objects.
Registrations& AllRegistrations() {
  static Registrations* const registrations = new Registrations();
  return *registrations;
}

std::unique_ptr<Registration> NewRegistration(const OrtApi& api, size_t number) {
  auto registration = std::make_unique<Registration>();
  registration->tag = std::to_string(number);
  registration->api = &api;
  Check(api, api.CreateCustomOpDomain(kDomain, &registration->domain));
  for (const OpDefinition* definition : kOps) {
    if (!HasProvider(api, definition->provider)) continue;
    for (int i = 0; i < definition->pool_size; ++i) {
      RegisteredOp& op = registration->ops.emplace_back();
      FillCallbacks(&op);
      op.definition = definition;
      op.api = &api;
      op.bad_ids = &registration->bad_ids;
      op.registered_name = definition->name;
      if (i > 0) op.registered_name += "_" + std::to_string(i);
      Check(api, api.CustomOpDomain_Add(registration->domain, &op));
    }
  }
  return registration;
}

Registration* TakeRegistration(const OrtApi& api) {
  Registrations& registrations = AllRegistrations();
  const std::lock_guard<std::mutex> lock(registrations.mutex);
  for (const auto& registration : registrations.all) {
    if (registration->api == &api && registration->bad_ids.Abandoned()) {
      registration->bad_ids.Reuse();
      return registration.get();
    }
  }
  registrations.all.push_back(NewRegistration(api, registrations.all.size() + 1));
  return registrations.all.back().get();
}

}  // namespace

const OpDefinition* FindOp(const std::string& name, const char* provider) {
  for (const OpDefinition* op : kOps) {
    if (name == op->name && SameProvider(op->provider, provider)) return op;
  }
  return nullptr;
}

}  // namespace dpiframe

extern "C" {

OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace dpiframe;
  const OrtApi* api = base->GetApi(kOrtApiVersion);
  if (api == nullptr) {
    // No status can be made without an interface; the oldest one has the same function.
    const OrtApi* oldest = base->GetApi(1);
    return oldest->CreateStatus(ORT_NOT_IMPLEMENTED, "dpiframe needs ONNX Runtime 1.18 or newer");
  }
  return StatusOf(*api, [&] {
    int registered = 0;
    Check(*api, api->HasSessionConfigEntry(options, kTagEntry, &registered));
    if (registered != 0) return;  // these options have the ops already
    const Registration* registration = TakeRegistration(*api);
    Check(*api, api->AddSessionConfigEntry(options, kTagEntry, registration->tag.c_str()));
    Check(*api, api->AddCustomOpDomain(options, registration->domain));
  });
}

const char* dpiframe_version() { return DPIFRAME_VERSION; }

size_t dpiframe_bad_ids_json(const char* tag, char* buffer, size_t size) {
  dpiframe::Registrations& registrations = dpiframe::AllRegistrations();
  const std::lock_guard<std::mutex> lock(registrations.mutex);
  const dpiframe::Registration* registration = registrations.Find(tag);
  const std::string json = registration == nullptr ? "[]" : registration->bad_ids.Json();
  if (json.size() < size) std::memcpy(buffer, json.c_str(), json.size() + 1);
  return json.size() + 1;
}

void dpiframe_bad_ids_reset(const char* tag) {
  dpiframe::Registrations& registrations = dpiframe::AllRegistrations();
  const std::lock_guard<std::mutex> lock(registrations.mutex);
  if (dpiframe::Registration* registration = registrations.Find(tag)) registration->bad_ids.Reset();
}

}  // extern "C"
