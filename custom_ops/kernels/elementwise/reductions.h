// Leaves of reductions, plain and of products. Included once for each instruction set: internal linkage.
#pragma once

#include <cstdint>
#include <type_traits>

#include "leaf.h"
#include "vectors.h"

namespace dpiframe {
namespace {

// What is reduced: an array, or the products of two.
template <typename T>
struct Plain {
  using Element = T;
  const char* a;
  template <typename V>
  V At(int64_t j) const {
    return Load<V>(a + j * static_cast<int64_t>(sizeof(T)));
  }
};

template <typename T>
struct Product {
  using Element = T;
  const char* a;
  const char* b;
  template <typename V>
  V At(int64_t j) const {
    const int64_t at = j * static_cast<int64_t>(sizeof(T));
    return Load<V>(a + at) * Load<V>(b + at);
  }
};

// The rest of a run, from element j on, joined to the lanes of `total`.
template <ReduceOp kOp, size_t kBytes, typename Source>
inline typename Source::Element FinishRun(Vector<typename Source::Element, kBytes> total, const Source& source,
                                          int64_t j, int64_t count) {
  using T = typename Source::Element;
  constexpr int64_t kLanes = kBytes / sizeof(T);
  if constexpr (kBytes > kNarrowestBytes) {
    using V = Vector<T, kBytes / 2>;
    constexpr std::make_index_sequence<kLanes / 2> kHalf{};
    V half = Combine<kOp, V>(Half(total, kHalf, std::integral_constant<size_t, 0>{}),
                             Half(total, kHalf, std::integral_constant<size_t, 1>{}));
    if (j + kLanes / 2 <= count) {
      half = Combine<kOp>(half, source.template At<V>(j));
      j += kLanes / 2;
    }
    return FinishRun<kOp, kBytes / 2>(half, source, j, count);
  } else {
    T result = CombineLanes<kOp, T>(total);
    for (; j < count; ++j) result = Combine<kOp>(result, source.template At<T>(j));
    return result;
  }
}

template <ReduceOp kOp, size_t kBytes = kVectorBytes, typename Source>
inline typename Source::Element ReduceRun(const Source& source, int64_t count) {
  using T = typename Source::Element;
  using V = Vector<T, kBytes>;
  constexpr int64_t kLanes = kBytes / sizeof(T);
  if (count < kLanes) {
    if constexpr (kBytes > kNarrowestBytes) {
      return ReduceRun<kOp, kBytes / 2>(source, count);
    } else {
      T result = source.template At<T>(0);
      for (int64_t j = 1; j < count; ++j) result = Combine<kOp>(result, source.template At<T>(j));
      return result;
    }
  }
  V total = source.template At<V>(0);
  int64_t j = kLanes;
  if (count >= 4 * kLanes) {
    V second = source.template At<V>(j);
    V third = source.template At<V>(j + kLanes);
    V fourth = source.template At<V>(j + 2 * kLanes);
    for (j = 4 * kLanes; j + 4 * kLanes <= count; j += 4 * kLanes) {
      total = Combine<kOp>(total, source.template At<V>(j));
      second = Combine<kOp>(second, source.template At<V>(j + kLanes));
      third = Combine<kOp>(third, source.template At<V>(j + 2 * kLanes));
      fourth = Combine<kOp>(fourth, source.template At<V>(j + 3 * kLanes));
    }
    total = Combine<kOp>(Combine<kOp>(total, second), Combine<kOp>(third, fourth));
  }
  for (; j + kLanes <= count; j += kLanes) total = Combine<kOp>(total, source.template At<V>(j));
  if ((kOp == ReduceOp::kMax || kOp == ReduceOp::kMin) && j < count) {  // an element may be taken twice
    total = Combine<kOp>(total, source.template At<V>(count - kLanes));
    j = count;
  }
  return FinishRun<kOp, kBytes>(total, source, j, count);
}

// What changes no total.
template <ReduceOp kOp, typename T>
constexpr T Neutral() {
  if (kOp == ReduceOp::kSum) return T(0);
  if (kOp == ReduceOp::kProd) return T(1);
  if constexpr (std::is_floating_point<T>::value) return kOp == ReduceOp::kMax ? -__builtin_inf() : __builtin_inf();
  constexpr T kLargest = static_cast<T>(~uint64_t{0} >> (65 - 8 * sizeof(T)));
  return kOp == ReduceOp::kMax ? -kLargest - 1 : kLargest;
}

// Runs shorter than a vector, each read with what lies behind it, which is then left out. Returns how many were done:
// the last ones have not enough behind them.
template <ReduceOp kOp, typename T, size_t kBytes = kVectorBytes>
inline int64_t ReduceShortRuns(const LeafArgs& args) {
  using V = Vector<T, kBytes>;
  constexpr int64_t kLanes = kBytes / sizeof(T);
  const int64_t count = args.sizes[1];
  if constexpr (kBytes > kNarrowestBytes) {
    if (count <= kLanes / 2) return ReduceShortRuns<kOp, T, kBytes / 2>(args);
  }
  const int64_t step = args.strides[1][0];
  if (count >= kLanes || count < 2 || step < count * static_cast<int64_t>(sizeof(T))) return 0;
  Vector<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>, kBytes> mine;
  for (int64_t lane = 0; lane < kLanes; ++lane) mine[lane] = lane < count ? -1 : 0;
  const V neutral = Splat<V>(Neutral<kOp, T>());
  const int64_t readable = (args.sizes[0] - 1) * step + count * static_cast<int64_t>(sizeof(T));
  int64_t i = 0;
  for (; i * step + static_cast<int64_t>(kBytes) <= readable; ++i) {
    const char* const run = args.data[1] + i * step;
    const V values = mine ? Load<V>(run) : neutral;
    Store(FinishRun<kOp, kBytes>(values, Plain<T>{run}, 0, 0), args.data[0] + i * args.strides[0][0]);
  }
  return i;
}

template <ReduceOp kOp, typename T>
void ReduceInnerLeaf(const LeafArgs& args) {
  for (int64_t i = ReduceShortRuns<kOp, T>(args); i < args.sizes[0]; ++i) {
    const Plain<T> source{args.data[1] + i * args.strides[1][0]};
    Store(ReduceRun<kOp>(source, args.sizes[1]), args.data[0] + i * args.strides[0][0]);
  }
}

template <typename T>
void DotInnerLeaf(const LeafArgs& args) {
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    const Product<T> source{args.data[1] + i * args.strides[1][0], args.data[2] + i * args.strides[2][0]};
    Store(ReduceRun<ReduceOp::kSum>(source, args.sizes[1]), args.data[0] + i * args.strides[0][0]);
  }
}

// Two totals, so that an addition doesn't wait for the one before.
template <ReduceOp kOp, typename V, typename At>
inline V ReduceColumn(int64_t count, At&& at) {
  V total = at(int64_t{0});
  if (count == 1) return total;
  V second = at(int64_t{1});
  int64_t j = 2;
  for (; j + 2 <= count; j += 2) {
    total = Combine<kOp, V>(total, at(j));
    second = Combine<kOp, V>(second, at(j + 1));
  }
  if (j < count) total = Combine<kOp, V>(total, at(j));
  return Combine<kOp, V>(total, second);
}

template <ReduceOp kOp, typename T>
void ReduceMiddleLeaf(const LeafArgs& args) {
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    char* const out = args.data[0] + i * args.strides[0][0];
    const char* const a = args.data[1] + i * args.strides[1][0];
    ForPieces<T>(args.sizes[2], [&](auto piece, int64_t k) {
      using V = decltype(piece);
      const int64_t at = k * static_cast<int64_t>(sizeof(T));
      const auto term = [&](int64_t j) { return Load<V>(a + j * args.strides[1][1] + at); };
      Store(ReduceColumn<kOp, V>(args.sizes[1], term), out + at);
    });
  }
}

