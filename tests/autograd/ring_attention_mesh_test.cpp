// Ring attention over a sharded sequence against attention over the full sequence.
#include "framework/autograd/recompute.h"
#include "framework/autograd/ring_attention.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::ring_attention_mesh_test {
namespace {

using testing::backend_device;
using testing::tensor_of;
using testing::values_of;

constexpr std::int64_t batch = 2;
constexpr std::int64_t heads = 2;
constexpr std::int64_t dim = 3;
constexpr std::int64_t value_dim = 5;
constexpr std::int64_t reach = 3;

struct Case {
  std::string name = {};
  std::int64_t memory = 0;
  std::int64_t time = 0;
  HeadMasks rules = {};
  bool relative = false;
  double dropout = 0;
  bool slopes = false;
  std::int64_t keys = 0;                   // of another sequence; 0: self-attention
  std::vector<std::int64_t> lengths = {};  // of the batch rows
  bool padding = false;                    // at scattered positions
  bool again = false;                      // recompute in the backward pass
  bool tables = false;                     // by relative position (Shaw)
  bool bias = false;                       // by relative position (T5)

  std::int64_t all_keys() const { return keys > 0 ? keys : memory + time; }
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

// Tables shorter than the distances: their last rows apply to larger ones, across ranks.
std::vector<Case> cases_with_tables() {
  const Mask causal = masks::causal();
  const Mask all = masks::everything();
  return {
      {.name = "both sides", .time = 24, .rules = all, .tables = true},
      {.name = "causal, longer than tiles, dropout",
       .time = 150,
       .rules = causal,
       .dropout = 0.3,
       .again = true,
       .tables = true},
      {.name = "uneven chunks, lengths, dropout",
       .time = 13,
       .rules = all,
       .dropout = 0.3,
       .lengths = {13, 4},
       .tables = true},
      {.name = "after a memory, slopes",
       .memory = 5,
       .time = 8,
       .rules = causal,
       .slopes = true,
       .tables = true},
      {.name = "a mask a head",
       .time = 90,
       .rules = HeadMasks({masks::window(3, 70), masks::stride(4)}),
       .lengths = {0, 77},
       .tables = true},
  };
}

std::vector<Case> cases_with_biases() {
  const Mask causal = masks::causal();
  const Mask all = masks::everything();
  return {
      {.name = "both sides", .time = 24, .rules = all, .bias = true},
      {.name = "causal, longer than tiles, dropout",
       .time = 150,
       .rules = causal,
       .dropout = 0.3,
       .again = true,
       .bias = true},
      {.name = "uneven chunks after a memory, lengths",
       .memory = 5,
       .time = 13,
       .rules = all,
       .lengths = {18, 4},
       .bias = true},
      {.name = "a mask a head",
       .time = 90,
       .rules = HeadMasks({masks::window(3, 70), masks::stride(4)}),
       .lengths = {0, 77},
       .bias = true},
  };
}

std::vector<Case> cases_of_two_lengths() {
  const Mask all = masks::everything();
  return {
      {.name = "more keys", .time = 24, .rules = all, .keys = 130},
      {.name = "fewer keys, dropout", .time = 130, .rules = all, .dropout = 0.3, .keys = 24},
      {.name = "fewer keys than chunks", .time = 13, .rules = all, .dropout = 0.3, .keys = 3},
      {.name = "one query", .time = 1, .rules = all, .keys = 40},
      {.name = "a window, slopes",
       .time = 40,
       .rules = masks::window(20, 5),
       .slopes = true,
       .keys = 90},
      {.name = "padding",
       .time = 24,
       .rules = all,
       .dropout = 0.3,
       .keys = 90,
       .lengths = {90, 7},
       .padding = true,
       .again = true},
  };
}

std::vector<Case> cases_with_padding() {
  const Mask causal = masks::causal();
  const Mask all = masks::everything();
  return {
      {.name = "lengths that end on the first rank and on another",
       .time = 130,
       .rules = all,
       .dropout = 0.3,
       .lengths = {5, 100}},
      {.name = "nothing is padding", .time = 24, .rules = all, .lengths = {24, 30}},
      {.name = "a row of no keys", .time = 24, .rules = all, .lengths = {0, 11}},
      {.name = "causal", .time = 40, .rules = causal, .lengths = {40, 3}, .again = true},
      {.name = "relative, after a memory, dropout",
       .memory = 7,
       .time = 130,
       .rules = causal,
       .relative = true,
       .dropout = 0.3,
       .lengths = {3, 90},
       .again = true},
      {.name = "keys here and there, slopes",
       .memory = 5,
       .time = 150,
       .rules = all,
       .slopes = true,
       .padding = true},
      {.name = "both, a mask a head",
       .memory = 2,
       .time = 30,
       .rules = HeadMasks({causal & masks::window(3, 0), causal & masks::stride(4)}),
       .lengths = {32, 20},
       .padding = true},
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
      Tensor::empty(shape.with(1, total_count(positions)), DType::f64, backend_device());
  double* to = result.data<double>();
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (const Range& range : positions)
      to = std::copy_n(x.data<double>() + (b * shape[1] + range.begin - first) * width,
                       range.count() * width,
                       to);
  return result;
}

// Rank r has chunks r and 2n - 1 - r of 2n of the queries and of the keys, and its part of the
// memory.
SequenceShards shares_of(const Communicator& ranks, const Case& c) {
  SequenceShards shares;
  shares.ranks = ranks;
  shares.memory = c.memory;
  shares.queries_total = c.time;
  shares.keys_total = c.all_keys();
  const std::int64_t n = ranks.size();
  for (std::int64_t rank = 0; rank < n; ++rank) {
    const auto chunks = [&](std::int64_t first, std::int64_t total) {
      Ranges ranges;
      for (const std::int64_t chunk : {rank, 2 * n - 1 - rank})
        ranges.push_back({first + total * chunk / (2 * n), first + total * (chunk + 1) / (2 * n)});
      return ranges;
    };
    const Ranges queries = chunks(c.memory, c.time);
    Ranges keys = c.keys > 0 ? chunks(0, c.keys) : queries;
    if (c.memory > 0) keys.insert(keys.begin(), {c.memory * rank / n, c.memory * (rank + 1) / n});
    shares.queries.push_back(queries);
    shares.keys.push_back(keys);
  }
  return shares;
}

// The leaves of a call: all of them, or a rank's shard.
struct Inputs {
  Variable query = {}, key = {}, value = {};
  Variable position_key = {}, content_bias = {}, position_bias = {};
  Variable key_table = {}, value_table = {};
  Variable distance_bias = {};

  // Inputs that are replicated on all ranks.
  std::vector<Variable> whole(const Case& c) const {
    std::vector<Variable> result;
    if (c.relative) result = {position_key, content_bias, position_bias};
    if (c.tables) result = {key_table, value_table};
    if (c.bias) result = {distance_bias};
    return result;
  }
};

Inputs inputs_of(const Case& c, const Ranges& queries, const Ranges& keys) {
  const auto leaf = [](const Tensor& tensor) { return Variable::leaf(tensor); };
  const std::int64_t all = c.all_keys();
  return {.query = leaf(rows_at(random_tensor({batch, c.time, heads, dim}, 1), queries, c.memory)),
          .key = leaf(rows_at(random_tensor({batch, all, heads, dim}, 2), keys, 0)),
          .value = leaf(rows_at(random_tensor({batch, all, heads, value_dim}, 3), keys, 0)),
          .position_key = leaf(random_tensor({all, heads, dim}, 4)),
          .content_bias = leaf(random_tensor({heads, dim}, 5)),
          .position_bias = leaf(random_tensor({heads, dim}, 6)),
          .key_table = leaf(random_tensor({2 * reach + 1, dim}, 10)),
          .value_table = leaf(random_tensor({2 * reach + 1, value_dim}, 11)),
          .distance_bias = leaf(random_tensor({heads, 2 * reach + 1}, 12))};
}

AttentionTerms terms_of(const Case& c, const Inputs& inputs) {
  AttentionTerms terms;
  if (c.relative) terms.relative = {inputs.position_key, inputs.content_bias, inputs.position_bias};
  if (c.tables) terms.shaw = {inputs.key_table, inputs.value_table};
  if (c.bias) terms.distance_bias = inputs.distance_bias;
  if (c.slopes) terms.slopes = random_tensor({heads}, 7);
  return terms;
}

// Mask of the full sequence.
AttentionMask mask_of(const Case& c) {
  AttentionMask mask = {.rules = c.rules, .query_begin = c.memory};
  if (!c.lengths.empty())
    mask.key_length = Tensor::from<std::int64_t>(c.lengths, {batch}, backend_device());
  if (!c.padding) return mask;
  mask.key_padding = Tensor::empty({batch, c.all_keys()}, DType::u8, backend_device());
  std::int64_t i = 0;
  for (std::uint8_t& padding : mask.key_padding.span<std::uint8_t>()) padding = i++ % 7 < 3;
  return mask;
}

void expect_same(const Tensor& found, const Tensor& expected, const char* what) {
  SCOPED_TRACE(what);
  testing::expect_close(values_of(found), values_of(expected), 1e-12);
}

void expect_ring_equals_whole(const Case& c, const Communicator& ranks) {
  SCOPED_TRACE(c.name);
  const AttentionMask mask = mask_of(c);
  std::optional<AttentionDropout> dropout;
  if (c.dropout > 0)
    dropout = {.rate = c.dropout,
               .random = Random(9),
               .batch_begin = 3,
               .head_begin = 1,
               .heads_total = 4};
  const Ranges segment = {{c.memory, c.memory + c.time}};
  const Inputs whole = inputs_of(c, segment, {{0, c.all_keys()}});
  const Variable expected =
      attention(whole.query, whole.key, whole.value, mask, terms_of(c, whole), dropout);
  const Tensor expected_value = expected.value().clone();
  const Tensor upstream = random_tensor(expected.shape(), 8);
  backward({expected}, {upstream.clone()});

  const SequenceShards shares = shares_of(ranks, c);
  const Ranges& queries = shares.queries[shares.local_index()];
  const Ranges& keys = shares.keys[shares.local_index()];
  const Inputs mine = inputs_of(c, queries, keys);
  const auto ring = [&](const std::vector<Variable>& in) {
    return ring_attention(in[0], in[1], in[2], mask, terms_of(c, mine), dropout, shares);
  };
  const std::vector<Variable> given = {mine.query, mine.key, mine.value};
  const Variable found = c.again ? recompute(ring, given) : ring(given);
  const Tensor found_value = found.value().clone();
  backward({found}, {rows_at(upstream, queries, c.memory)});
  expect_same(found_value, rows_at(expected_value, queries, c.memory), "out");
  expect_same(mine.query.gradient(), rows_at(whole.query.gradient(), queries, c.memory), "query");
  expect_same(mine.key.gradient(), rows_at(whole.key.gradient(), keys, 0), "key");
  expect_same(mine.value.gradient(), rows_at(whole.value.gradient(), keys, 0), "value");
  // Each rank has the gradient of its own queries.
  const std::vector<Variable> terms = whole.whole(c);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Tensor sum = mine.whole(c)[i].gradient().clone();
    ranks.all_reduce(sum, Reduction::sum);
    expect_same(sum, terms[i].gradient(), "a term");
  }
}

void expect_all_equal_whole(const std::vector<Case>& cases) {
  for (const int size : {1, 2, 3, 4})
    testing::on_ranks(size, [&](const Communicator& ranks) {
      for (const Case& c : cases) expect_ring_equals_whole(c, ranks);
    });
}

TEST(RingAttention, MatchesFullAttention) { expect_all_equal_whole(cases()); }

TEST(RingAttention, SupportsOtherKeyLengths) { expect_all_equal_whole(cases_of_two_lengths()); }

TEST(RingAttention, SupportsRelativeTables) { expect_all_equal_whole(cases_with_tables()); }

TEST(RingAttention, SupportsRelativeBiases) { expect_all_equal_whole(cases_with_biases()); }

TEST(RingAttention, MasksPadding) { expect_all_equal_whole(cases_with_padding()); }

TEST(RingAttention, RejectsInvalidShards) {
  testing::on_ranks(2, [](const Communicator& ranks) {
    const Case c = {.name = "", .time = 8, .rules = masks::everything(), .keys = 12};
    const SequenceShards shares = shares_of(ranks, c);
    const Inputs mine =
        inputs_of(c, shares.queries[shares.local_index()], shares.keys[shares.local_index()]);
    const auto run = [&](const AttentionMask& mask, const SequenceShards& of) {
      ring_attention(mine.query, mine.key, mine.value, mask, {}, {}, of);
    };
    run({.rules = c.rules}, shares);
    SequenceShards twice = shares;
    twice.keys[0] = twice.keys[1];
    EXPECT_THROW(run({.rules = c.rules}, twice), Failure);
    SequenceShards shorter = shares;
    shorter.queries_total = 7;
    EXPECT_THROW(run({.rules = c.rules}, shorter), Failure);
    EXPECT_THROW(run({.rules = c.rules, .sorted = SortedSequence()}, shares), Failure);
    // Padding of this rank's keys only: too short.
    const Tensor own = Tensor::zeros({batch, mine.key.shape()[1]}, DType::u8, backend_device());
    EXPECT_THROW(run({.rules = c.rules, .key_padding = own}, shares), Failure);
  });
}

TEST(RingAttention, RoundsBf16SumsOnce) {
  testing::on_ranks(4, [](const Communicator& ranks) {
    const Case c = {"bf16", 0, 256, masks::causal()};
    const SequenceShards shares = shares_of(ranks, c);
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
    const Ranges& own = shares.keys[shares.local_index()];
    const std::vector<Tensor> ring = run(inputs_of(c, own, own), true);
    for (const std::size_t i : {0u, 1u})
      testing::expect_close(
          values_of(ring[i]), values_of(rows_at(whole[i], own, 0)), i == 0 ? 0.01 : 0.03);
  });
}

}  // namespace
}  // namespace longspan::ring_attention_mesh_test
