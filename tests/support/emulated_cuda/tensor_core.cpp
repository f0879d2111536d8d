// Instructions of framework/kernels/cuda/tensor_core.h on the emulated device.
#include "framework/kernels/cuda/tensor_core.h"

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "framework/kernels/cuda/block_reduce.h"
#include "tests/support/emulated_cuda/lanes.h"

namespace longspan::tensor_core {
namespace {

struct Copy {
  void* to;
  const void* from;
  bool real;
};
// Copies of one thread. Their bytes arrive when the thread waits for them, not before.
struct Copies {
  std::vector<Copy> begun;
  std::deque<std::vector<Copy>> groups;
  std::atomic<bool> unshown = false;
};
std::vector<Copies>& copies() {
  static std::vector<Copies> of_threads(1024);
  return of_threads;
}

using emulated_cuda::element_of;
using emulated_cuda::over_lanes;

Pairs read(const void* row, bool transposed) {
  emulated_cuda::expect_shared_piece(row, std::source_location::current());
  return over_lanes(row, [&](const auto& row_of) {
    const unsigned lane = emulated_cuda::lane();
    const auto element = [&](unsigned matrix, unsigned r, unsigned c) {
      std::uint16_t bits;
      const auto* const elements = static_cast<const std::byte*>(row_of(8 * matrix + r));
      std::memcpy(&bits, elements + 2 * c, sizeof(bits));
      return bits;
    };
    Pairs pairs;
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned r = lane / 4, c = lane % 4 * 2;
      const std::uint16_t first = transposed ? element(m, c, r) : element(m, r, c);
      const std::uint16_t second = transposed ? element(m, c + 1, r) : element(m, r, c + 1);
      pairs.of[m] = static_cast<std::uint32_t>(first) | static_cast<std::uint32_t>(second) << 16;
    }
    return pairs;
  });
}

}  // namespace

void start_copy(void* to, const void* from, bool real) {
  const auto place = std::source_location::current();
  emulated_cuda::expect_shared_piece(to, place);
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    emulated_cuda::fail("16 bytes that are not aligned", place);
  std::memset(to, 0xff, 16);  // NaN until the copy arrives
  copies()[threadIdx.x].begun.push_back({to, from, real});
}
void end_copy_group() {
  Copies& mine = copies()[threadIdx.x];
  mine.groups.push_back(std::move(mine.begun));
  mine.begun.clear();
}
void wait_for_copies_but(int groups) {
  Copies& mine = copies()[threadIdx.x];
  while (std::ssize(mine.groups) > groups) {
    for (const Copy& copy : mine.groups.front())
      if (copy.real)
        std::memcpy(copy.to, copy.from, 16);
      else
        std::memset(copy.to, 0, 16);
    mine.unshown = mine.unshown || !mine.groups.front().empty();
    mine.groups.pop_front();
  }
}
unsigned shared_address(const void* pointer) {
  emulated_cuda::expect_shared_piece(pointer, std::source_location::current());
  return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - longspan_shared_bytes);
}

Pairs read_matrices(const void* row) { return read(row, false); }
Pairs read_transposed(const void* row) { return read(row, true); }

template <typename In>
LONGSPAN_REGISTERS void multiply_add(float (&sums)[4],
                                     const Pairs& a,
                                     std::uint32_t b_first,
                                     std::uint32_t b_second) {
  struct Factors {
    Pairs a;
    std::uint32_t b[2];
  };
  emulated_cuda::give_value(Factors{a, {b_first, b_second}}, std::source_location::current());
  // Four lanes have rows lane / 4 and lane / 4 + 8 of a; four lanes have the columns of b.
  const unsigned lane = emulated_cuda::lane();
  float left[2][16], right[2][16];
  for (unsigned c = 0; c < 4; ++c) {
    const auto rows = emulated_cuda::given_value<Factors>(lane / 4 * 4 + c);
    const Factors columns[2] = {emulated_cuda::given_value<Factors>(lane % 4 * 8 + c),
                                emulated_cuda::given_value<Factors>(lane % 4 * 8 + 4 + c)};
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned e = 0; e < 2; ++e)
        for (unsigned r = 0; r < 2; ++r) {
          const unsigned k = 8 * half + 2 * c + e;
          left[r][k] = element_of<In>(rows.a.of[r + half * 2], e);
          right[r][k] = element_of<In>(columns[r].b[half], e);
        }
  }
  for (unsigned s = 0; s < 4; ++s)
    for (unsigned k = 0; k < 16; ++k) sums[s] += left[s / 2][k] * right[s % 2][k];
}
template void multiply_add<BFloat16>(float (&)[4], const Pairs&, std::uint32_t, std::uint32_t);
template void multiply_add<Float16>(float (&)[4], const Pairs&, std::uint32_t, std::uint32_t);

template <typename In>
std::uint32_t pair_of(float first, float second) {
  const auto bits = [](float x) { return std::uint32_t{std::bit_cast<std::uint16_t>(In(x))}; };
  return bits(first) | bits(second) << 16;
}
template std::uint32_t pair_of<BFloat16>(float, float);
template std::uint32_t pair_of<Float16>(float, float);

float power_of_two(float x) { return std::exp2(x); }

}  // namespace longspan::tensor_core

bool emulated_cuda::has_unshown_copies(unsigned thread) {
  return longspan::tensor_core::copies()[thread].unshown;
}
void emulated_cuda::show_copies() { longspan::tensor_core::copies()[threadIdx.x].unshown = false; }
