// Instructions of warps: exchanges, matrices, products of warp groups.
#include <array>
#include <bit>
#include <map>
#include <span>

#include "framework/core/dtype.h"
#include "tests/support/emulated_cuda/lanes.h"
#include "tests/support/ptx/actions.h"

namespace ptx {
namespace {

using emulated_cuda::element_of;
using longspan::BFloat16;
using longspan::Float16;

void expect_all(const Warp& warp) {
  warp.for_each([&](const Thread& thread, unsigned) {
    for (const Thread* const lane : warp.lanes)
      if (lane == nullptr) fail(thread, "a warp exchanges with all of its lanes");
  });
}
// Requires the operand `mask` to name every lane, and all lanes to be present.
void expect_all(const Warp& warp, const Instruction& i, std::size_t mask) {
  expect_all(warp);
  warp.for_each([&](const Thread& thread, unsigned) {
    if (thread.get<std::uint32_t>(i, mask) != ~0u)
      fail(thread, "a warp exchanges with all of its lanes");
  });
}

template <bool crosses>
void shuffle(Warp& warp, const Instruction& i) {
  // An optional predicate is the second operand.
  const std::size_t first = i.values.size() - 4;
  expect_all(warp, i, first + 3);
  std::array<std::uint32_t, warp_size> values;
  warp.for_each(
      [&](const Thread& t, unsigned lane) { values[lane] = t.get<std::uint32_t>(i, first); });
  warp.for_each([&](Thread& t, unsigned lane) {
    const auto b = t.get<std::uint32_t>(i, first + 1), c = t.get<std::uint32_t>(i, first + 2);
    const unsigned segment = c >> 8 & 0x1f, clamp = c & 0x1f;
    const unsigned last = (lane & segment) | (clamp & ~segment), begin = lane & segment;
    const unsigned from = crosses ? lane ^ (b & 0x1f) : begin | (b & 0x1f & ~segment);
    const bool inside = from <= last;
    t.put(i, 0, values[inside ? from : lane]);
    if (first == 2) t.put(i, 1, inside);
  });
}

void ballot(Warp& warp, const Instruction& i) {
  expect_all(warp, i, 2);
  std::uint32_t votes = 0;
  warp.for_each([&](const Thread& t, unsigned lane) {
    votes |= static_cast<std::uint32_t>(t.get_bool(i, 1)) << lane;
  });
  warp.for_each([&](Thread& t, unsigned) { t.put(i, 0, votes); });
}

// Four matrices of 8 x 8 of 16 bits: lane 8 m + r has the address of row r of matrix m.
template <bool transposed>
void read_matrices(Warp& warp, const Instruction& i) {
  expect_all(warp);
  std::array<std::array<std::array<std::uint16_t, 8>, 8>, 4> matrices;
  warp.for_each([&](const Thread& t, unsigned lane) {
    const auto address = t.get<std::uint32_t>(i, 4) + static_cast<std::uint64_t>(i.offset);
    std::memcpy(matrices[lane / 8][lane % 8].data(), shared_place(t, i, address, 16), 16);
  });
  warp.for_each([&](Thread& t, unsigned lane) {
    const unsigned row = lane / 4, column = lane % 4 * 2;
    for (unsigned m = 0; m < 4; ++m) {
      const auto& matrix = matrices[m];
      const std::uint32_t low = transposed ? matrix[column][row] : matrix[row][column];
      const std::uint32_t high = transposed ? matrix[column + 1][row] : matrix[row][column + 1];
      t.put(i, m, low | high << 16);
    }
  });
}

using Row = std::array<float, 16>;

// Rows of a in registers from `first` ("Matrix Fragments for mma.m16n8k16").
template <typename In>
std::array<Row, 16> left_factor(const Warp& warp, const Instruction& i, std::size_t first) {
  expect_all(warp);
  std::array<Row, 16> rows;
  warp.for_each([&](const Thread& t, unsigned lane) {
    for (unsigned e = 0; e < 8; ++e) {
      const unsigned row = lane / 4 + (e / 2 % 2 == 0 ? 0 : 8);
      const unsigned column = lane % 4 * 2 + e % 2 + (e < 4 ? 0 : 8);
      rows[row][column] = element_of<In>(t.get<std::uint32_t>(i, first + e / 2), e % 2);
    }
  });
  return rows;
}

template <typename In>
void multiply_add(Warp& warp, const Instruction& i) {
  const std::array<Row, 16> a = left_factor<In>(warp, i, 4);
  std::array<Row, 8> b;  // by columns
  warp.for_each([&](const Thread& t, unsigned lane) {
    for (unsigned e = 0; e < 4; ++e)
      b[lane / 4][lane % 4 * 2 + e % 2 + (e < 2 ? 0 : 8)] =
          element_of<In>(t.get<std::uint32_t>(i, 8 + e / 2), e % 2);
  });
  warp.for_each([&](Thread& t, unsigned lane) {
    std::array<float, 4> sums;
    for (unsigned e = 0; e < 4; ++e) {
      const Row &row = a[lane / 4 + (e < 2 ? 0 : 8)], &column = b[lane % 4 * 2 + e % 2];
      double sum = 0;
      for (unsigned k = 0; k < 16; ++k) sum += double{row[k]} * double{column[k]};
      sums[e] = static_cast<float>(double{t.number<float>(i, 10 + e)} + sum);
    }
    for (unsigned e = 0; e < 4; ++e) t.put(i, e, sums[e]);
  });
}

// A factor in shared memory ("Matrix Descriptor Format"): 16 terms of rows, or transposed.
template <typename In>
float element(
    const Thread& t, std::uint64_t descriptor, unsigned row, unsigned k, bool transposed) {
  const auto field = [&](unsigned from, unsigned bits) {
    return descriptor >> from & ((std::uint64_t{1} << bits) - 1);
  };
  if (field(62, 2) != 1 || field(49, 3) != 0) fail(t, "a factor that is not swizzled by 128 bytes");
  const std::uint64_t begin = field(0, 14) << 4, stride = field(32, 14) << 4;
  const unsigned line = transposed ? k : row, column = transposed ? row : k;
  std::uint64_t address = begin + line / 8 * stride + line % 8 * 128 + column * 2;
  address ^= (address >> 7 & 7) << 4;
  std::uint16_t bits;
  std::memcpy(&bits, shared_place(t, address, 2), 2);
  return static_cast<float>(std::bit_cast<In>(bits));
}

template <typename In>
std::vector<float> product_of(const Thread& t, const Product& product) {
  std::array<Row, 2> rows = product.rows;
  const unsigned lane = t.index % warp_size;
  if (product.has_left)
    for (unsigned r = 0; r < 2; ++r)
      for (unsigned k = 0; k < 16; ++k)
        rows[r][k] =
            element<In>(t, product.left, t.index / warp_size % 4 * 16 + lane / 4 + 8 * r, k, false);
  std::vector<float> sums(product.before.size());
  for (unsigned e = 0; e < sums.size(); ++e) {
    const unsigned column = e / 4 * 8 + lane % 4 * 2 + e % 2;
    double sum = 0;
    for (unsigned k = 0; k < 16; ++k)
      sum += double{rows[e / 2 % 2][k]} *
             double{element<In>(t, product.right, column, k, product.transposed)};
    sums[e] = static_cast<float>(sum);
  }
  return sums;
}
std::vector<float> product_of(const Thread& t, const Product& product) {
  return product.is_bfloat16 ? product_of<BFloat16>(t, product) : product_of<Float16>(t, product);
}

// `wgmma.mma_async` of 64 x columns. Operands: sums, left factor (four registers or a descriptor),
// right factor, whether to add the sums, signs, and which factors in memory are transposed.
template <typename In, unsigned columns>
void begin_product(Warp& warp, const Instruction& i) {
  expect_all(warp);
  constexpr std::size_t sums = columns / 2;
  const bool has_left = i.values.size() == sums + 7;  // a b sums? a? b? a' b'
  if (!has_left && i.values.size() != sums + 9) fail(*warp.lanes[0], "unknown operands");
  std::array<Row, 16> rows = {};
  if (!has_left) rows = left_factor<In>(warp, i, sums);
  warp.for_each([&](Thread& t, unsigned lane) {
    if (!t.products_began) fail(t, "a product of a warp group that did not begin");
    for (unsigned other = t.index / 128 * 128; other < t.index / 128 * 128 + 128; ++other)
      if (t.block->at(other).has_unshown_copies)
        fail(t, "a product of a warp group would not see what a copy brought");
    Product product;
    product.is_bfloat16 = std::is_same_v<In, BFloat16>;
    product.has_left = has_left;
    product.rows = {rows[lane / 4], rows[lane / 4 + 8]};
    std::size_t at = sums;
    if (has_left)
      product.left = t.get<std::uint64_t>(i, at++);
    else
      at += 4;
    product.right = t.get<std::uint64_t>(i, at++);
    if (!t.get_bool(i, at)) fail(t, "a product that forgets the sums");
    at += 1;
    for (unsigned factor = 0; factor < 2; ++factor)
      if (t.get<std::int32_t>(i, at++) != 1) fail(t, "a factor with another sign");
    if (has_left && t.get<std::int32_t>(i, at++) != 0) fail(t, "a first factor that is transposed");
    product.transposed = t.get<std::int32_t>(i, at) != 0;
    if (t.next_mark + sums > max_marks) t.next_mark = 0;
    product.first_mark = marks + t.next_mark;
    t.next_mark += sums;
    for (unsigned e = 0; e < sums; ++e) {
      product.before.push_back(t.get<std::uint32_t>(i, e));
      t.put(i, e, product.first_mark + e);
    }
    product.product = product_of(t, product);
    t.products.push_back(std::move(product));
  });
}

void begin_products(Warp& warp, const Instruction&) {
  warp.for_each([](Thread& t, unsigned) { t.products_began = true; });
}
void end_products(Warp& warp, const Instruction&) {
  warp.for_each([](Thread& t, unsigned) {
    t.product_groups.push_back(std::move(t.products));
    t.products.clear();
    t.products_began = false;
  });
}

// Replaces the marks of arrived products by their sums.
void finish(Thread& t, std::span<const Product> products) {
  std::map<std::uint32_t, float> sums;
  for (const Product& product : products) {
    const std::vector<float> again = product_of(t, product);
    if (std::memcmp(again.data(), product.product.data(), again.size() * sizeof(float)) != 0)
      fail(t, "a factor of a warp group changed before its product was there");
    for (unsigned e = 0; e < product.product.size(); ++e) {
      float before = std::bit_cast<float>(product.before[e]);
      if (is_mark(product.before[e])) {
        const auto found = sums.find(product.before[e]);
        if (found == sums.end()) fail(t, "sums that another product still computes");
        before = found->second;
      }
      sums[product.first_mark + e] = before + product.product[e];
    }
  }
  Frame& frame = t.frame();
  for (std::uint64_t& bits : frame.registers)
    if (bits <= 0xffffffff && is_mark(static_cast<std::uint32_t>(bits)))
      if (const auto found = sums.find(static_cast<std::uint32_t>(bits)); found != sums.end())
        bits = std::bit_cast<std::uint32_t>(found->second);
}

void wait_for_products(Warp& warp, const Instruction& i) {
  warp.for_each([&](Thread& t, unsigned) {
    if (!t.products.empty()) fail(t, "products of a warp group that did not end are waited for");
    if (t.get<std::uint32_t>(i, 0) != 0) fail(t, "unknown operands");
    std::vector<Product> come;
    for (std::vector<Product>& group : t.product_groups)
      for (Product& product : group) come.push_back(std::move(product));
    t.product_groups.clear();
    finish(t, come);
  });
}

}  // namespace

WarpAction warp_action(std::string_view name) {
  static const std::map<std::string_view, WarpAction> actions = {
      {"bar.warp.sync", [](Warp&, const Instruction&) {}},
      {"shfl.sync.bfly.b32", shuffle<true>},
      {"shfl.sync.idx.b32", shuffle<false>},
      {"vote.sync.ballot.b32", ballot},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", read_matrices<false>},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", read_matrices<true>},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", multiply_add<BFloat16>},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", multiply_add<Float16>},
      {"wgmma.fence.sync.aligned", begin_products},
      {"wgmma.commit_group.sync.aligned", end_products},
      {"wgmma.wait_group.sync.aligned", wait_for_products},
      {"wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16", begin_product<BFloat16, 32>},
      {"wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16", begin_product<Float16, 32>},
      {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", begin_product<BFloat16, 64>},
      {"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", begin_product<Float16, 64>},
  };
  const auto found = actions.find(name);
  return found == actions.end() ? nullptr : found->second;
}

}  // namespace ptx
