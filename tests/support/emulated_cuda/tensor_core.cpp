// The instructions of framework/kernels/cuda/tensor_core.h on the emulated device.
#include "framework/kernels/cuda/tensor_core.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

namespace longspan::tensor_core {
namespace {

struct Copy {
  void* to;
  const void* from;
  bool real;
};
// Of each thread of a block: what a copy brings is there when it has been waited for, not before.
struct Copies {
  std::vector<Copy> begun;
  std::deque<std::vector<Copy>> groups;
};
std::vector<Copies>& copies() {
  static std::vector<Copies> of_threads(1024);
  return of_threads;
}

// What every lane gives, in every lane.
template <typename T>
std::array<T, 32> over_lanes(const T& value) {
  static_assert(sizeof(T) <= 16);
  const auto place = std::source_location::current();
  std::memcpy(emulated_cuda::slot(emulated_cuda::lane()), &value, sizeof(T));
  emulated_cuda::meet_in_warp(place);
  std::array<T, 32> all;
  for (unsigned lane = 0; lane < 32; ++lane)
    std::memcpy(&all[lane], emulated_cuda::slot(lane), sizeof(T));
  emulated_cuda::meet_in_warp(place);
  return all;
}

Pairs read(const void* row, bool transposed) {
  const auto rows = over_lanes(row);
  const unsigned lane = emulated_cuda::lane();
  const auto element = [&](unsigned matrix, unsigned r, unsigned c) {
    std::uint16_t bits;
    std::memcpy(&bits, static_cast<const std::byte*>(rows[8 * matrix + r]) + 2 * c, sizeof(bits));
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
}

template <typename In>
float element_of(std::uint32_t pair, unsigned half) {
  const auto bits = static_cast<std::uint16_t>(pair >> (16 * half));
  return static_cast<float>(std::bit_cast<In>(bits));
}

}  // namespace

void begin_copy(void* to, const void* from, bool real) {
  std::memset(to, 0xff, 16);  // from now on it may be written: nobody reads it
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
    mine.groups.pop_front();
  }
}

Pairs read_matrices(const void* row) { return read(row, false); }
Pairs read_transposed(const void* row) { return read(row, true); }

template <typename In>
void multiply_add(float (&sums)[4], const Pairs& a, std::uint32_t b_first, std::uint32_t b_second) {
  const auto left = over_lanes(a);
  const auto right = over_lanes(std::array{b_first, b_second});
  const unsigned lane = emulated_cuda::lane();
  for (unsigned s = 0; s < 4; ++s) {
    const unsigned row = lane / 4 + s / 2 * 8, column = lane % 4 * 2 + s % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const Pairs& of_row = left[row % 8 * 4 + k % 8 / 2];
      const float x = element_of<In>(of_row.of[row / 8 + k / 8 * 2], k % 2);
      const float y = element_of<In>(right[column * 4 + k % 8 / 2][k / 8], k % 2);
      sums[s] += x * y;
    }
  }
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