template <typename T, bool kBroadcastB>
void DotMiddleLeaf(const LeafArgs& args) {
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    char* const out = args.data[0] + i * args.strides[0][0];
    const char* const a = args.data[1] + i * args.strides[1][0];
    const char* const b = args.data[2] + i * args.strides[2][0];
    ForPieces<T>(args.sizes[2], [&](auto piece, int64_t k) {
      using V = decltype(piece);
      const int64_t at = k * static_cast<int64_t>(sizeof(T));
      const auto term = [&](int64_t j) -> V {
        const V x = Load<V>(a + j * args.strides[1][1] + at);
        if constexpr (kBroadcastB) return x * Splat<V>(Load<T>(b + j * args.strides[2][1]));
        return x * Load<V>(b + j * args.strides[2][1] + at);
      };
      Store(ReduceColumn<ReduceOp::kSum, V>(args.sizes[1], term), out + at);
    });
  }
}

// kRows rows and kColumns vectors of the result at a time share what is loaded.
template <int kRows, int kColumns, typename T, typename V>
inline void ContractTile(const LeafArgs& args, int64_t i, int64_t k) {
  const int64_t at = k * static_cast<int64_t>(sizeof(T));
  const char* const a = args.data[1] + i * args.strides[1][0];
  const char* const b = args.data[2] + at;
  V totals[kRows][kColumns];
  const auto add = [&](int64_t j, auto first) {
    V y[kColumns];
    for (int column = 0; column < kColumns; ++column) {
      y[column] = Load<V>(b + j * args.strides[2][1] + column * static_cast<int64_t>(sizeof(V)));
    }
    for (int row = 0; row < kRows; ++row) {
      const V x = Splat<V>(Load<T>(a + row * args.strides[1][0] + j * args.strides[1][1]));
      for (int column = 0; column < kColumns; ++column) {
        if constexpr (decltype(first)::value) {
          totals[row][column] = x * y[column];
        } else {
          totals[row][column] += x * y[column];
        }
      }
    }
  };
  add(0, std::true_type{});
  for (int64_t j = 1; j < args.sizes[1]; ++j) add(j, std::false_type{});
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      Store(totals[row][column],
            args.data[0] + (i + row) * args.strides[0][0] + at + column * static_cast<int64_t>(sizeof(V)));
    }
  }
}

