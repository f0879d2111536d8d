#include "framework/kernels/crf.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::crf_test {
namespace {

using namespace longspan::testing;

using Ids = std::vector<std::int64_t>;

// A chain in double, with its gold tags.
struct Case {
  std::int64_t rows, time, tags;
  Values emissions = {}, start = {}, transitions = {}, end = {};
  Ids lengths = {}, gold = {};
  Values dlosses = {};

  double emission(std::int64_t r, std::int64_t i, std::int64_t c) const {
    return emissions[static_cast<std::size_t>((r * time + i) * tags + c)];
  }
  double transition(std::int64_t from, std::int64_t to) const {
    return transitions[static_cast<std::size_t>(from * tags + to)];
  }
  std::int64_t length(std::int64_t r) const { return lengths[static_cast<std::size_t>(r)]; }
  const std::int64_t* gold_of(std::int64_t r) const { return gold.data() + r * time; }

  double score(std::int64_t r, const std::int64_t* path) const {
    const std::int64_t n = length(r);
    if (n == 0) return 0;
    double score =
        start[static_cast<std::size_t>(path[0])] + end[static_cast<std::size_t>(path[n - 1])];
    for (std::int64_t i = 0; i < n; ++i)
      score += emission(r, i, path[i]) + (i > 0 ? transition(path[i - 1], path[i]) : 0);
    return score;
  }
};

template <typename T>
Case random_case(const Shape& shape, const Ids& lengths, std::uint64_t seed = 1) {
  using A = Accumulator<T>;
  Case one{.rows = shape[0], .time = shape[1], .tags = shape[2]};
  one.emissions = normal_values<T>(shape.elements(), seed, 2);
  one.start = normal_values<A>(one.tags, seed + 1);
  one.transitions = normal_values<A>(one.tags * one.tags, seed + 2);
  one.end = normal_values<A>(one.tags, seed + 3);
  one.dlosses = normal_values<A>(one.rows, seed + 4);
  one.lengths = lengths;
  const Random random(seed);
  for (std::int64_t i = 0; i < one.rows * one.time; ++i) {
    const bool read = i % one.time < one.length(i / one.time);
    const auto tag =
        random.word(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(one.tags);
    one.gold.push_back(read ? static_cast<std::int64_t>(tag) : -100);
    for (std::int64_t c = 0; c < one.tags && !read; ++c)  // unread values may be anything
      one.emissions[static_cast<std::size_t>(i * one.tags + c)] = nan;
  }
  return one;
}

double log_sum_exp(const Values& x) {
  const double largest = *std::ranges::max_element(x);
  if (largest == -infinity) return largest;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

// Textbook reference: forward and backward scores of the full row.
struct Expected {
  Values losses, log_partition, demissions, dstart, dtransitions, dend;
};
Expected expected_of(const Case& one) {
  const std::int64_t tags = one.tags;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  Expected out;
  out.demissions.assign(one.emissions.size(), 0);
  out.dstart.assign(at(tags), 0);
  out.dend = out.dstart;
  out.dtransitions.assign(at(tags * tags), 0);
  for (std::int64_t r = 0; r < one.rows; ++r) {
    const std::int64_t n = one.length(r);
    if (n == 0) {
      out.losses.push_back(0);
      out.log_partition.push_back(0);
      continue;
    }
    std::vector<Values> alpha(at(n), Values(at(tags))), beta = alpha;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t c = 0; c < tags; ++c) {
        Values ways;
        for (std::int64_t y = 0; i > 0 && y < tags; ++y)
          ways.push_back(alpha[at(i - 1)][at(y)] + one.transition(y, c));
        alpha[at(i)][at(c)] =
            one.emission(r, i, c) + (i > 0 ? log_sum_exp(ways) : one.start[at(c)]);
      }
    for (std::int64_t i = n - 1; i >= 0; --i)
      for (std::int64_t y = 0; y < tags; ++y) {
        Values ways;
        for (std::int64_t c = 0; i + 1 < n && c < tags; ++c)
          ways.push_back(one.transition(y, c) + one.emission(r, i + 1, c) + beta[at(i + 1)][at(c)]);
        beta[at(i)][at(y)] = i + 1 < n ? log_sum_exp(ways) : one.end[at(y)];
      }
    Values last;
    for (std::int64_t c = 0; c < tags; ++c)
      last.push_back(alpha[at(n - 1)][at(c)] + one.end[at(c)]);
    const double partition = log_sum_exp(last), scale = one.dlosses[at(r)];
    const std::int64_t* const gold = one.gold_of(r);
    out.log_partition.push_back(partition);
    out.losses.push_back(partition - one.score(r, gold));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t c = 0; c < tags; ++c) {
        const double probability = std::exp(alpha[at(i)][at(c)] + beta[at(i)][at(c)] - partition);
        const double gradient = scale * (probability - (gold[i] == c ? 1 : 0));
        out.demissions[at((r * one.time + i) * tags + c)] = gradient;
        if (i == 0) out.dstart[at(c)] += gradient;
        if (i == n - 1) out.dend[at(c)] += gradient;
        for (std::int64_t y = 0; i > 0 && y < tags; ++y) {
          const double pair = std::exp(alpha[at(i - 1)][at(y)] + one.transition(y, c) +
                                       one.emission(r, i, c) + beta[at(i)][at(c)] - partition);
          out.dtransitions[at(y * tags + c)] +=
              scale * (pair - (gold[i - 1] == y && gold[i] == c ? 1 : 0));
        }
      }
  }
  return out;
}

template <typename T>
struct Answer {
  using A = Accumulator<T>;

