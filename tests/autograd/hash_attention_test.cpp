// LSH attention against its definition: one softmax over the keys of all rounds, as a dense sum.
#include <algorithm>
#include <numeric>

#include "framework/autograd/attention.h"
#include "tests/support/gradient_check.h"

namespace longspan::hash_attention_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::expect_gradients;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

struct Case {
  const char* name;
  std::int64_t batch = 2;
  std::int64_t time = 12;
  std::int64_t heads = 2;
  std::int64_t dim = 3;
  std::int64_t value_dim = 3;
  std::int64_t rounds = 1;
  LshAttentionOptions options = {};
  bool padded = false;
  double dropout = 0;

  std::int64_t chunks() const { return (time + options.chunk - 1) / options.chunk; }
};

Tensor buckets_of(const Case& c, std::uint64_t seed = 5) {
  const Tensor buckets =
      Tensor::empty({c.batch, c.heads, c.rounds, c.time}, DType::i32, backend_device());
  const Random random(seed);
  for (std::int64_t i = 0; i < buckets.elements(); ++i) {
    const std::int64_t b = i / (c.heads * c.rounds * c.time), t = i % c.time;
    // Row 1 has padding at its end, row 0 in the middle.
    const bool padding = c.padded && (b == 1 ? t >= c.time - 3 : t == 2);
    buckets.data<std::int32_t>()[i] =
        static_cast<std::int32_t>(padding ? c.options.buckets
                                          : random.word(static_cast<std::uint64_t>(i)) %
                                                static_cast<std::uint32_t>(c.options.buckets));
  }
  return buckets;
}

std::optional<AttentionDropout> dropout_of(const Case& c) {
  if (c.dropout == 0) return {};
  return AttentionDropout{
      .rate = c.dropout, .random = Random(11), .batch_begin = 3, .head_begin = 1, .heads_total = 5};
}

// One head of one batch row.
class DenseHashAttention {
 public:
  DenseHashAttention(const Case& c,
                     const Tensor& shared,
                     const Tensor& value,
                     const Tensor& buckets,
                     std::int64_t b,
                     std::int64_t h)
      : c_(c), shared_(shared), value_(value), b_(b), h_(h) {
    for (std::int64_t r = 0; r < c.rounds; ++r) {
      const std::int32_t* row =
          buckets.data<std::int32_t>() + ((b * c.heads + h) * c.rounds + r) * c.time;
      bucket_.emplace_back(row, row + c.time);
      auto& order = order_.emplace_back();
      for (std::int64_t t = 0; t < c.time; ++t)
        if (row[t] != c.options.buckets) order.push_back(t);
      std::ranges::stable_sort(order, {}, [&](std::int64_t t) { return row[t]; });
    }
  }

  void write(double* out) const {
    std::vector<std::vector<Entry>> entries(static_cast<std::size_t>(c_.time));
    for (std::int64_t r = 0; r < c_.rounds; ++r)
      for (std::int64_t slot = 0; slot < std::ssize(order_[at(r)]); ++slot)
        meet(r, slot, entries[at(order_[at(r)][at(slot)])]);
    for (std::int64_t i = 0; i < c_.time; ++i) {
      double* to = out + ((b_ * c_.time + i) * c_.heads + h_) * c_.value_dim;
      std::fill_n(to, c_.value_dim, 0.0);
      mix(i, entries[at(i)], to);
    }
  }

