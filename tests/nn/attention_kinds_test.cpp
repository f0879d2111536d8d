// Every attention kind against dense attention with the mask of its definition.
#include <algorithm>
#include <set>

#include "framework/nn/attention/global_attention.h"
#include "framework/nn/attention/kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/support/gradient_check.h"

namespace longspan {
namespace {

using testing::cpu_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 2;
constexpr std::int64_t heads = 4;
constexpr std::int64_t dim = 3;
constexpr std::int64_t value_dim = 2;

// Whether global head `head` sees key k from p in a sequence of `time` positions, k <= p.
using Sees = std::function<bool(std::int64_t head, std::int64_t p, std::int64_t k)>;

struct Sequence {
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor upstream;

  explicit Sequence(std::int64_t time)
      : query(random_tensor({batch, time, heads, dim}, 1)),
        key(random_tensor({batch, time, heads, dim}, 2)),
        value(random_tensor({batch, time, heads, value_dim}, 3)),
        upstream(random_tensor({batch, time, heads, value_dim}, 4)) {}
};

struct Results {
  Values y;
  Values dquery;
  Values dkey;
  Values dvalue;
};

void expect_same(const Results& found, const Results& expected) {
  expect_close(found.y, expected.y, 1e-12);
  expect_close(found.dquery, expected.dquery, 1e-11);
  expect_close(found.dkey, expected.dkey, 1e-11);
  expect_close(found.dvalue, expected.dvalue, 1e-11);
}

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Adds factor * b to a.
void add_to(double* a, double factor, const double* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] += factor * b[i];
}

// One row after another, as attention is defined, with its derivative.
Results dense(const Sequence& s, const Sees& sees) {
  const std::int64_t time = s.query.shape()[1];
  const Tensor y = Tensor::zeros(s.value.shape(), DType::f64, cpu_device());
  const Tensor dquery = Tensor::zeros(s.query.shape(), DType::f64, cpu_device());
  const Tensor dkey = Tensor::zeros(s.key.shape(), DType::f64, cpu_device());
  const Tensor dvalue = Tensor::zeros(s.value.shape(), DType::f64, cpu_device());
  const auto at = [&](const Tensor& x, std::int64_t b, std::int64_t t, std::int64_t h) {
    return x.data<double>() + ((b * time + t) * heads + h) * x.shape()[3];
  };
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t p = 0; p < time; ++p) {
        Values weights(static_cast<std::size_t>(time), 0);
        double total = 0;
        for (std::int64_t k = 0; k <= p; ++k)
          if (sees(h, p, k))
            total += weights[static_cast<std::size_t>(k)] =
                std::exp(scale * dot(at(s.query, b, p, h), at(s.key, b, k, h), dim));
        if (total == 0) continue;
        for (double& weight : weights) weight /= total;
        const double* const dy = at(s.upstream, b, p, h);
        double mean = 0;
        for (std::int64_t k = 0; k <= p; ++k) {
          const double weight = weights[static_cast<std::size_t>(k)];
          add_to(at(y, b, p, h), weight, at(s.value, b, k, h), value_dim);
          add_to(at(dvalue, b, k, h), weight, dy, value_dim);
          mean += weight * dot(dy, at(s.value, b, k, h), value_dim);
        }
        for (std::int64_t k = 0; k <= p; ++k) {
          const double change = scale * weights[static_cast<std::size_t>(k)] *
                                (dot(dy, at(s.value, b, k, h), value_dim) - mean);
          add_to(at(dquery, b, p, h), change, at(s.key, b, k, h), dim);
          add_to(at(dkey, b, k, h), change, at(s.query, b, p, h), dim);
        }
      }
  return {values_of(y), values_of(dquery), values_of(dkey), values_of(dvalue)};
}

// These heads of a sequence.
Tensor heads_of(const Tensor& x, const Part& part) {
  const std::int64_t rows = x.shape()[0] * x.shape()[1];
  const std::int64_t width = x.shape()[3];
  const Tensor result = Tensor::empty(x.shape().with(2, part.count), DType::f64, cpu_device());
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(x.data<double>() + (row * heads + part.begin) * width,
                part.count * width,
                result.data<double>() + row * part.count * width);
  return result;
}

