#include "device.cuh"
#include "interpreter_launch.h"

namespace dpiframe::cuda {
namespace {

constexpr int kThreads = 128;

template <typename S>
struct StoredAs {
  using Type = S;
};

// Calls `work` with the type in which values of a type are stored.
template <typename Work>
__device__ void WithType(ScalarType type, Work&& work) {
  switch (type) {
    case ScalarType::kFloat32:
      return work(StoredAs<float>());
    case ScalarType::kFloat16:
      return work(StoredAs<Half>());
    case ScalarType::kFloat64:
      return work(StoredAs<double>());
    case ScalarType::kInt32:
      return work(StoredAs<Int32>());
    case ScalarType::kInt64:
      return work(StoredAs<Int64>());
    case ScalarType::kBool:
      return work(StoredAs<Bool>());
  }
}

template <typename S>
struct TypeBit;
template <>
struct TypeBit<float> {
  static constexpr int kBit = 1 << static_cast<int>(ScalarType::kFloat32);
};
template <>
struct TypeBit<Half> {
  static constexpr int kBit = 1 << static_cast<int>(ScalarType::kFloat16);
};
template <>
struct TypeBit<double> {
  static constexpr int kBit = 1 << static_cast<int>(ScalarType::kFloat64);
};
template <>
struct TypeBit<Int32> {
  static constexpr int kBit = 1 << static_cast<int>(ScalarType::kInt32);
};
template <>
struct TypeBit<Int64> {
  static constexpr int kBit = 1 << static_cast<int>(ScalarType::kInt64);
};
template <>
struct TypeBit<Bool> {
  static constexpr int kBit = 1 << static_cast<int>(ScalarType::kBool);
};

// The row that a block is at.
struct Row {
  const InterpreterArguments& a;
  char* memory;
  long long row;
  long long row0;
  long long row1;

