// The library's entry point: registers every op under every name of its pool.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "bad_id_registry.h"
#include "exports.h"
#include "op.h"
#include "ort_node.h"

namespace dpiframe {
namespace {

constexpr const char* kDomain = "dpiframe";
constexpr const char* kTagEntry = "dpiframe.session";
constexpr const char* kLibraryEntry = "dpiframe.library";

const OpDefinition* const kOps[] = {
    &kFusedElementwiseCpu,  &kFusedGemmCpu,  &kFusedMultiGatherCpu,  &kParallelRegionCpu,
#ifdef DPIFRAME_WITH_CUDA
    &kFusedElementwiseCuda, &kFusedGemmCuda, &kFusedMultiGatherCuda, &kParallelRegionCuda,
#endif
};

// The file that this code lies in; empty where it can't be known, or is too long for an entry of session options.
std::string LibraryPath() {
  constexpr size_t kLongest = 1000;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&RegisterCustomOps), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::unique_ptr<char, decltype(&std::free)> path(realpath(info.dli_fname, nullptr), &std::free);
  if (path == nullptr || std::strlen(path.get()) > kLongest) return "";
  return path.get();
}

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

// An op under one name. ONNX Runtime keeps pointers to it for as long as sessions and options live, and says nothing
// when they go; so ops are never freed.
struct RegisteredOp : OrtCustomOp {
  const OpDefinition* definition;
  const OrtApi* api;
  std::string registered_name;
};

// Of the session that this thread makes or has made last.
thread_local BadIdRegistry* kernels_to_come = nullptr;

// Where ONNX Runtime has made kernels on another thread than it promised, they count for nobody.
BadIdRegistry* RegistryOfNewKernels() {
  static BadIdRegistry* const nobodys = new BadIdRegistry();
  return kernels_to_come != nullptr ? kernels_to_come : nobodys;
}

const RegisteredOp& Registered(const OrtCustomOp* op) { return *static_cast<const RegisteredOp*>(op); }

void Describe(const OpDefinition* definition, const OrtApi& api, RegisteredOp* op) {
  op->definition = definition;
  op->api = &api;
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
      *kernel =
          self.definition->create_kernel(OrtNodeInfo(*self.api, info, self.registered_name, RegistryOfNewKernels()));
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

// The ops of all session options of one ONNX Runtime.
struct SharedOps {
  const OrtApi* api = nullptr;
  OrtCustomOpDomain* domain = nullptr;
  std::deque<RegisteredOp> ops;  // a deque keeps its elements in place
};

std::unique_ptr<SharedOps> NewSharedOps(const OrtApi& api) {
  auto shared = std::make_unique<SharedOps>();
  shared->api = &api;
  Check(api, api.CreateCustomOpDomain(kDomain, &shared->domain));
  for (const OpDefinition* definition : kOps) {
    if (!HasProvider(api, definition->provider)) continue;
    for (int i = 0; i < definition->pool_size; ++i) {
      RegisteredOp& op = shared->ops.emplace_back();
      Describe(definition, api, &op);
      op.registered_name = definition->name;
      if (i > 0) op.registered_name += "_" + std::to_string(i);
      Check(api, api.CustomOpDomain_Add(shared->domain, &op));
    }
  }
  return shared;
}

// What one call of RegisterCustomOps gave to session options, beside the shared ops. Never freed either: it is small.
struct Registration : RegisteredOp {
  OrtCustomOpDomain* domain = nullptr;
  mutable BadIdRegistry bad_ids;  // ops are const to ONNX Runtime
};

std::unique_ptr<Registration> NewRegistration(const OrtApi& api) {
  auto registration = std::make_unique<Registration>();
  Describe(kOps[0], api, registration.get());
  registration->GetName = [](const OrtCustomOp* op) -> const char* {
    kernels_to_come = &static_cast<const Registration*>(op)->bad_ids;
    return "Session";
  };
  Check(api, api.CreateCustomOpDomain(kTagEntry, &registration->domain));
  Check(api, api.CustomOpDomain_Add(registration->domain, registration.get()));
  return registration;
}

class Registrations {
 public:
  // Adds the shared ops and an op of their own to options, and says in them who counts for their sessions.
  void Register(const OrtApi& api, OrtSessionOptions* options) {
    const std::lock_guard<std::mutex> lock(mutex_);
    OrtCustomOpDomain* const shared = SharedDomain(api);
    const std::string tag = NextTag();
    const Registration& registration = *all_.emplace(tag, NewRegistration(api)).first->second;
    Check(api, api.AddSessionConfigEntry(options, kTagEntry, tag.c_str()));
    if (!library_.empty()) Check(api, api.AddSessionConfigEntry(options, kLibraryEntry, library_.c_str()));
    Check(api, api.AddCustomOpDomain(options, shared));
    Check(api, api.AddCustomOpDomain(options, registration.domain));
  }

  // Null where this library has written no such tag.
  BadIdRegistry* Find(const char* tag) {
    if (tag == nullptr) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = all_.find(tag);
    return found == all_.end() ? nullptr : &found->second->bad_ids;
  }

 private:
  OrtCustomOpDomain* SharedDomain(const OrtApi& api) {
    for (const auto& shared : shared_) {
      if (shared->api == &api) return shared->domain;
    }
    shared_.push_back(NewSharedOps(api));
    return shared_.back()->domain;
  }

  // A process may hold several copies of the library, whose tags must differ.
  std::string NextTag() const {
    return std::to_string(reinterpret_cast<uintptr_t>(this)) + "." + std::to_string(all_.size() + 1);
  }

  // Asked once: a link that led to the file may lead elsewhere later, and the loader would still give this library.
  const std::string library_ = LibraryPath();
  std::mutex mutex_;
  std::vector<std::unique_ptr<SharedOps>> shared_;
  std::unordered_map<std::string, std::unique_ptr<Registration>> all_;  // by tag
};

// Never destroyed: kernels may outlive static objects.
Registrations& AllRegistrations() {
  static Registrations* const registrations = new Registrations();
  return *registrations;
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
    AllRegistrations().Register(*api, options);
  });
}

const char* dpiframe_version() { return DPIFRAME_VERSION; }

size_t dpiframe_bad_ids_json(const char* tag, char* buffer, size_t size) {
  const dpiframe::BadIdRegistry* const bad_ids = dpiframe::AllRegistrations().Find(tag);
  if (bad_ids == nullptr) return 0;
  const std::string json = bad_ids->Json();
  if (json.size() < size) std::memcpy(buffer, json.c_str(), json.size() + 1);
  return json.size() + 1;
}

int dpiframe_bad_ids_reset(const char* tag) {
  dpiframe::BadIdRegistry* const bad_ids = dpiframe::AllRegistrations().Find(tag);
  if (bad_ids != nullptr) bad_ids->Reset();
  return bad_ids != nullptr ? 1 : 0;
}

}  // extern "C"