  explicit Answer(const Case& one, const Device& device = backend_device())
      : chain{.emissions = tensor_of<T>(one.emissions, {one.rows, one.time, one.tags}),
              .lengths = ids_of(one.lengths),
              .start = tensor_of<A>(one.start, {one.tags}),
              .transitions = tensor_of<A>(one.transitions, {one.tags, one.tags}),
              .end = tensor_of<A>(one.end, {one.tags})},
        tags(ids_of(one.gold).reshape({one.rows, one.time})) {
    losses = {.chain = chain,
              .tags = tags,
              .losses = poisoned<A>({one.rows}),
              .log_partition = poisoned<A>({one.rows}),
              .arrival = poisoned<A>({one.rows, one.time, one.tags}),
              .growth = poisoned<A>({one.rows, one.time + 1})};
    crf_losses(backend(device), losses);
    const auto ones = [](const Shape& shape) {
      return tensor_of<A>(Values(static_cast<std::size_t>(shape.elements()), 1), shape);
    };
    gradient = {.chain = chain,
                .tags = tags,
                .arrival = losses.arrival,
                .growth = losses.growth,
                .dlosses = tensor_of<A>(one.dlosses, {one.rows}),
                .demissions = poisoned<T>({one.rows, one.time, one.tags}),
                .dstart = ones({one.tags}),
                .dtransitions = ones({one.tags, one.tags}),
                .dend = ones({one.tags})};
    crf_backward(backend(device), gradient);
    path = {.chain = chain,
            .tags = ids_of(Ids(one.gold.size(), 77)).reshape({one.rows, one.time}),
            .scores = poisoned<A>({one.rows})};
    crf_viterbi(backend(device), path);
  }

  Ids best() const {
    const Tensor here = path.tags.to_host();
    return {here.span<std::int64_t>().begin(), here.span<std::int64_t>().end()};
  }
  // Subtracts the initial value, 1.
  static Values added(const Tensor& tensor) {
    Values values = values_of(tensor);
    for (double& value : values) value -= 1;
    return values;
  }

