// The tensor core instructions of compute capability 9.0: products of 64 rows with N columns in shared memory. The rows
// are in shared memory, too, or each warp of four holds 16 of them in registers. They run beside the threads until
// WaitForProducts.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace dpiframe::cuda {

// Describes columns of the weight, or rows of A, of 128 bytes each in shared memory, their 16-byte pieces exchanged
// (prepare.cu): 8 take 1024 bytes. `address`: that of 16 values of K of the first, whose 128 bytes start at a
// multiple of 1024.
__device__ __forceinline__ uint64_t PartsAt(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 |
         uint64_t{1} << 62;
}

// Orders the threads' accesses to the registers before the products that follow.
__device__ __forceinline__ void BeginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most kPending groups of products are under way.
template <int kPending>
__device__ __forceinline__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Adds products of 16 values of K to the sums, or sets the sums to them.
template <int kColumns>
struct Products;

// The registers of the sums, as the instruction's text and as its operands. Each list goes on from the one before.
#define DPIFRAME_SUM_NAMES_32                \
  "%0, %1, %2, %3, %4, %5, %6, %7"           \
  ", %8, %9, %10, %11, %12, %13, %14, %15"   \
  ", %16, %17, %18, %19, %20, %21, %22, %23" \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define DPIFRAME_SUM_NAMES_40 \
  DPIFRAME_SUM_NAMES_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define DPIFRAME_SUM_NAMES_64                \
  DPIFRAME_SUM_NAMES_40                      \
  ", %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define DPIFRAME_SUM_NAMES_80                \
  DPIFRAME_SUM_NAMES_64                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71" \
  ", %72, %73, %74, %75, %76, %77, %78, %79"
#define DPIFRAME_EIGHT_SUMS(i)                                                                                \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define DPIFRAME_SUMS_32 \
  DPIFRAME_EIGHT_SUMS(0), DPIFRAME_EIGHT_SUMS(8), DPIFRAME_EIGHT_SUMS(16), DPIFRAME_EIGHT_SUMS(24)
#define DPIFRAME_SUMS_40 DPIFRAME_SUMS_32, DPIFRAME_EIGHT_SUMS(32)
#define DPIFRAME_SUMS_64 DPIFRAME_SUMS_40, DPIFRAME_EIGHT_SUMS(40), DPIFRAME_EIGHT_SUMS(48), DPIFRAME_EIGHT_SUMS(56)
#define DPIFRAME_SUMS_80 DPIFRAME_SUMS_64, DPIFRAME_EIGHT_SUMS(64), DPIFRAME_EIGHT_SUMS(72)

// For a number of columns; s0 is how many sums a thread has, s1 ... s5 the numbers of the operands that follow them.
#define DPIFRAME_PRODUCTS(n, s0, s1, s2, s3, s4, s5)                                                                 \
  template <>                                                                                                        \
  struct Products<n> {                                                                                               \
    static __device__ __forceinline__ void Add(float (&d)[s0], const uint32_t (&a)[4], uint64_t columns, bool add) { \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #s5                                                      \
                   ", 0;\n"                                                                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" DPIFRAME_SUM_NAMES_##s0                \
                   "}, {%" #s0 ", %" #s1 ", %" #s2 ", %" #s3 "}, %" #s4 ", add, 1, 1, 0;\n}\n"                       \
                   : DPIFRAME_SUMS_##s0                                                                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns), "r"(static_cast<int>(add)));          \
    }                                                                                                                \
    static __device__ __forceinline__ void Add(float (&d)[s0], uint64_t rows, uint64_t columns, bool add) {          \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #s2                                                      \
                   ", 0;\n"                                                                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" DPIFRAME_SUM_NAMES_##s0                \
                   "}, %" #s0 ", %" #s1 ", add, 1, 1, 0, 0;\n}\n"                                                    \
                   : DPIFRAME_SUMS_##s0                                                                              \
                   : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));                                           \
    }                                                                                                                \
  };

DPIFRAME_PRODUCTS(64, 32, 33, 34, 35, 36, 37)
DPIFRAME_PRODUCTS(80, 40, 41, 42, 43, 44, 45)
DPIFRAME_PRODUCTS(128, 64, 65, 66, 67, 68, 69)
DPIFRAME_PRODUCTS(160, 80, 81, 82, 83, 84, 85)

#undef DPIFRAME_SUM_NAMES_32
#undef DPIFRAME_SUMS_32
#undef DPIFRAME_SUM_NAMES_40
#undef DPIFRAME_SUMS_40
#undef DPIFRAME_SUM_NAMES_64
#undef DPIFRAME_SUMS_64
#undef DPIFRAME_SUM_NAMES_80
#undef DPIFRAME_SUMS_80
#undef DPIFRAME_EIGHT_SUMS
#undef DPIFRAME_PRODUCTS

}  // namespace dpiframe::cuda