Results run(const Mechanism& mechanism, const Sequence& s, const Part& part, const Pass& pass) {
  const Projected projected = {.query = Variable::leaf(heads_of(s.query, part)),
                               .key = Variable::leaf(heads_of(s.key, part)),
                               .value = Variable::leaf(heads_of(s.value, part)),
                               .heads = part};
  const Variable y = mechanism(projected, SegmentContext{}, pass);
  backward({y}, {heads_of(s.upstream, part)});
  return {values_of(y.value()),
          values_of(projected.query.gradient()),
          values_of(projected.key.gradient()),
          values_of(projected.value.gradient())};
}

constexpr Part all_heads = {.begin = 0, .count = heads, .total = heads};

Results run(const AttentionPattern& pattern, const Sequence& s) {
  return run(SoftmaxAttention(0, pattern), s, all_heads, Pass());
}

AttentionPattern pattern_of(const AttentionOptions& options) {
  return attention_patterns(options, {.layers = 1, .heads = heads}).front();
}

// The definitions, of specifications and papers.
namespace sees {

Sees causal() {
  return [](auto, auto, auto) { return true; };
}
Sees local(std::int64_t left) {
  return [=](auto, std::int64_t p, std::int64_t k) { return p - left <= k; };
}
Sees dilated(std::int64_t left, std::int64_t gap) {
  return [=](auto, std::int64_t p, std::int64_t k) {
    return p - left * gap <= k && (p - k) % gap == 0;
  };
}
Sees strided(std::int64_t length) {
  return [=](auto, std::int64_t p, std::int64_t k) { return (p - k) % length == 0; };
}
Sees block(std::int64_t length) {
  return [=](auto, std::int64_t p, std::int64_t k) { return k / length == p / length; };
}
// Head h has the group h / every mod groups.
Sees summary(std::int64_t length,
             std::int64_t count,
             std::int64_t groups = 1,
             std::int64_t every = 1) {
  return [=](std::int64_t h, std::int64_t, std::int64_t k) {
    const std::int64_t group = h / every % groups;
    return k % length >= length - (group + 1) * count && k % length < length - group * count;
  };
}
Sees self() {
  return [](auto, std::int64_t p, std::int64_t k) { return k == p; };
}
Sees global(std::set<std::int64_t> positions) {
  return [=](auto, std::int64_t p, std::int64_t k) {
    return positions.contains(p) || positions.contains(k);
  };
}
Sees either(Sees a, Sees b) {
  return [=](std::int64_t h, std::int64_t p, std::int64_t k) { return a(h, p, k) || b(h, p, k); };
}
Sees by_head(std::vector<Sees> parts) {
  return [=](std::int64_t h, std::int64_t p, std::int64_t k) {
    return parts[static_cast<std::size_t>(h % std::ssize(parts))](h, p, k);
  };
}

}  // namespace sees

struct Case {
  std::string name;
  AttentionOptions options;
  Sees sees;
};

AttentionOptions with(const std::string& kinds, AttentionOptions options = {}) {
  options.kinds = {kinds};
  return options;
}

// Stride 4 and window 2 where nothing else is said.
std::vector<Case> cases() {
  using namespace sees;
  const AttentionOptions base = {
      .window = {2}, .dilation = 3, .stride = 4, .summary = 1, .global = {0, 5}};
  AttentionOptions groups = base;
  groups.summary = 2;
  groups.summary_groups = 2;
  AttentionOptions no_self = base;
  no_self.self = false;
  AttentionOptions wide = base;
  wide.window = {9};  // reaches two columns
  return {
      {"causal", with("causal", base), causal()},
      {"local", with("local", base), local(2)},
      {"dilated", with("dilated", base), dilated(2, 3)},
      {"strided", with("strided", base), strided(4)},
      {"block", with("block", base), block(4)},
      {"summary", with("summary", base), either(summary(4, 1), self())},
      {"summary without itself", with("summary", no_self), summary(4, 1)},
      {"fixed", with("fixed", base), either(block(4), summary(4, 1))},
      {"fixed, two groups", with("fixed", groups), either(block(4), summary(4, 2, 2))},
      {"global", with("global", base), either(local(2), global({0, 5}))},
      {"local+strided", with("local+strided", base), either(local(2), strided(4))},
      {"wide local+strided", with("local+strided", wide), either(local(9), strided(4))},
      {"strided+global",
       with("strided+global", base),
       either(strided(4), either(local(2), global({0, 5})))},
      {"local/strided", with("local/strided", base), by_head({local(2), strided(4)})},
      {"local+strided/dilated",
       with("local+strided/dilated", base),
       by_head({either(local(2), strided(4)), dilated(2, 3)})},
      {"strided/fixed, two groups",
       with("strided/fixed", groups),
       by_head({strided(4), either(block(4), summary(4, 2, 2, 2))})},
      {"causal/block+summary/local/strided+global",
       with("causal/block+summary/local/strided+global", base),
       by_head({causal(),
                either(block(4), either(summary(4, 1), self())),
                local(2),
                either(strided(4), either(local(2), global({0, 5})))})},
  };
}