  Crf chain;
  Tensor tags;
  CrfLosses losses;
  CrfGradient gradient;
  CrfViterbi path;
};

template <typename T>
class CrfTest : public ::testing::Test {};
TYPED_TEST_SUITE(CrfTest, FloatingTypes);

TYPED_TEST(CrfTest, LossesAndGradientsMatchForwardBackward) {
  using A = Accumulator<TypeParam>;
  for (const Shape& shape : {Shape{3, 6, 1}, Shape{40, 5, 2}, Shape{4, 7, 17}, Shape{2, 4, 70}}) {
    SCOPED_TRACE(shape.to_string());
    Ids lengths;
    for (std::int64_t r = 0; r < shape[0]; ++r) lengths.push_back(shape[1] - r % (shape[1] + 1));
    const Case one = random_case<TypeParam>(shape, lengths);
    const Answer<TypeParam> run(one);
    const Expected expected = expected_of(one);
    const double accurate = 8 * tolerance<A>();
    expect_close(values_of(run.losses.losses), expected.losses, accurate);
    expect_close(values_of(run.losses.log_partition), expected.log_partition, accurate);
    expect_close(values_of(run.gradient.demissions),
                 expected.demissions,
                 std::max(tolerance<TypeParam>(), accurate));
    expect_close(run.added(run.gradient.dstart), expected.dstart, accurate);
    expect_close(run.added(run.gradient.dtransitions), expected.dtransitions, accurate, 2);
    expect_close(run.added(run.gradient.dend), expected.dend, accurate);
  }
}

// Enumerates every path.
TYPED_TEST(CrfTest, PartitionAndBestPathMatchEnumeration) {
  const Case one = random_case<TypeParam>({6, 5, 3}, {5, 4, 1, 0, 3, 5});
  const Answer<TypeParam> run(one);
  Values partitions, scores;
  Ids best;
  for (std::int64_t r = 0; r < one.rows; ++r) {
    Values all;
    Ids highest;
    const auto length = static_cast<std::size_t>(one.length(r));
    for (std::int64_t number = 0; number < 243; ++number) {  // 3 to the 5th
      Ids path;
      std::int64_t rest = number;
      for (std::size_t i = 0; i < length; ++i, rest /= 3) path.push_back(rest % 3);
      if (rest > 0) break;
      all.push_back(one.score(r, path.data()));
      if (all.back() >= *std::ranges::max_element(all)) highest = path;
    }
    partitions.push_back(log_sum_exp(all));
    scores.push_back(*std::ranges::max_element(all));
    highest.resize(5, -1);
    best.insert(best.end(), highest.begin(), highest.end());
  }
  const double accurate = 8 * tolerance<Accumulator<TypeParam>>();
  expect_close(values_of(run.losses.log_partition), partitions, accurate);
  expect_close(values_of(run.path.scores), scores, accurate);
  EXPECT_EQ(run.best(), best);
}

TYPED_TEST(CrfTest, TiedPathsUseLowestTags) {
  Case one = random_case<TypeParam>({2, 4, 40}, {4, 3});
  for (Values* const values : {&one.emissions, &one.start, &one.transitions, &one.end})
    std::ranges::fill(*values, 0);
  EXPECT_EQ(Answer<TypeParam>(one).best(), (Ids{0, 0, 0, 0, 0, 0, 0, -1}));
  // Tag 35 at the end may come from 33 and from 38.
  one.end[35] = one.transitions[33 * 40 + 35] = one.transitions[38 * 40 + 35] = 1;
  EXPECT_EQ(Answer<TypeParam>(one).best(), (Ids{33, 35, 33, 35, 0, 33, 35, -1}));
}

TYPED_TEST(CrfTest, ForbiddenTagsHaveZeroProbabilityWithoutNan) {
  using A = Accumulator<TypeParam>;
  // Tags O, B, I: I neither starts a row nor follows O. The gold tags of row 1 violate this, and
  // row 2 has no possible path.
  Case one = random_case<TypeParam>({3, 4, 3}, {4, 4, 2});
  one.start[2] = one.transitions[2] = -infinity;
  one.gold = {0, 1, 2, 0, 0, 2, 1, 0, 1, 1, -1, -1};
  for (std::size_t i = 0; i < 3; ++i) one.emissions[24 + 3 + i] = -infinity;
  one.emissions[3] = -infinity;  // forbids O at position 1 of row 0
  one.dlosses = {1, 0.5, 0.25};
  const Answer<TypeParam> run(one);
  const Expected expected = expected_of(one);
  Values losses = expected.losses;
  EXPECT_EQ(losses[1], infinity);
  losses[2] = infinity;
  const double accurate = 8 * tolerance<A>();
  expect_close(values_of(run.losses.losses), losses, accurate);
  EXPECT_EQ(values_of(run.losses.log_partition)[2], -infinity);
  const Values demissions = values_of(run.gradient.demissions);
  for (const Tensor& gradient :
       {run.gradient.demissions, run.gradient.dstart, run.gradient.dtransitions, run.gradient.dend})
    for (const double value : values_of(gradient)) EXPECT_TRUE(std::isfinite(value)) << value;
  EXPECT_EQ(demissions[3], 0);
  EXPECT_EQ(demissions[2], 0) << "I at the beginning";
  const Values first(demissions.begin(), demissions.begin() + 24);
  expect_close(first,
               Values(expected.demissions.begin(), expected.demissions.begin() + 24),
               std::max(tolerance<TypeParam>(), accurate));
  // Only the violation in row 1 contributes: minus one observed pair.
  EXPECT_EQ(run.added(run.gradient.dtransitions)[2], -0.5);
  const Ids best = run.best();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_NE(best[4 * r], 2);
    for (std::size_t i = 1; i < 4; ++i)
      EXPECT_FALSE(best[4 * r + i] == 2 && best[4 * r + i - 1] == 0);
  }
  EXPECT_EQ(values_of(run.path.scores)[2], -infinity);
}