 private:
  struct Entry {
    std::int64_t key;
    double kept;
  };
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  // Adds the keys that the query in a slot of a round attends to.
  void meet(std::int64_t r, std::int64_t slot, std::vector<Entry>& entries) const {
    const LshAttentionOptions& o = c_.options;
    const std::int64_t chunks = c_.chunks(), i = order_[at(r)][at(slot)];
    const std::int64_t back = chunks == 1 ? 0 : o.look_back, ahead = chunks == 1 ? 0 : o.look_ahead;
    for (std::int64_t near = -back; near <= ahead; ++near) {
      const std::int64_t chunk = slot / o.chunk + near;
      const std::int64_t all = c_.rounds * chunks;
      const std::int64_t wrapped =
          o.wrap_rounds ? (r * chunks + chunk + all) % all : r * chunks + (chunk + chunks) % chunks;
      const std::int64_t round = wrapped / chunks;
      for (std::int64_t k = 0; k < o.chunk; ++k) {
        const std::int64_t key_slot = wrapped % chunks * o.chunk + k;
        if (key_slot >= std::ssize(order_[at(round)])) continue;
        const std::int64_t j = order_[at(round)][at(key_slot)];
        if (hidden(i) || hidden(j)) continue;
        if (o.causal && j > i) continue;
        if (o.same_bucket && (round != r || bucket_[at(r)][at(i)] != bucket_[at(r)][at(j)]))
          continue;
        entries.push_back({j, kept(r, slot, (chunk + o.look_back) * o.chunk + k)});
      }
    }
  }

  bool hidden(std::int64_t t) const {
    const Tensor& hidden = c_.options.hidden;
    return hidden.defined() && hidden.data<std::uint8_t>()[b_ * c_.time + t] != 0;
  }

  double kept(std::int64_t r, std::int64_t slot, std::int64_t key_slot) const {
    const auto dropout = dropout_of(c_);
    if (!dropout) return 1;
    const LshAttentionOptions& o = c_.options;
    const std::int64_t slots = c_.chunks() * o.chunk;
    const std::int64_t keys = slots + (o.look_back + o.look_ahead) * o.chunk;
    const std::int64_t row = (dropout->batch_begin + b_) * dropout->heads_total + 1 + h_;
    const float number =
        dropout->random.child(static_cast<std::uint64_t>(r))
            .uniform_at(static_cast<std::uint64_t>((row * slots + slot) * keys + key_slot));
    return number >= static_cast<float>(dropout->rate) ? 1 / (1 - dropout->rate) : 0;
  }

  double score(std::int64_t i, std::int64_t j) const {
    if (i == j) return c_.options.self_score;
    const auto row = [&](std::int64_t t) {
      return shared_.data<double>() + ((b_ * c_.time + t) * c_.heads + h_) * c_.dim;
    };
    const double product = std::inner_product(row(i), row(i) + c_.dim, row(j), 0.0);
    const double squares = std::inner_product(row(j), row(j) + c_.dim, row(j), 0.0);
    const double scale =
        c_.options.scale == 0 ? 1 / std::sqrt(static_cast<double>(c_.dim)) : c_.options.scale;
    return scale * product / std::sqrt(squares);
  }

  void mix(std::int64_t i, const std::vector<Entry>& entries, double* out) const {
    double largest = -testing::infinity;
    for (const Entry& entry : entries) largest = std::max(largest, score(i, entry.key));
    double total = 0;
    for (const Entry& entry : entries) {
      const auto met = static_cast<double>(
          std::ranges::count(entries, entry.key, [](const Entry& other) { return other.key; }));
      const double weight =
          std::exp(score(i, entry.key) - largest) / (c_.options.count_once ? met : 1);
      total += weight;
      const double* v =
          value_.data<double>() + ((b_ * c_.time + entry.key) * c_.heads + h_) * c_.value_dim;
      for (std::int64_t c = 0; c < c_.value_dim; ++c) out[c] += weight * entry.kept * v[c];
    }
    for (std::int64_t c = 0; c < c_.value_dim && total > 0; ++c) out[c] /= total;
  }

  const Case& c_;
  const Tensor& shared_;
  const Tensor& value_;
  std::int64_t b_;
  std::int64_t h_;
  std::vector<std::vector<std::int32_t>> bucket_;
  std::vector<std::vector<std::int64_t>> order_;
};

