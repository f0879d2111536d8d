// Instructions of framework/kernels/attention/cuda/hopper/warp_group.h on the emulated device.
// Checks that a GPU does not have: sums are NaN until the wait. Factors do not change before it.
// Arrived copies are visible before the product.
#include "framework/kernels/attention/cuda/hopper/warp_group.h"

#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "framework/kernels/cuda/block_reduce.h"
#include "tests/support/emulated_cuda/lanes.h"

namespace longspan::warp_group {
namespace {

using emulated_cuda::fail;
using Products = std::array<float, 32>;  // per thread: 8 columns by 4
constexpr unsigned terms = 16;

struct Begun {
  float (*sums)[4];
  int count;
  Products product;
  std::function<Products()> again;
  Products before = {};  // previous sums; only of the first product that adds to them
  bool is_first = true;
};
// State of one thread.
struct Group {
  bool began = false;
  std::vector<Begun> begun;
  std::vector<Begun> ended;
};
Group& mine() {
  static std::vector<Group> of_threads(1024);
  return of_threads[threadIdx.x];
}

// A factor in shared memory, decoded from its descriptor.
class Memory {
 public:
  explicit Memory(Factor factor)
      : begin_(field(factor, 0, 14) << 4), rows_of_8_(field(factor, 32, 14) << 4) {
    if (field(factor, 62, 2) != 1 || field(factor, 49, 3) != 0)
      fail("a factor that is not swizzled by 128 bytes", std::source_location::current());
  }
  // Term k of row (or transposed column) r.
  template <typename In>
  float at(unsigned r, unsigned k, Second second) const {
    const unsigned line = second == Second::rows ? r : k, c = second == Second::rows ? k : r;
    std::uint64_t address = begin_ + line / 8 * rows_of_8_ + line % 8 * 128 + c * sizeof(In);
    address ^= (address >> 7 & 7) << 4;
    const auto* const element = longspan_shared_bytes + address;
    emulated_cuda::expect_shared_piece(element - address % 16, std::source_location::current());
    std::uint16_t bits;
    std::memcpy(&bits, element, sizeof(bits));
    return static_cast<float>(std::bit_cast<In>(bits));
  }

 private:
  static std::uint64_t field(Factor factor, int from, int bits) {
    return factor.descriptor >> from & ((std::uint64_t{1} << bits) - 1);
  }
  std::uint64_t begin_;
  std::uint64_t rows_of_8_;
};

// Terms of the two rows of sums of a thread.
using Rows = std::array<std::array<float, terms>, 2>;

template <typename In>
Products product_of(const Rows& left, Factor right, Second second, int count) {
  const Memory memory(right);
  Products product = {};
  for (int n = 0; n < count; ++n)
    for (unsigned s = 0; s < 4; ++s)
      for (unsigned k = 0; k < terms; ++k) {
        const unsigned column =
            8 * static_cast<unsigned>(n) + emulated_cuda::lane() % 4 * 2 + s % 2;
        product[static_cast<std::size_t>(4 * n) + s] +=
            left[s / 2][k] * memory.at<In>(column, k, second);
      }
  return product;
}

void begin_product(float (*sums)[4], int count, const std::function<Products()>& f) {
  const auto place = std::source_location::current();
  if (!mine().began) fail("a product of a warp group that did not begin", place);
  const unsigned group = threadIdx.x / 128 * 128;
  for (unsigned thread = group; thread < group + 128; ++thread)
    if (emulated_cuda::has_unshown_copies(thread))
      fail("a product of a warp group would not see what a copy brought", place);
  Begun begun = {sums, count, f(), f};
  for (const auto* all : {&mine().begun, &mine().ended})
    for (const Begun& other : *all) begun.is_first = begun.is_first && other.sums != sums;
  for (int e = 0; begun.is_first && e < 4 * count; ++e) {
    float& sum = sums[e / 4][e % 4];
    begun.before[static_cast<std::size_t>(e)] = sum;
    sum = std::numeric_limits<float>::quiet_NaN();
  }
  mine().begun.push_back(std::move(begun));
}

}  // namespace

void show_copies() { emulated_cuda::show_copies(); }
void begin() { mine().began = true; }

void end() {
  Group& group = mine();
  for (Begun& begun : group.begun) group.ended.push_back(std::move(begun));
  group.begun.clear();
  group.began = false;
}

void wait() {
  const auto place = std::source_location::current();
  Group& group = mine();
  emulated_cuda::meet_in_warp(place);
  if (!group.begun.empty()) fail("products of a warp group that did not end are waited for", place);
  for (const Begun& ended : group.ended) {
    const Products again = ended.again();
    if (std::memcmp(&again, &ended.product, sizeof(again)) != 0)
      fail("a factor of a warp group changed before its product was there", place);
    for (int e = 0; e < 4 * ended.count; ++e) {
      const auto i = static_cast<std::size_t>(e);
      float& sum = ended.sums[e / 4][e % 4];
      sum = (ended.is_first ? ended.before[i] : sum) + ended.product[i];
    }
  }
  group.ended.clear();
}

template <typename In>
void multiply_registers(float (*sums)[4], const Pairs& a, Factor b, Second second) {
  // Four lanes have rows lane / 4 and lane / 4 + 8.
  const Rows left = emulated_cuda::over_lanes(a, [](const auto& of) {
    Rows rows;
    for (unsigned c = 0; c < 4; ++c) {
      const Pairs pairs = of(emulated_cuda::lane() / 4 * 4 + c);
      for (unsigned k = 0; k < terms; ++k)
        if (k % 8 / 2 == c)
          for (unsigned r = 0; r < 2; ++r)
            rows[r][k] = emulated_cuda::element_of<In>(pairs.of[r + k / 8 * 2], k % 2);
    }
    return rows;
  });
  begin_product(sums, 8, [=] { return product_of<In>(left, b, second, 8); });
}
template <typename In>
void multiply_memory(float (*sums)[4], int count, Factor a, Factor b) {
  begin_product(sums, count, [=] {
    Rows left;
    for (unsigned r = 0; r < 2; ++r)
      for (unsigned k = 0; k < terms; ++k)
        left[r][k] = Memory(a).at<In>(
            threadIdx.x % 128 / 32 * 16 + emulated_cuda::lane() / 4 + 8 * r, k, Second::rows);
    return product_of<In>(left, b, Second::rows, count);
  });
}

template void multiply_registers<BFloat16>(float (*)[4], const Pairs&, Factor, Second);
template void multiply_registers<Float16>(float (*)[4], const Pairs&, Factor, Second);
template void multiply_memory<BFloat16>(float (*)[4], int, Factor, Factor);
template void multiply_memory<Float16>(float (*)[4], int, Factor, Factor);

}  // namespace longspan::warp_group
