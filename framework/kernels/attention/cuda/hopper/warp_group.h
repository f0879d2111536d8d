// Asynchronous products of a group of four warps. The second factor is in shared memory, the first
// in shared memory or registers. These instructions exist only on compute capability 9.0 (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate"). They run concurrently with the warps:
// from `begin` to `wait`, sums and factors must not be accessed.
#pragma once

#include "framework/kernels/cuda/tensor_core.h"

namespace longspan::warp_group {

using tensor_core::Pairs;

// A factor of 16-bit elements in shared memory: consecutive rows of 128 bytes, each in eight pieces
// of 16 bytes. Piece c of row r is in slot c ^ (r % 8). Row 0 is aligned to 1,024 bytes. `begin`
// points to a row that is a multiple of 8, and to a piece in its slot.
struct Factor {
  std::uint64_t descriptor;

  __device__ explicit Factor(const void* begin) {
    constexpr std::uint64_t rows_of_8 = 1024, swizzle_of_128 = 1;
    const std::uint64_t address = tensor_core::shared_address(begin);
    descriptor = (address & 0x3ffff) >> 4 | std::uint64_t{1} << 16 | (rows_of_8 >> 4) << 32 |
                 swizzle_of_128 << 62;
  }
};

// Layout of the second factor of a product of 64 columns and 16 terms: 64 rows and 16 elements from
// its start, or transposed, 16 rows and 64 elements.
enum class Second { rows, transposed };

#ifdef __CUDACC__

// Makes this thread's copies visible to products. Call it before the threads synchronize; products
// may follow the synchronization.
__device__ inline void show_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Prevents the compiler from moving accesses to sums across this point.
template <int count>
__device__ __forceinline__ void hold(float (&sums)[count][4]) {
#pragma unroll
  for (int n = 0; n < count; ++n)
#pragma unroll
    for (int s = 0; s < 4; ++s) asm volatile("" : "+f"(sums[n][s])::"memory");
}
__device__ __forceinline__ void hold(Pairs& pairs) {
#pragma unroll
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(pairs.of[i])::"memory");
}

// Call after the last register access of the products that follow.
__device__ inline void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Commits the products since the last commit as one group.
__device__ inline void end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits for all groups.
__device__ inline void wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

#define LONGSPAN_SUMS_OF(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define LONGSPAN_SUMS_OF_4(n) \
  LONGSPAN_SUMS_OF(n), LONGSPAN_SUMS_OF(n + 1), LONGSPAN_SUMS_OF(n + 2), LONGSPAN_SUMS_OF(n + 3)
#define LONGSPAN_SUMS_OF_8(n) LONGSPAN_SUMS_OF_4(n), LONGSPAN_SUMS_OF_4(n + 4)
#define LONGSPAN_PRODUCT(columns, dtype)                                 \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." dtype "." dtype \
  " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define LONGSPAN_PRODUCT_32(dtype) LONGSPAN_PRODUCT("32", dtype) "}, "
#define LONGSPAN_PRODUCT_64(dtype)                                           \
  LONGSPAN_PRODUCT("64", dtype)                                              \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
  "%30, %31}, "

// A product (32 or 64 columns) of In's dtype; `rest` completes the instruction text.
#define LONGSPAN_MULTIPLY(product, rest, ...)         \
  if constexpr (std::is_same_v<In, BFloat16>)         \
    asm volatile(product("bf16") rest : __VA_ARGS__); \
  else                                                \
    asm volatile(product("f16") rest : __VA_ARGS__)

// sums[first ..] += a b for a 64 x 16 and b 16 x 64. Each thread provides its fragment of the
// warp's 16 rows of a. Its sums have the layout of tensor_core::multiply_add, for 8 columns each.
template <typename In, Second second, int first, int count>
__device__ __forceinline__ void multiply(float (&sums)[count][4], const Pairs& a, Factor b) {
  constexpr int transposed = second == Second::transposed ? 1 : 0;
  LONGSPAN_MULTIPLY(
      LONGSPAN_PRODUCT_64, "{%32, %33, %34, %35}, %36, 1, 1, 1, %37;", LONGSPAN_SUMS_OF_8(first)
      : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "l"(b.descriptor), "n"(transposed));
}
// Product with the rows of both factors in shared memory; b has 32 or 64 rows, as there are
// columns.
template <typename In>
__device__ __forceinline__ void multiply(float (&sums)[4][4], Factor a, Factor b) {
  LONGSPAN_MULTIPLY(LONGSPAN_PRODUCT_32, "%16, %17, 1, 1, 1, 0, 0;", LONGSPAN_SUMS_OF_4(0)
                    : "l"(a.descriptor), "l"(b.descriptor));
}
template <typename In>
__device__ __forceinline__ void multiply(float (&sums)[8][4], Factor a, Factor b) {
  LONGSPAN_MULTIPLY(LONGSPAN_PRODUCT_64, "%32, %33, 1, 1, 1, 0, 0;", LONGSPAN_SUMS_OF_8(0)
                    : "l"(a.descriptor), "l"(b.descriptor));
}

#undef LONGSPAN_MULTIPLY
#undef LONGSPAN_PRODUCT_64
#undef LONGSPAN_PRODUCT_32
#undef LONGSPAN_PRODUCT
#undef LONGSPAN_SUMS_OF_8
#undef LONGSPAN_SUMS_OF_4
#undef LONGSPAN_SUMS_OF

#else

void show_copies();
template <int count>
void hold(float (&)[count][4]) {}
inline void hold(Pairs&) {}
void begin();
void end();
void wait();

// Implementations of the products below: 64 sums for each row, or eight times `count`.
template <typename In>
void multiply_registers(float (*sums)[4], const Pairs& a, Factor b, Second second);
template <typename In>
void multiply_memory(float (*sums)[4], int count, Factor a, Factor b);

template <typename In, Second second, int first, int count>
void multiply(float (&sums)[count][4], const Pairs& a, Factor b) {
  static_assert(first + 8 <= count);
  multiply_registers<In>(sums + first, a, b, second);
}
template <typename In, int count>
void multiply(float (&sums)[count][4], Factor a, Factor b) {
  static_assert(count == 4 || count == 8);
  multiply_memory<In>(sums, count, a, b);
}

#endif

}  // namespace longspan::warp_group