constexpr std::int64_t times[] = {1, 3, 4, 5, 8, 13, 40, 131};

TEST(AttentionKinds, EqualDenseAttentionWithTheMaskOfTheirDefinition) {
  for (const Case& c : cases())
    for (const std::int64_t time : times) {
      SCOPED_TRACE(c.name + ", time " + std::to_string(time));
      const Sequence sequence(time);
      expect_same(run(pattern_of(c.options), sequence), dense(sequence, c.sees));
    }
}

TEST(AttentionKinds, TheFirstPositionSeesItself) {
  for (const Case& c : cases())
    for (std::int64_t head = 0; head < heads; ++head)
      EXPECT_EQ(pattern_of(c.options).rules(16).of(head).allows(0, 0), c.options.self) << c.name;
}

TEST(AttentionKinds, EachTensorRankTakesItsHeadsOfTheTable) {
  for (const Case& c : cases())
    for (const std::int64_t time : {5, 40}) {
      SCOPED_TRACE(c.name + ", time " + std::to_string(time));
      const Sequence sequence(time);
      const Results expected = dense(sequence, c.sees);
      for (const Part& part : {Part{0, 1, heads}, Part{1, 3, heads}}) {
        const Results found =
            run(SoftmaxAttention(0, pattern_of(c.options)), sequence, part, Pass());
        const auto piece = [&](const Values& whole, std::int64_t width) {
          const Tensor x = testing::tensor_of<double>(whole, {batch, time, heads, width});
          return values_of(heads_of(x, part));
        };
        expect_same(found,
                    {piece(expected.y, value_dim),
                     piece(expected.dquery, dim),
                     piece(expected.dkey, dim),
                     piece(expected.dvalue, value_dim)});
      }
    }
}

// A fold exchanges heads and positions, which number the elements of dropout.
TEST(AttentionKinds, DropoutIsThatOfTheUnfoldedCall) {
  const AttentionPattern pattern = pattern_of(with("local+strided", {.window = {2}, .stride = 4}));
  const Sequence sequence(40);
  const Pass pass = {.training = true, .random = Random(3)};
  const Projected projected = {.query = Variable(sequence.query),
                               .key = Variable(sequence.key),
                               .value = Variable(sequence.value),
                               .heads = all_heads};
  const Variable found = SoftmaxAttention(0.5, pattern)(projected, SegmentContext{}, pass);
  SegmentContext context;
  context.mask.rules = pattern.rules(40).of(0) & masks::causal();
  const Variable expected = SoftmaxAttention(0.5)(projected, context, pass);
  expect_close(values_of(found.value()), values_of(expected.value()), 1e-12);
}

TEST(AttentionKinds, AlternateByLayerAndTakeAWindowForEach) {
  AttentionOptions options = {.kinds = {"local", "strided"}, .window = {1, 2, 3}, .stride = 4};
  const auto patterns = attention_patterns(options, {.layers = 3, .heads = heads});
  ASSERT_EQ(patterns.size(), 3u);
  const Sequence sequence(13);
  expect_same(run(patterns[0], sequence), dense(sequence, sees::local(1)));
  expect_same(run(patterns[1], sequence), dense(sequence, sees::strided(4)));
  expect_same(run(patterns[2], sequence), dense(sequence, sees::local(3)));
}

TEST(AttentionKinds, ReachAllKeysWhereTheyShould) {
  const Sequence sequence(13);
  const Results full = dense(sequence, sees::causal());
  expect_same(run(pattern_of(with("local", {.window = {12}})), sequence), full);
  expect_same(run(pattern_of(with("strided", {.stride = 1})), sequence), full);
  expect_same(run(pattern_of(with("block", {.stride = 13})), sequence), full);
  AttentionOptions all = with("global", {.window = {0}});
  all.global = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  expect_same(run(pattern_of(all), sequence), full);
}

