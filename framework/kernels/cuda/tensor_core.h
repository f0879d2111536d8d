// Warp instructions for 16-bit matrices, and asynchronous copies. Implementations for compute
// capability 8.0 and newer; the emulated runtime has others for plain C++.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "framework/core/dtype.h"

namespace longspan::tensor_core {

// A thread's fragment of 16 x 16 matrices (four of 8 x 8: top left, bottom left, top right, bottom
// right). Of each it has elements 2 (lane % 4) and 2 (lane % 4) + 1 of row lane / 4.
struct Pairs {
  std::uint32_t of[4];
};

#ifdef __CUDACC__

// Shared memory address, as instructions require it.
__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Begins to copy 16 bytes to shared memory, or zeros unless `real`. Both addresses are aligned to
// 16 bytes.
__device__ inline void start_copy(void* to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(from),
               "r"(real ? 16 : 0)
               : "memory");
}
// Commits the copies since the last commit as one group.
__device__ inline void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all of this thread's groups except the last `groups` have completed.
template <int groups>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

// Loads four matrices of 8 x 8: lane 8 m + r gives the address of row r of matrix m in shared
// memory.
__device__ inline Pairs read_matrices(const void* row) {
  Pairs p;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.of[0]), "=r"(p.of[1]), "=r"(p.of[2]), "=r"(p.of[3])
               : "r"(shared_address(row))
               : "memory");
  return p;
}
// Loads four matrices of 8 x 8, each transposed.
__device__ inline Pairs read_transposed(const void* row) {
  Pairs p;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.of[0]), "=r"(p.of[1]), "=r"(p.of[2]), "=r"(p.of[3])
               : "r"(shared_address(row))
               : "memory");
  return p;
}

// sums += a b for a 16 x 16 and b 16 x 8. b is given transposed: its columns as rows, features 0 ..
// 7 and 8 .. 15. In rows lane / 4 and lane / 4 + 8 of the sums, a thread has elements 2 (lane % 4)
// and the next.
template <typename In>
__device__ inline void multiply_add(float (&sums)[4],
                                    const Pairs& a,
                                    std::uint32_t b_first,
                                    std::uint32_t b_second) {
  if constexpr (std::is_same_v<In, BFloat16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b_first), "r"(b_second));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b_first), "r"(b_second));
}

// Two numbers rounded to elements, the first in the lower half.
template <typename In>
__device__ inline std::uint32_t pair_of(float first, float second) {
  std::uint32_t pair;
  if constexpr (std::is_same_v<In, BFloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// Returns 2^x within about 2 ulp.
__device__ inline float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

#else

unsigned shared_address(const void* pointer);
void start_copy(void* to, const void* from, bool real);
void end_copy_group();
void wait_for_copies_but(int groups);
template <int groups>
void wait_for_copies() {
  wait_for_copies_but(groups);
}
Pairs read_matrices(const void* row);
Pairs read_transposed(const void* row);
template <typename In>
void multiply_add(float (&sums)[4], const Pairs& a, std::uint32_t b_first, std::uint32_t b_second);
template <typename In>
std::uint32_t pair_of(float first, float second);
float power_of_two(float x);

#endif

}  // namespace longspan::tensor_core
