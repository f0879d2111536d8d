// Attention over a sequence that ranks share is the attention of the whole sequence.
#include "framework/autograd/ring_attention.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan {
namespace {

using testing::backend_device;
using testing::tensor_of;
using testing::values_of;

constexpr std::int64_t batch = 2;
constexpr std::int64_t heads = 2;
constexpr std::int64_t dim = 3;
constexpr std::int64_t value_dim = 5;

struct Case {
  std::string name;
  std::int64_t memory;
  std::int64_t time;
  HeadMasks rules;
  bool relative = false;
  double dropout = 0;
  bool slopes = false;
};

std::vector<Case> cases() {
  const Mask causal = masks::causal();
  return {
      {"causal", 0, 16, causal},
      {"causal, dropout", 0, 130, causal, false, 0.3},
      {"after a memory", 5, 8, causal},
      {"relative, after a memory, dropout", 7, 24, causal, true, 0.3},
      {"relative, longer than tiles", 70, 200, causal, true},
      {"a window: some ranks' keys are seen by nobody", 3, 150, causal & masks::window(20, 0)},
      {"strictly causal: the first row sees nothing", 0, 40, masks::window(masks::unlimited, -1)},
      {"rows that see nothing", 4, 40, causal & masks::columns(50, 30, 2)},
      {"everything", 0, 24, masks::everything()},
      {"a mask a head",
       2,
       30,
       HeadMasks({causal & masks::window(3, 0), causal & masks::stride(4)})},
      {"slopes", 0, 24, causal, false, 0, true},
      {"fewer positions than chunks", 1, 1, causal, true, 0.3},
      {"uneven chunks", 3, 13, causal, true, 0.3},
  };
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  return tensor_of<double>(testing::normal_values<double>(shape.elements(), seed), shape);
}

// Rows of x [batch, positions, ...] at the positions counted from `first`.
Tensor rows_at(const Tensor& x, const Ranges& positions, std::int64_t first) {
  const Shape& shape = x.shape();
  const std::int64_t width = shape.elements() / (shape[0] * shape[1]);
  const Tensor result =
      Tensor::empty(shape.with(1, count_of(positions)), DType::f64, backend_device());
  double* to = result.data<double>();
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (const Range& range : positions)
      to = std::copy_n(x.data<double>() + (b * shape[1] + range.begin - first) * width,
                       range.count() * width,
                       to);
  return result;
}

// Rank r has chunks r and 2n - 1 - r of 2n of the segment, and its part of the memory.
SequenceShares shares_of(const Communicator& ranks, const Case& c) {
  SequenceShares shares;
  shares.ranks = ranks;
  shares.memory = c.memory;
  shares.keys_total = c.memory + c.time;
  const std::int64_t n = ranks.size();
  for (std::int64_t rank = 0; rank < n; ++rank) {
    Ranges queries;
    for (const std::int64_t chunk : {rank, 2 * n - 1 - rank})
      queries.push_back(
          {c.memory + c.time * chunk / (2 * n), c.memory + c.time * (chunk + 1) / (2 * n)});
    Ranges keys = queries;
    if (c.memory > 0) keys.insert(keys.begin(), {c.memory * rank / n, c.memory * (rank + 1) / n});
    shares.queries.push_back(queries);
    shares.keys.push_back(keys);
  }
  return shares;
}

// The leaves of a call, whole or a rank's.
struct Inputs {
  Variable query = {}, key = {}, value = {};
  Variable position_key = {}, content_bias = {}, position_bias = {};