Tensor shared_of(const Case& c) { return random_tensor({c.batch, c.time, c.heads, c.dim}, 1, 2); }
Tensor value_of(const Case& c) { return random_tensor({c.batch, c.time, c.heads, c.value_dim}, 2); }
Variable run(const Case& c, const Variable& shared, const Variable& value, const Tensor& buckets) {
  return lsh_attention(shared, value, buckets, c.options, dropout_of(c));
}
Tensor run(const Case& c) {
  return run(c, Variable(shared_of(c)), Variable(value_of(c)), buckets_of(c)).value();
}

void expect_definition(const Case& c) {
  const Tensor shared = shared_of(c), value = value_of(c), buckets = buckets_of(c);
  const Tensor expected = value.empty_like();
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      DenseHashAttention(c, shared, value, buckets, b, h).write(expected.data<double>());
  // The self score costs digits if a token is alone in several rounds.
  expect_close(values_of(run(c)), values_of(expected), 1e-10);
}

const LshAttentionOptions small = {.buckets = 5, .chunk = 3};

// [2, 12]: a position in the middle of one row, the end of the other.
Tensor some_hidden() {
  const Tensor hidden = Tensor::zeros({2, 12}, DType::u8, backend_device());
  for (const std::int64_t token : {2, 21, 22, 23}) hidden.data<std::uint8_t>()[token] = 1;
  return hidden;
}

LshAttentionOptions with(LshAttentionOptions options,
                         const std::function<void(LshAttentionOptions&)>& change) {
  change(options);
  return options;
}

std::vector<Case> cases() {
  const auto changed = [](const auto& change) { return with(small, change); };
  return {
      {.name = "one round", .options = small},
      {.name = "rounds count once", .rounds = 3, .options = small},
      {.name = "rounds count as often", .rounds = 3, .options = changed([](auto& o) {
                                                       o.count_once = false;
                                                     })},
      {.name = "not causal", .rounds = 2, .options = changed([](auto& o) { o.causal = false; })},
      {.name = "look ahead", .rounds = 2, .options = changed([](auto& o) {
                                            o.causal = false;
                                            o.look_ahead = 1;
                                          })},
      {.name = "look far back", .rounds = 2, .options = changed([](auto& o) { o.look_back = 3; })},
      {.name = "same bucket", .rounds = 3, .options = changed([](auto& o) {
                                             o.same_bucket = true;
                                           })},
      {.name = "same bucket, as often, not causal", .rounds = 3, .options = changed([](auto& o) {
                                                                   o.same_bucket = true;
                                                                   o.count_once = false;
                                                                   o.causal = false;
                                                                 })},
      {.name = "round all rounds", .rounds = 3, .options = changed([](auto& o) {
                                                  o.wrap_rounds = true;
                                                  o.count_once = false;
                                                })},
      {.name = "scale and self score", .rounds = 2, .options = changed([](auto& o) {
                                                      o.scale = 0.9;
                                                      o.self_score = -1e3;
                                                    })},
      // High enough to matter: a token must not count itself in every round.
      {.name = "a self score that counts", .rounds = 3, .options = changed([](auto& o) {
                                                          o.self_score = -0.25;
                                                        })},
      {.name = "values of another width", .value_dim = 5, .rounds = 2, .options = small},
      {.name = "length is no multiple of the chunk", .time = 11, .rounds = 2, .options = small},
      {.name = "padding", .time = 11, .rounds = 2, .options = small, .padded = true},
      {.name = "padding, not causal",
       .rounds = 2,
       .options = changed([](auto& o) { o.causal = false; }),
       .padded = true},
      {.name = "hidden", .rounds = 3, .options = changed([](auto& o) {
                                        o.hidden = some_hidden();
                                      })},
      {.name = "hidden, not causal, as often, round all rounds",
       .rounds = 2,
       .options = changed([](auto& o) {
         o.hidden = some_hidden();
         o.causal = false;
         o.count_once = false;
         o.wrap_rounds = true;
       })},
      {.name = "hidden, same bucket", .rounds = 2, .options = changed([](auto& o) {
                                                     o.hidden = some_hidden();
                                                     o.same_bucket = true;
                                                   })},
      {.name = "one chunk", .rounds = 2, .options = changed([](auto& o) { o.chunk = 12; })},
      {.name = "one chunk that is not filled", .time = 5, .options = changed([](auto& o) {
                                                            o.chunk = 8;
                                                          })},
      {.name = "one token", .time = 1, .options = small},
      {.name = "dropout", .rounds = 2, .options = small, .dropout = 0.4},
  };
}