TEST(AttentionKinds, PermutingTheHeadsPermutesTheTable) {
  const AttentionOptions base = {.window = {2}, .stride = 4};
  const Sequence sequence(40);
  Sequence permuted = sequence;  // head h is head h ^ 1
  for (Tensor* const x : {&permuted.query, &permuted.key, &permuted.value, &permuted.upstream}) {
    const Tensor from = *x;
    *x = from.clone();
    const std::int64_t width = from.shape()[3];
    for (std::int64_t row = 0; row < from.elements() / width; ++row)
      std::copy_n(from.data<double>() + (row ^ 1) * width, width, x->data<double>() + row * width);
  }
  const Results found = run(pattern_of(with("local/strided", base)), permuted);
  const Results expected = run(pattern_of(with("strided/local", base)), sequence);
  for (std::size_t row = 0; row < found.y.size() / value_dim; ++row)
    for (std::size_t e = 0; e < value_dim; ++e)
      EXPECT_NEAR(found.y[row * value_dim + e], expected.y[(row ^ 1) * value_dim + e], 1e-12);
}

std::set<std::int64_t> keys_of(const AttentionPattern& pattern, std::int64_t p) {
  std::set<std::int64_t> keys;
  for (std::int64_t k = 0; k <= p; ++k)
    if (pattern.rules(p + 1).of(0).allows(p, k)) keys.insert(k);
  return keys;
}

TEST(SparseTransformer, HasThePapersKeys) {
  const AttentionOptions base = {.window = {3}, .stride = 4, .summary = 1};
  EXPECT_EQ(keys_of(pattern_of(with("local+strided", base)), 15),
            (std::set<std::int64_t>{12, 13, 14, 15, 3, 7, 11}));
  EXPECT_EQ(keys_of(pattern_of(with("fixed", base)), 13),
            (std::set<std::int64_t>{12, 13, 3, 7, 11}));
}

// From any position two layers lead to every earlier one.
TEST(SparseTransformer, TwoLayersReachEveryEarlierPosition) {
  const std::int64_t time = 19;
  const AttentionOptions base = {.window = {3}, .stride = 4, .summary = 1};
  const auto reached = [&](const std::string& first, const std::string& second) {
    const Mask one = pattern_of(with(first, base)).rules(time).of(0) & masks::causal();
    const Mask two = pattern_of(with(second, base)).rules(time).of(0) & masks::causal();
    std::int64_t missed = 0;
    for (std::int64_t p = 0; p < time; ++p)
      for (std::int64_t k = 0; k <= p; ++k) {
        bool reaches = false;
        for (std::int64_t m = k; m <= p; ++m) reaches |= one.allows(m, k) && two.allows(p, m);
        missed += !reaches;
      }
    return missed == 0;
  };
  EXPECT_TRUE(reached("local", "strided"));
  EXPECT_TRUE(reached("strided", "local"));
  EXPECT_TRUE(reached("block", "summary"));
  EXPECT_FALSE(reached("local", "local"));
}

// Overlapping blocks hold every window of at most their length.
TEST(LocalAttention, EqualsOverlappingBlocksCutToTheWindow) {
  const Mask window = masks::causal() & masks::window(3, 0);
  const Mask blocks = masks::causal() & masks::block(4, 4) & masks::window(3, masks::unlimited);
  for (std::int64_t p = 0; p < 30; ++p)
    for (std::int64_t k = 0; k < 30; ++k) EXPECT_EQ(window.allows(p, k), blocks.allows(p, k));
}

GlobalAttention big_bird(bool causal) {
  return {.positions = {0, 1, 70},
          .left = 6,
          .right = causal ? 0 : 6,
          .random_blocks = 3,
          .block = 5,
          .causal = causal,
          .random = Random(4).child("head")};
}

TEST(GlobalAttention, RandomBlocksAreDistinctAndOutsideOfWindowAndGlobalBlocks) {
  for (const bool causal : {true, false}) {
    const GlobalAttention global = big_bird(causal);
    const std::int64_t positions = 98;  // the last block is short
    const auto lists = random_blocks(global, positions);
    ASSERT_EQ(lists.size(), 20u);
    for (std::int64_t block = 0; block < 20; ++block) {
      const auto& list = lists[static_cast<std::size_t>(block)];
      EXPECT_EQ(std::set<std::int64_t>(list.begin(), list.end()).size(), list.size());
      std::int64_t candidates = 0;
      for (std::int64_t other = 0; other < 20; ++other) {
        const bool touched =
            other * 5 + 4 >= block * 5 - 6 && (causal || other * 5 <= block * 5 + 4 + global.right);
        const bool taken = other == 0 || other == 14;
        if (touched || taken) {
          EXPECT_EQ(std::ranges::count(list, other), 0) << "block " << block;
        }
        candidates += !touched && !taken;
      }
      EXPECT_EQ(std::ssize(list), std::min<std::int64_t>(3, candidates)) << "block " << block;
    }
  }
}