template <int kColumns, typename T, typename V>
inline void ContractColumns(const LeafArgs& args, int64_t k) {
  int64_t i = 0;
  for (; i + 6 <= args.sizes[0]; i += 6) ContractTile<6, kColumns, T, V>(args, i, k);
  for (; i + 3 <= args.sizes[0]; i += 3) ContractTile<3, kColumns, T, V>(args, i, k);
  for (; i < args.sizes[0]; ++i) ContractTile<1, kColumns, T, V>(args, i, k);
}

template <typename T>
void ContractLeaf(const LeafArgs& args) {
  constexpr int64_t kPair = 2 * kVectorBytes / sizeof(T);
  int64_t k = 0;
  for (; k + kPair <= args.sizes[2]; k += kPair) ContractColumns<2, T, Vector<T>>(args, k);
  ForPieces<T>(args.sizes[2], [&](auto piece, int64_t at) { ContractColumns<1, T, decltype(piece)>(args, at); }, k);
}

template <ReduceOp kOp>
Leaf ReductionOf(Stored type, bool inner) {
  switch (type) {
    case Stored::kFloat:
      return inner ? ReduceInnerLeaf<kOp, float> : ReduceMiddleLeaf<kOp, float>;
    case Stored::kDouble:
      return inner ? ReduceInnerLeaf<kOp, double> : ReduceMiddleLeaf<kOp, double>;
    case Stored::kInt32:
      return inner ? ReduceInnerLeaf<kOp, int32_t> : ReduceMiddleLeaf<kOp, int32_t>;
    case Stored::kInt64:
      return inner ? ReduceInnerLeaf<kOp, int64_t> : ReduceMiddleLeaf<kOp, int64_t>;
    default:
      return nullptr;
  }
}

inline Leaf FindReduction(ReduceOp op, Stored type, bool inner) {
  switch (op) {
    case ReduceOp::kSum:
      return ReductionOf<ReduceOp::kSum>(type, inner);
    case ReduceOp::kMax:
      return ReductionOf<ReduceOp::kMax>(type, inner);
    case ReduceOp::kMin:
      return ReductionOf<ReduceOp::kMin>(type, inner);
    case ReduceOp::kProd:
      return ReductionOf<ReduceOp::kProd>(type, inner);
  }
  return nullptr;
}

}  // namespace
}  // namespace dpiframe