TEST(LshAttention, MatchesDenseDefinition) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    expect_definition(c);
  }
}

// Several gathered parts per round, with borders inside a tile.
TEST(LshAttention, MatchesDefinitionAcrossGatheredParts) {
  Case c = {.name = "parts",
            .batch = 1,
            .time = 1499,
            .heads = 16,
            .dim = 2,
            .value_dim = 2,
            .rounds = 2,
            .options = {.buckets = 60, .chunk = 24}};
  expect_definition(c);
  c.options.causal = false;
  c.options.look_ahead = 1;
  c.options.same_bucket = true;
  c.dropout = 0.3;
  expect_definition(c);
}

TEST(LshAttention, GradientsMatchDifferences) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor buckets = buckets_of(c);
    expect_gradients([&](const auto& in) { return run(c, in[0], in[1], buckets); },
                     {shared_of(c), value_of(c)},
                     {.directions = 1, .elements = 2});
  }
}

// All heads require several gathered parts per round, one head requires one.
TEST(LshAttention, ResultDoesNotDependOnPartition) {
  const auto options = with(small, [](auto& o) {
    o.buckets = 20;
    o.chunk = 64;
  });
  const Case all = {
      .name = "parts", .batch = 1, .time = 700, .heads = 32, .rounds = 2, .options = options};
  const Tensor buckets = buckets_of(all), upstream = random_tensor(value_of(all).shape(), 3);
  const auto head_of = [&](const Tensor& tensor, std::int64_t h) {
    const Tensor head = Tensor::empty({1, all.time, 1, all.dim}, DType::f64, backend_device());
    for (std::int64_t t = 0; t < all.time; ++t)
      std::copy_n(tensor.data<double>() + (t * all.heads + h) * all.dim,
                  all.dim,
                  head.data<double>() + t * all.dim);
    return head;
  };
  const auto run_with =
      [&](const Tensor& shared, const Tensor& value, const Tensor& ids, const Tensor& seed) {
        const std::vector<Variable> in = {Variable::leaf(shared), Variable::leaf(value)};
        const Variable out = run(all, in[0], in[1], ids);
        backward({out}, {seed.clone()});
        return std::vector<Tensor>{out.value(), in[0].gradient(), in[1].gradient()};
      };
  const auto together = run_with(shared_of(all), value_of(all), buckets, upstream);
  for (const std::int64_t h : {0, 17, 31}) {
    const Tensor ids = buckets.reshape({all.heads, all.rounds, all.time}).slice(h, h + 1);
    const auto alone = run_with(head_of(shared_of(all), h),
                                head_of(value_of(all), h),
                                ids.reshape({1, 1, all.rounds, all.time}),
                                head_of(upstream, h));
    for (std::size_t i = 0; i < 3; ++i)
      expect_close(values_of(alone[i]), values_of(head_of(together[i], h)), 1e-12);
  }
}

// A chunk has room for a full bucket, so each query attends to all keys of its bucket.
TEST(LshAttention, EqualsHashMaskedAttentionForSmallBuckets) {
  Case c = {
      .name = "buckets",
      .time = 24,
      .options = {.buckets = 6, .chunk = 6, .look_ahead = 1, .causal = false, .same_bucket = true}};
  const Tensor buckets = Tensor::empty({c.batch, c.heads, 1, c.time}, DType::i32, backend_device());
  for (std::int64_t i = 0; i < buckets.elements(); ++i)
    buckets.data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 5 % c.options.buckets);
  // One chunk of the full sequence: the hash mask alone.
  Case dense = c;
  dense.options.chunk = c.time;
  expect_close(
      values_of(run(c, Variable(shared_of(c)), Variable(value_of(c)), buckets).value()),
      values_of(run(dense, Variable(shared_of(c)), Variable(value_of(c)), buckets).value()),
      1e-12);
}