  __device__ const char* AddressOf(const StepOperand& operand) const {
    if (operand.input < 0) return memory + operand.place;
    const char* const input = reinterpret_cast<const char*>(a.addresses[operand.input]);
    const bool outer = (operand.mask & 1) != 0;
    const bool inner = (operand.mask & 2) != 0;
    const long long own = outer && inner ? row : outer ? row0 : inner ? row1 : 0;
    return input + own * static_cast<long long>(operand.place);
  }
};

__device__ unsigned Strided(const int32_t* sizes, int rank, const int32_t* strides, unsigned element) {
  unsigned index = 0;
  for (int axis = rank - 1; axis >= 0; --axis) {
    const unsigned size = static_cast<unsigned>(sizes[axis]);
    index += element % size * static_cast<unsigned>(strides[axis]);
    element /= size;
  }
  return index;
}

template <typename S>
__device__ Compute<S> Load(const char* from, unsigned element) {
  return Widen(reinterpret_cast<const S*>(from)[element]);
}

template <typename S>
__device__ void Store(char* to, unsigned element, Compute<S> value) {
  reinterpret_cast<S*>(to)[element] = Narrow<S>(value);
}

// One element of any operator but `where`, whose operands differ in type.
template <typename S>
__device__ void Apply(ElementwiseOp op, Compute<S> x, Compute<S> y, Compute<S> z, char* to, unsigned element) {
  using T = Compute<S>;
  switch (op) {
#define DPIFRAME_OPERATOR(enumerator, name, arity, types, gives_bool, code)                                  \
  case ElementwiseOp::enumerator:                                                                            \
    if constexpr (((types) & TypeBit<S>::kBit) != 0 && ElementwiseOp::enumerator != ElementwiseOp::kWhere) { \
      if constexpr (gives_bool) {                                                                            \
        Store<Bool>(to, element, static_cast<Bool>(code));                                                   \
      } else {                                                                                               \
        Store<S>(to, element, static_cast<T>(code));                                                         \
      }                                                                                                      \
    }                                                                                                        \
    return;
#include "elementwise_operators.inc"
#undef DPIFRAME_OPERATOR
  }
}

template <typename S>
__device__ void RunOperator(const InterpreterStep& step, const StepOperand* operands, const char* const* from,
                            char* to) {
  const ElementwiseOp op = static_cast<ElementwiseOp>(step.rule);
  for (unsigned i = threadIdx.x; i < step.elements; i += kThreads) {
    unsigned index[3];
    for (unsigned n = 0; n < 3; ++n) {
      const unsigned operand = n < step.operands ? n : 0;
      index[n] = Strided(step.sizes, step.rank, operands[operand].strides, i);
    }
    using T = Compute<S>;
    const T y = step.operands > 1 ? Load<S>(from[1], index[1]) : T();
    const T z = step.operands > 2 ? Load<S>(from[2], index[2]) : T();
    if (op == ElementwiseOp::kWhere) {
      Store<S>(to, i, Load<Bool>(from[0], index[0]) != 0 ? y : z);
    } else {
      Apply<S>(op, Load<S>(from[0], index[0]), y, z, to, i);
    }
  }
}

// What elements are added up in: long chains of additions of floats lose too much.
template <typename S>
struct TotalOf {
  using Type = S;
};
template <>
struct TotalOf<float> {
  using Type = double;
};
template <>
struct TotalOf<Half> {
  using Type = double;
};
template <typename S>
using Total = typename TotalOf<S>::Type;

template <typename S, typename Rule>
__device__ void RunReduction(const InterpreterStep& step, const StepOperand* operands, const char* from, char* to) {
  using T = Total<S>;
  // A warp makes one result at a time.
  for (unsigned o = threadIdx.x / 32; o < step.elements; o += kThreads / 32) {
    const unsigned first = Strided(step.sizes, step.rank, operands[0].strides, o);
    T total = Rule::template Start<T>();
    for (unsigned i = threadIdx.x % 32; i < step.inner; i += 32) {
      const unsigned index = first + Strided(step.inner_sizes, step.inner_rank, operands[1].strides, i);
      total = Rule::Join(total, T(Load<S>(from, index)));
    }
    for (int distance = 1; distance < 32; distance *= 2) total = Rule::Join(total, FromLane(total, distance));
    if (threadIdx.x % 32 == 0) Store<S>(to, o, Compute<S>(total));
  }
}

template <typename S>
__device__ void RunReduction(const InterpreterStep& step, const StepOperand* operands, const char* from, char* to) {
  if constexpr (TypeBit<S>::kBit != TypeBit<Bool>::kBit) {
    switch (static_cast<ReduceOp>(step.rule)) {
      case ReduceOp::kSum:
        return RunReduction<S, Sum>(step, operands, from, to);
      case ReduceOp::kMax:
        return RunReduction<S, Largest>(step, operands, from, to);
      case ReduceOp::kMin:
        return RunReduction<S, Smallest>(step, operands, from, to);
      case ReduceOp::kProd:
        return RunReduction<S, Product>(step, operands, from, to);
    }
  }
}

// Casts where the types differ, and moves elements about.
template <typename S>
__device__ void RunMove(const InterpreterStep& step, const StepOperand* operands, const Row& row, char* to) {
  const int32_t* const table = row.a.tables + step.table;
  const char* const from = row.AddressOf(operands[0]);
  for (unsigned i = threadIdx.x; i < step.elements; i += kThreads) {
    if (step.kind == StepKind::kOutput) {
      reinterpret_cast<S*>(to)[i] = reinterpret_cast<const S*>(from)[i];
    } else if (step.kind == StepKind::kStrided) {
      const unsigned index = Strided(step.sizes, step.rank, operands[0].strides, i);
      reinterpret_cast<S*>(to)[i] = reinterpret_cast<const S*>(from)[static_cast<unsigned>(step.offset) + index];
    } else if (step.kind == StepKind::kPick) {
      reinterpret_cast<S*>(to)[i] = reinterpret_cast<const S*>(from)[table[i]];
    } else {
      const unsigned joined = static_cast<unsigned>(table[step.operands]);
      const unsigned before = i / joined;
      const unsigned inside = i % joined;
      unsigned low = 0;
      for (unsigned high = step.operands; high - low > 1;) {
        const unsigned middle = (low + high) / 2;
        (inside < static_cast<unsigned>(table[middle]) ? high : low) = middle;
      }
      const unsigned first = static_cast<unsigned>(table[low]);
      const unsigned count = static_cast<unsigned>(table[low + 1]) - first;
      const S* const part = reinterpret_cast<const S*>(row.AddressOf(operands[low]));
      reinterpret_cast<S*>(to)[i] = part[before * count + inside - first];
    }
  }
}

template <typename From>
__device__ void RunCast(const InterpreterStep& step, const StepOperand* operands, const char* from, char* to) {
  WithType(step.type, [&](auto stored) {
    using To = typename decltype(stored)::Type;
    for (unsigned i = threadIdx.x; i < step.elements; i += kThreads) {
      const unsigned index = Strided(step.sizes, step.rank, operands[0].strides, i);
      Store<To>(to, i, Caster<To, From>::Cast(Load<From>(from, index)));
    }
  });
}

__device__ void RunStep(const InterpreterStep& step, const Row& row) {
  const StepOperand* const operands = row.a.operands + step.first_operand;
  char* const to = row.memory + step.result;
  WithType(step.from, [&](auto stored) {
    using S = typename decltype(stored)::Type;
    switch (step.kind) {
      case StepKind::kConst:
        if (threadIdx.x < sizeof(S)) to[threadIdx.x] = static_cast<char>(step.bits >> (8 * threadIdx.x));
        return;
      case StepKind::kOperator: {
        const char* from[3] = {};
        for (unsigned i = 0; i < step.operands; ++i) from[i] = row.AddressOf(operands[i]);
        return RunOperator<S>(step, operands, from, to);
      }
      case StepKind::kCast:
        return RunCast<S>(step, operands, row.AddressOf(operands[0]), to);
      case StepKind::kReduce:
        return RunReduction<S>(step, operands, row.AddressOf(operands[0]), to);
      case StepKind::kOutput: {
        char* const output = reinterpret_cast<char*>(row.a.addresses[row.a.input_count + step.result]);
        return RunMove<S>(step, operands, row, output + row.row * step.elements * static_cast<long long>(sizeof(S)));
      }
      case StepKind::kStrided:
      case StepKind::kPick:
      case StepKind::kJoin:
        return RunMove<S>(step, operands, row, to);
    }
  });
}

__global__ void __launch_bounds__(kThreads) Interpret(const __grid_constant__ InterpreterArguments a) {
  char* const memory = a.memory + blockIdx.x * a.memory_bytes;
  for (long long number = blockIdx.x; number < a.rows; number += gridDim.x) {
    const Row row{a, memory, number, number / a.inner_rows, number % a.inner_rows};
    for (unsigned i = 0; i < a.step_count; ++i) {
      RunStep(a.steps[i], row);
      __syncthreads();
    }
  }
}

}  // namespace

cudaError_t LoadInterpreter() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&Interpret));
}

cudaError_t LaunchInterpreter(unsigned blocks, const InterpreterArguments& arguments, const Launcher& launcher) {
  void* parameters[] = {const_cast<InterpreterArguments*>(&arguments)};
  return launcher.Launch(reinterpret_cast<const void*>(&Interpret), {dim3(blocks), dim3(kThreads)}, parameters);
}

}  // namespace dpiframe::cuda