// In float the partition of this many steps loses three digits, but the loss keeps them.
TEST(Crf, LongRowsKeepPrecision) {
  const std::int64_t time = emulated ? 500 : 20000;
  const Case one = random_case<float>({1, time, 5}, {time});
  const Answer<float> run(one);
  const Expected expected = expected_of(one);
  expect_close(values_of(run.losses.losses), expected.losses, 1e-6);
  expect_close(values_of(run.gradient.demissions), expected.demissions, 2e-6);
  const Answer<double> exact(one);
  EXPECT_EQ(run.best(), exact.best());
  expect_close(values_of(exact.gradient.demissions), expected.demissions, 1e-9);
}

TEST(Crf, InvalidTagMakesLossNan) {
  Case one = random_case<double>({3, 3, 2}, {3, 3, 3});
  one.gold[0] = 2;
  one.gold[5] = -1;
  const Values losses = values_of(Answer<double>(one).losses.losses);
  EXPECT_TRUE(std::isnan(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_TRUE(std::isfinite(losses[2]));
}

TEST(Crf, SupportsMissingLengthsAndEmptyBatch) {
  const Case one = random_case<double>({3, 4, 3}, {4, 4, 4});
  Answer<double> run(one);
  CrfLosses whole = run.losses;
  whole.chain.lengths = Tensor();
  whole.losses = poisoned<double>({3});
  crf_losses(backend(), whole);
  EXPECT_TRUE(same_bits(whole.losses, run.losses.losses));
  const Answer<double> none(random_case<double>({0, 4, 3}, {}));
  EXPECT_EQ(values_of(none.gradient.dtransitions), Values(9, 1));
  // Lengths beyond the tensor do not extend reads.
  Case beyond = one;
  beyond.lengths = {9, 4, -3};
  EXPECT_EQ(values_of(Answer<double>(beyond).losses.losses)[0], values_of(whole.losses)[0]);
}

TEST(Crf, GradientsDoNotDependOnThreadCount) {
  const Case one = random_case<float>({70, 9, 20}, Ids(70, 9));
  const auto with = [&](int threads) {
    return with_threads(threads, [&] { return Answer<float>(one).gradient; });
  };
  const CrfGradient a = with(1), b = with(5);
  EXPECT_TRUE(same_bits(a.demissions, b.demissions));
  EXPECT_TRUE(same_bits(a.dtransitions, b.dtransitions));
  EXPECT_TRUE(same_bits(a.dstart, b.dstart));
  EXPECT_TRUE(same_bits(a.dend, b.dend));
}

TEST(Crf, RejectsWrongShapesAndDTypes) {
  const Answer<float> run(random_case<float>({2, 3, 4}, {3, 2}));
  const auto rejects = [](auto call, const auto& change, const auto& kernel) {
    change(call);
    EXPECT_THROW(kernel(backend(), call), Failure);
  };
  const auto losses = [](auto on, const auto& call) { crf_losses(on, call); };
  const auto backward = [](auto on, const auto& call) { crf_backward(on, call); };
  const auto path = [](auto on, const auto& call) { crf_viterbi(on, call); };
  rejects(
      run.losses, [](auto& call) { call.chain.lengths = ids_of({3}); }, losses);
  rejects(
      run.losses, [](auto& call) { call.chain.start = poisoned<double>({4}); }, losses);
  rejects(
      run.losses,
      [](auto& call) {
        call.growth = poisoned<float>({2, 3});
      },
      losses);
  rejects(
      run.losses, [](auto& call) { call.tags = Tensor(); }, losses);
  rejects(
      run.gradient, [](auto& call) { call.dtransitions = poisoned<float>({4}); }, backward);
  rejects(
      run.path, [](auto& call) { call.scores = poisoned<float>({3}); }, path);
  rejects(
      run.path,
      [](auto& call) {
        call.chain.emissions = poisoned<float>({2, 12});
      },
      path);
}

}  // namespace
}  // namespace longspan::crf_test