TEST(LshAttention, CausalOutputDoesNotDependOnFuture) {
  const Case c = {.name = "causal", .time = 40, .rounds = 3, .options = small};
  const Tensor buckets = buckets_of(c), before = run(c);
  constexpr std::int64_t changed = 23;
  const Tensor shared = shared_of(c), value = value_of(c);
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t i = 0; i < c.heads * c.dim; ++i) {
      shared.data<double>()[(b * c.time + changed) * c.heads * c.dim + i] += 3;
      value.data<double>()[(b * c.time + changed) * c.heads * c.dim + i] -= 2;
    }
  const Tensor after = run(c, Variable(shared), Variable(value), buckets).value();
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const Tensor past = after.slice(b, b + 1).reshape({c.time, c.heads * c.dim});
    const Tensor was = before.slice(b, b + 1).reshape({c.time, c.heads * c.dim});
    EXPECT_TRUE(testing::same_bits(past.slice(0, changed), was.slice(0, changed)));
    EXPECT_FALSE(testing::same_bits(past.slice(changed, c.time), was.slice(changed, c.time)));
  }
}

TEST(LshAttention, FirstTokenReturnsItsValue) {
  const Case c = {.name = "alone", .rounds = 2, .options = small};
  const Tensor out = run(c), value = value_of(c);
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t i = 0; i < c.heads * c.value_dim; ++i)
      EXPECT_NEAR(out.data<double>()[b * c.time * c.heads * c.value_dim + i],
                  value.data<double>()[b * c.time * c.heads * c.value_dim + i],
                  1e-10);
}

TEST(LshAttention, PaddingHasZeroOutputAndGradient) {
  const Case c = {.name = "padding", .rounds = 2, .options = small, .padded = true};
  const Variable shared = Variable::leaf(shared_of(c)), value = Variable::leaf(value_of(c));
  const Variable out = run(c, shared, value, buckets_of(c));
  backward({out}, {random_tensor(out.shape(), 3)});
  for (const Tensor& tensor : {out.value(), shared.gradient(), value.gradient()})
    for (std::int64_t i = 0; i < c.heads * c.dim; ++i)
      EXPECT_EQ(tensor.data<double>()[2 * c.heads * c.dim + i], 0);
}

TEST(LshAttention, NarrowDTypesMatchFloat64) {
  const Case c = {.name = "narrow",
                  .time = 200,
                  .dim = 16,
                  .value_dim = 16,
                  .rounds = 2,
                  .options = {.buckets = 16, .chunk = 32, .self_score = -1e3}};
  const Tensor buckets = buckets_of(c), upstream = random_tensor(value_of(c).shape(), 9);
  const auto run_in = [&](DType dtype) {
    const auto rounded = [&](const Tensor& tensor) {
      return cast(cast(Variable(tensor), DType::bf16), dtype).value();
    };
    const Variable shared = Variable::leaf(rounded(shared_of(c)));
    const Variable value = Variable::leaf(rounded(value_of(c)));
    const Variable out = run(c, shared, value, buckets);
    backward({out}, {rounded(upstream)});
    Values all = values_of(out.value());
    for (const Variable& leaf : {shared, value})
      for (const double number : values_of(leaf.gradient())) all.push_back(number);
    return all;
  };
  const Values exact = run_in(DType::f64);
  expect_close(run_in(DType::f32), exact, 1e-4);
  expect_close(run_in(DType::bf16), exact, 0.05);
}

TEST(LshAttention, RejectsRepeatedKeys) {
  Case c = {.name = "few chunks", .time = 6, .options = small};
  c.options.look_ahead = 1;
  EXPECT_THROW(run(c), Failure);
}

}  // namespace
}  // namespace longspan::hash_attention_test