TEST(GlobalAttention, RandomBlocksAreThoseOfTheSeedAndTheHead) {
  const GlobalAttention global = big_bird(true);
  EXPECT_EQ(random_blocks(global, 98), random_blocks(global, 98));
  GlobalAttention other = global;
  other.random = Random(4).child("another head");
  EXPECT_NE(random_blocks(global, 98), random_blocks(other, 98));
  // Every free block is drawn for some head.
  std::set<std::int64_t> drawn;
  for (std::uint64_t head = 0; head < 100; ++head) {
    other.random = Random(4).child(head);
    const auto lists = random_blocks(other, 98);
    drawn.insert(lists[9].begin(), lists[9].end());
  }
  EXPECT_EQ(drawn, (std::set<std::int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(GlobalAttention, ACausalSequenceHasTheBlocksOfALongerOne) {
  auto longer = random_blocks(big_bird(true), 98);
  longer.resize(12);
  EXPECT_EQ(random_blocks(big_bird(true), 60), longer);
}

TEST(GlobalAttention, HeadsAndLayersHaveTheirOwnBlocksAndEqualDenseAttention) {
  AttentionOptions options = with("global", {.window = {3}});
  options.random = 2;
  options.block = 4;
  options.seed = 5;
  const auto patterns = attention_patterns(options, {.layers = 2, .heads = heads});
  const std::int64_t time = 61;
  const auto lists = [&](std::int64_t layer, std::int64_t head) {
    GlobalAttention global = {.positions = {0}, .left = 3, .random_blocks = 2, .block = 4};
    global.random = Random(5)
                        .child("random_blocks")
                        .child(static_cast<std::uint64_t>(layer))
                        .child(static_cast<std::uint64_t>(head));
    return random_blocks(global, time);
  };
  EXPECT_NE(lists(0, 0), lists(0, 1));
  EXPECT_NE(lists(0, 0), lists(1, 0));
  const Sequence sequence(time);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    std::vector<std::vector<std::vector<std::int64_t>>> table;
    for (std::int64_t head = 0; head < heads; ++head) table.push_back(lists(layer, head));
    const Sees sees_random = [&](std::int64_t h, std::int64_t p, std::int64_t k) {
      const auto& list = table[static_cast<std::size_t>(h)][static_cast<std::size_t>(p / 4)];
      return std::ranges::count(list, k / 4) > 0;
    };
    expect_same(run(patterns[static_cast<std::size_t>(layer)], sequence),
                dense(sequence,
                      sees::either(sees_random, sees::either(sees::local(3), sees::global({0})))));
  }
}

TEST(AttentionPairs, AreThoseOfTheDefinition) {
  for (const Case& c : cases())
    for (const std::int64_t time : times) {
      SCOPED_TRACE(c.name + ", time " + std::to_string(time));
      double expected = 0;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t p = 0; p < time; ++p)
          for (std::int64_t k = 0; k <= p; ++k) expected += c.sees(h, p, k);
      EXPECT_DOUBLE_EQ(
          attention_pairs(pattern_of(c.options), masks::causal(), heads, time, 0, cpu_device()),
          expected / static_cast<double>(heads));
    }
}

TEST(AttentionPairs, CountAMemory) {
  const auto pairs = [](const std::string& kind, const Mask& own) {
    const AttentionPattern pattern = pattern_of(with(kind, {.window = {2}, .stride = 4}));
    return attention_pairs(pattern, own, heads, 3, 5, cpu_device());
  };
  EXPECT_EQ(pairs("causal", masks::causal()), 6 + 7 + 8);
  EXPECT_EQ(pairs("local", masks::causal()), 9);
  EXPECT_EQ(pairs("strided", masks::causal()), 2 + 2 + 2);
  EXPECT_EQ(pairs("strided", masks::causal() & masks::window(3, 0)), 3);
}

}  // namespace
}  // namespace longspan