  std::vector<Variable> all() const {
    return {query, key, value, position_key, content_bias, position_bias};
  }
};

Inputs inputs_of(const Case& c, const Ranges& queries, const Ranges& keys) {
  const auto leaf = [](const Tensor& tensor) { return Variable::leaf(tensor); };
  const std::int64_t all = c.memory + c.time;
  return {.query = leaf(rows_at(random_tensor({batch, c.time, heads, dim}, 1), queries, c.memory)),
          .key = leaf(rows_at(random_tensor({batch, all, heads, dim}, 2), keys, 0)),
          .value = leaf(rows_at(random_tensor({batch, all, heads, value_dim}, 3), keys, 0)),
          .position_key = leaf(random_tensor({all, heads, dim}, 4)),
          .content_bias = leaf(random_tensor({heads, dim}, 5)),
          .position_bias = leaf(random_tensor({heads, dim}, 6))};
}

AttentionTerms terms_of(const Case& c, const Inputs& inputs) {
  AttentionTerms terms;
  if (c.relative) terms.relative = {inputs.position_key, inputs.content_bias, inputs.position_bias};
  if (c.slopes) terms.slopes = random_tensor({heads}, 7);
  return terms;
}

void expect_same(const Tensor& found, const Tensor& expected, const char* what) {
  SCOPED_TRACE(what);
  testing::expect_close(values_of(found), values_of(expected), 1e-12);
}

void expect_ring_equals_whole(const Case& c, const Communicator& ranks) {
  SCOPED_TRACE(c.name);
  const AttentionMask mask = {.rules = c.rules, .query_begin = c.memory};
  std::optional<AttentionDropout> dropout;
  if (c.dropout > 0)
    dropout = {.rate = c.dropout,
               .random = Random(9),
               .batch_begin = 3,
               .head_begin = 1,
               .heads_total = 4};
  const Ranges segment = {{c.memory, c.memory + c.time}};
  const Inputs whole = inputs_of(c, segment, {{0, c.memory + c.time}});
  const Variable expected =
      attention(whole.query, whole.key, whole.value, mask, terms_of(c, whole), dropout);
  const Tensor expected_value = expected.value().clone();
  const Tensor upstream = random_tensor(expected.shape(), 8);
  backward({expected}, {upstream.clone()});

  const SequenceShares shares = shares_of(ranks, c);
  const Ranges& queries = shares.queries[shares.own()];
  const Ranges& keys = shares.keys[shares.own()];
  const Inputs mine = inputs_of(c, queries, keys);
  const Variable found =
      ring_attention(mine.query, mine.key, mine.value, mask, terms_of(c, mine), dropout, shares);
  const Tensor found_value = found.value().clone();
  backward({found}, {rows_at(upstream, queries, c.memory)});
  expect_same(found_value, rows_at(expected_value, queries, c.memory), "out");
  expect_same(mine.query.gradient(), rows_at(whole.query.gradient(), queries, c.memory), "query");
  expect_same(mine.key.gradient(), rows_at(whole.key.gradient(), keys, 0), "key");
  expect_same(mine.value.gradient(), rows_at(whole.value.gradient(), keys, 0), "value");
  if (!c.relative) return;
  // What every rank reads: each has its queries' share of the gradient.
  for (const std::size_t i : {3u, 4u, 5u}) {
    const Tensor sum = mine.all()[i].gradient().clone();
    ranks.all_reduce(sum, Reduction::sum);
    expect_same(sum, whole.all()[i].gradient(), "relative");
  }
}

TEST(RingAttention, IsTheAttentionOfTheWholeSequence) {
  for (const int size : {1, 2, 3, 4})
    testing::on_ranks(size, [](const Communicator& ranks) {
      for (const Case& c : cases()) expect_ring_equals_whole(c, ranks);
    });
}

TEST(RingAttention, RoundsBf16SumsOnce) {
  testing::on_ranks(4, [](const Communicator& ranks) {
    const Case c = {"bf16", 0, 256, masks::causal()};
    const SequenceShares shares = shares_of(ranks, c);
    const Inputs exact = inputs_of(c, {{0, 256}}, {{0, 256}});
    const AttentionMask mask = {.rules = c.rules};
    const auto rounded = [](const Variable& x) {
      return Variable::leaf(cast(Variable(x.value()), DType::bf16).value());
    };
    const auto run = [&](const Inputs& inputs, bool ring) {
      const Inputs leaves = {.query = rounded(inputs.query),
                             .key = rounded(inputs.key),
                             .value = rounded(inputs.value)};
      const Variable out =
          ring ? ring_attention(leaves.query, leaves.key, leaves.value, mask, {}, {}, shares)
               : attention(leaves.query, leaves.key, leaves.value, mask);
      backward({out}, {cast(Variable(out.value()), DType::bf16).value().clone()});
      return std::vector<Tensor>{cast(Variable(out.value()), DType::f64).value(),
                                 cast(Variable(leaves.key.gradient()), DType::f64).value()};
    };
    const std::vector<Tensor> whole = run(exact, false);
    const Ranges& own = shares.keys[shares.own()];
    const std::vector<Tensor> ring = run(inputs_of(c, own, own), true);
    for (const std::size_t i : {0u, 1u})
      testing::expect_close(
          values_of(ring[i]), values_of(rows_at(whole[i], own, 0)), i == 0 ? 0.01 : 0.03);
  });
}

}  // namespace
}  // namespace longspan
