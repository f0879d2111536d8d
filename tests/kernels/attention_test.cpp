#include "framework/kernels/attention/attention.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "tests/kernels/attention_dense.h"

namespace longspan::testing::attention_test {
namespace {

// The tolerance of a dtype against double, for inputs of spread 1.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 4e-3;
    default:
      return 2e-2;
  }
}

void expect_equals_dense(const AttentionCase& c) {
  const Device device = fresh_device();
  const AttentionGradient g = make_attention(c, device);
  const AttentionResult found = run_attention(g);
  expect_close(found, dense_attention(g), tolerance(c.dtype), c.to_string());
}

constexpr DType dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

void expect_equals_dense_for_every_length(bool relative) {
  std::uint64_t seed = relative ? 100 : 0;
  using Lengths = std::vector<std::int64_t>;
  for (const std::int64_t time : emulated ? Lengths{3, 65} : Lengths{1, 3, 5, 17, 64, 65, 130, 200})
    for (const std::int64_t memory : emulated ? Lengths{0, 70} : Lengths{0, 2, 7, 100})
      for (const DType dtype : dtypes)
        expect_equals_dense({.batch = 1,
                             .time = time,
                             .keys = time + memory,
                             .heads = 2,
                             .dim = 8,
                             .value_dim = 8,
                             .relative = relative,
                             .dtype = dtype,
                             .seed = ++seed});
}

TEST(Attention, CausalEqualsDenseForEveryLengthAndMemory) {
  expect_equals_dense_for_every_length(false);
}

TEST(Attention, RelativeEqualsDenseForEveryLengthAndMemory) {
  expect_equals_dense_for_every_length(true);
}

TEST(Attention, EveryHeadWidthEqualsDenseInEveryDtype) {
  std::uint64_t seed = 200;
  using Widths = std::vector<std::int64_t>;
  for (const std::int64_t dim : emulated ? Widths{72} : Widths{1, 3, 16, 41, 64, 72})
    for (const std::int64_t value_dim : emulated ? Widths{100} : Widths{1, 24, 100})
      for (const DType dtype : dtypes)
        expect_equals_dense({.batch = 1,
                             .time = 66,
                             .keys = 75,
                             .heads = 2,
                             .dim = dim,
                             .value_dim = value_dim,
                             .relative = seed % 2 == 0,
                             .dtype = dtype,
                             .seed = ++seed});
}

TEST(Attention, CrossAttentionEqualsDense) {
  std::uint64_t seed = 300;
  using Lengths = std::vector<std::int64_t>;
  for (const std::int64_t time : emulated ? Lengths{70} : Lengths{1, 5, 64, 130})
    for (const std::int64_t keys : emulated ? Lengths{17, 130} : Lengths{1, 17, 64, 200})
      for (const DType dtype : dtypes)
        expect_equals_dense({.batch = 2,
                             .time = time,
                             .keys = keys,
                             .heads = 2,
                             .dim = 24,
                             .value_dim = 8,
                             .causal = false,
                             .padded = seed % 3 == 0,
                             .dtype = dtype,
                             .seed = ++seed});
}

// A decoding step: reads values in place unless there is padding between them.
TEST(Attention, FewQueriesOverWideValuesEqualDense) {
  std::uint64_t seed = 400;
  using Lengths = std::vector<std::int64_t>;
  for (const std::int64_t time : emulated ? Lengths{1} : Lengths{1, 4, 5})
    for (const std::int64_t keys : emulated ? Lengths{70} : Lengths{6, 63, 64, 130})
      for (const DType dtype : dtypes)
        for (const bool padded : {false, true})
          expect_equals_dense({.batch = 2,
                               .time = time,
                               .keys = keys,
                               .heads = 2,
                               .dim = 24,
                               .value_dim = 64,
                               .causal = keys % 2 == 0,
                               .padded = padded,
                               .dtype = dtype,
                               .seed = ++seed});
}

// Random combinations of all options.
TEST(Attention, AnyCombinationEqualsDense) {
  const Random random = Random(7).child("combinations");
  for (std::uint64_t seed = 0; seed < (slow ? 8 : 120); ++seed) {
    auto pick = [&, n = std::uint64_t{0}](std::int64_t most) mutable {
      return static_cast<std::int64_t>(random.child(seed).word(n++)) % (most + 1);
    };
    AttentionCase c;
    c.batch = 1 + pick(2);
    c.time = 1 + pick(140);
    c.causal = pick(3) > 0;
    c.keys = c.causal ? c.time + pick(1) * pick(100) : 1 + pick(150);
    c.heads = 1 + pick(2);
    c.dim = 1 + pick(24);
    c.value_dim = 1 + pick(24);
    c.window = pick(1) * (1 + pick(150));
    c.padded = pick(2) == 0;
    c.relative = c.causal && pick(1) == 1;
    c.dropout = pick(2) == 0 ? 0.3 : 0;
    c.dtype = dtypes[seed % 4];
    c.seed = seed;
    expect_equals_dense(c);
  }
}

TEST(Attention, PackedDocumentsEqualDense) {
  std::uint64_t seed = 900;
  for (const DType dtype : dtypes)
    for (const std::int64_t document : {3, 40, 150})
      for (const std::int64_t dim : {9, 32}) {
        AttentionCase c{.batch = 2,
                        .time = slow ? 140 : 330,
                        .keys = slow ? 200 : 500,
                        .heads = 2,
                        .dim = dim,
                        .value_dim = dim,
                        .window = seed % 3 == 0 ? 70 : 0,
                        .padded = seed % 5 == 0,
                        .document = document,
                        .dropout = seed % 4 == 0 ? 0.2 : 0,
                        .dtype = dtype,
                        .seed = ++seed};
        if (slow && (seed + seed / 6) % 3 != 0) continue;
        if (seed % 2 == 0) c.relative = true;
        if (seed % 4 == 1) c.key_table = c.value_table = true;
        if (seed % 4 == 3) c.slopes = true;
        expect_equals_dense(c);
      }
}

TEST(Attention, GroupedHeadsEqualDense) {
  std::uint64_t seed = 950;
  for (const DType dtype : dtypes)
    for (const std::int64_t key_heads : {1, 3})
      for (const std::int64_t dim : {9, 32}) {
        AttentionCase c{.batch = 2,
                        .time = slow ? 70 : 150,
                        .keys = slow ? 100 : 290,
                        .heads = 6,
                        .key_heads = key_heads,
                        .dim = dim,
                        .value_dim = dim,
                        .padded = seed % 3 == 0,
                        .document = seed % 5 == 0 ? 40 : 0,
                        .dropout = seed % 4 == 0 ? 0.2 : 0,
                        .dtype = dtype,
                        .seed = ++seed};
        // Each dtype with both widths and both numbers of key heads.
        const std::uint64_t i = seed - 951;
        if (slow && (i + i / 2 + i / 4) % 2 != 0) continue;
        if (seed % 2 == 0) c.relative = true;
        // Heads that have different plans share a key.
        if (seed % 3 == 0)
          c.rules = HeadMasks(std::vector<Mask>{masks::window(20, 0),
                                                masks::causal(),
                                                masks::causal(),
                                                masks::stride(3),
                                                masks::causal(),
                                                masks::window(20, 0)});
        expect_equals_dense(c);
      }
}

// Adds to existing gradients although each head computes its part separately.
TEST(Attention, AddsToGradientsOfSharedKeys) {
  const AttentionCase c{
      .time = 70, .keys = 80, .heads = 4, .key_heads = 2, .dim = 8, .value_dim = 8, .seed = 5};
  const Device device = fresh_device();
  AttentionGradient g = make_attention(c, device);
  const AttentionResult expected = run_attention(g);
  g.add = true;
  for (const Tensor& gradient : {g.dquery, g.dkey, g.dvalue})
    for (double& x : gradient.span<double>()) x = 3;
  const AttentionResult found = run_attention(g);
  const auto expect_more = [](const Numbers& more, const Numbers& than) {
    ASSERT_EQ(more.size(), than.size());
    for (std::size_t i = 0; i < more.size(); ++i) EXPECT_NEAR(more[i], than[i] + 3, 1e-13);
  };
  expect_more(found.dquery, expected.dquery);
  expect_more(found.dkey, expected.dkey);
  expect_more(found.dvalue, expected.dvalue);
}

TEST(Attention, CappedScoresEqualDense) {
  std::uint64_t seed = 970;
  for (const DType dtype : dtypes)
    for (const std::int64_t dim : {9, 32})
      for (const int terms : {0, 1, 2}) {
        AttentionCase c{.batch = 2,
                        .time = slow ? 70 : 140,
                        .keys = slow ? 80 : 200,
                        .heads = 2,
                        .dim = dim,
                        .value_dim = dim,
                        .window = terms == 2 ? 40 : 0,
                        .relative = terms == 1,
                        .slopes = terms == 2,
                        .cap = 1.5,
                        .dropout = terms == 2 ? 0.2 : 0,
                        .dtype = dtype,
                        .seed = ++seed};
        // Each dtype with each of the terms.
        const std::uint64_t i = seed - 971;
        if (slow && (i / 3 + i % 3 + i / 6) % 2 != 0) continue;
        expect_equals_dense(c);
      }
}

// One row per document, of any length.
TEST(Attention, PackedDocumentsEqualSeparateRows) {
  const std::vector<std::int64_t> lengths = emulated
                                                ? std::vector<std::int64_t>{70, 1, 20}
                                                : std::vector<std::int64_t>{70, 1, 200, 64, 31};
  AttentionCase c{.batch = 1, .heads = 2, .dim = 8, .value_dim = 8, .seed = 3};
  for (const std::int64_t length : lengths) c.time += length;
  c.keys = --c.time;
  const Device device = fresh_device();
  AttentionGradient whole = make_attention(c, device);
  whole.forward.mask.max_lookback = Tensor::empty({1, c.time}, DType::i64, device);
  std::int64_t* reach = whole.forward.mask.max_lookback.data<std::int64_t>();
  for (const std::int64_t length : lengths)
    for (std::int64_t i = 0; i < length; ++i) *reach++ = i;
  const AttentionResult together = run_attention(whole);
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    c.time = c.keys = length;
    AttentionGradient part = make_attention(c, device);
    const auto rows = [&](const Tensor& from) {
      return from.reshape({from.shape()[1], from.shape()[2], from.shape()[3]})
          .slice(begin, begin + length)
          .reshape({1, length, from.shape()[2], from.shape()[3]});
    };
    part.forward.query = rows(whole.forward.query);
    part.forward.key = rows(whole.forward.key);
    part.forward.value = rows(whole.forward.value);
    part.dout = rows(whole.dout);
    const AttentionResult alone = run_attention(part);
    EXPECT_LE(distance(alone.out, numbers(rows(whole.forward.out))), 1e-14);
    EXPECT_LE(distance(alone.dquery, numbers(rows(whole.dquery))), 1e-14);
    EXPECT_LE(distance(alone.dkey, numbers(rows(whole.dkey))), 1e-14);
    EXPECT_LE(distance(alone.dvalue, numbers(rows(whole.dvalue))), 1e-14);
    begin += length;
  }
  ASSERT_EQ(together.out.size(), static_cast<std::size_t>(whole.forward.out.elements()));
}

TEST(Attention, RejectsInvalidLookback) {
  if (emulated) GTEST_SKIP() << "the host does not read what is on a device";
  const Device device = fresh_device();
  const AttentionGradient g =
      make_attention({.time = 4, .keys = 4, .dim = 2, .value_dim = 2, .document = 100}, device);
  std::int64_t* const reach = g.forward.mask.max_lookback.data<std::int64_t>();
  reach[0] = 0;
  reach[1] = 1;
  reach[2] = 3;
  try {
    attend(g.forward);
    FAIL() << "nothing was refused";
  } catch (const Failure& failure) {
    EXPECT_EQ(std::string(failure.what()),
              "attention: lookback of query 2 of batch row 0: expected 0 or more and at most one "
              "more than before, found 3 after 1");
  }
}

TEST(Attention, RowsWithoutKeysHaveZeroOutputAndGradient) {
  for (const DType dtype : dtypes) {
    AttentionCase c{.batch = 2,
                    .time = 70,
                    .keys = 70,
                    .heads = 2,
                    .dim = 8,
                    .value_dim = 8,
                    .padded = true,
                    .relative = true,
                    .dtype = dtype};
    const Device device = fresh_device();
    const AttentionGradient g = make_attention(c, device);
    const AttentionResult r = run_attention(g);
    const std::size_t half = r.out.size() / 2;
    for (std::size_t i = half; i < r.out.size(); ++i) {
      EXPECT_EQ(r.out[i], 0);
      EXPECT_EQ(r.dquery[i], 0);
      EXPECT_EQ(r.dkey[i], 0);
      EXPECT_EQ(r.dvalue[i], 0);
    }
    for (std::size_t i = r.log_sum_exp.size() / 2; i < r.log_sum_exp.size(); ++i)
      EXPECT_EQ(r.log_sum_exp[i], -std::numeric_limits<double>::infinity());
  }
}

// NaN in padded rows does not reach any product.
void expect_padding_unread(std::int64_t time, std::int64_t dim) {
  for (const DType dtype : dtypes) {
    AttentionCase c{.batch = 3,
                    .time = time,
                    .keys = 130,
                    .heads = 1,
                    .dim = dim,
                    .value_dim = dim,
                    .causal = false,
                    .padded = true,
                    .dtype = dtype};
    const Device device = fresh_device();
    const AttentionGradient g = make_attention(c, device);
    const AttentionResult clean = run_attention(g);
    const auto padding = g.forward.mask.key_padding.span<std::uint8_t>();
    const auto width = static_cast<std::size_t>(dim);
    with_floating_type(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (std::size_t i = 0; i < padding.size(); ++i)
        if (padding[i] != 0)
          for (std::size_t k = 0; k < width; ++k)
            g.forward.key.data<T>()[i * width + k] = g.forward.value.data<T>()[i * width + k] =
                static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    });
    const AttentionResult dirty = run_attention(g);
    EXPECT_EQ(dirty.out, clean.out);
    EXPECT_EQ(dirty.dquery, clean.dquery);
    EXPECT_EQ(dirty.dkey, clean.dkey);
    EXPECT_EQ(dirty.dvalue, clean.dvalue);
  }
}

TEST(Attention, IgnoresNanInPadding) {
  expect_padding_unread(emulated ? 20 : 80, 8);
  expect_padding_unread(2, 64);
}

TEST(Attention, ExtremeScoresStayFinite) {
  for (const DType dtype : dtypes) {
    // dim 4 and spread 100: scores of about 1e4 to either side.
    AttentionCase c{.batch = 1,
                    .time = 90,
                    .keys = 150,
                    .heads = 2,
                    .dim = 4,
                    .value_dim = 4,
                    .relative = true,
                    .dtype = dtype,
                    .spread = 70};
    const Device device = fresh_device();
    const AttentionResult r = run_attention(make_attention(c, device));
    for (const Numbers* values : {&r.out,
                                  &r.log_sum_exp,
                                  &r.dquery,
                                  &r.dkey,
                                  &r.dvalue,
                                  &r.dposition_key,
                                  &r.dcontent_bias,
                                  &r.dposition_bias})
      for (const double x : *values) ASSERT_TRUE(std::isfinite(x)) << name_of(dtype);
    // A score of 1e4 is rounded at 1e-12, which the gradient multiplies by input products of 2e4.
    // The tolerance is therefore wider than for scores of 1.
    if (dtype == DType::f64) {
      const AttentionGradient g = make_attention(c, device);
      const AttentionResult found = run_attention(g);
      const AttentionResult expected = dense_attention(g);
      EXPECT_LE(distance(found.out, expected.out), 1e-12);
      EXPECT_LE(distance(found.log_sum_exp, expected.log_sum_exp), 1e-12);
      expect_close(found, expected, 1e-7, c.to_string());
    }
  }
}

// A rank that has some batch rows and heads computes the values of the full call.
TEST(Attention, ShardOfBatchAndHeadsMatchesFullResult) {
  AttentionCase c{.batch = 2,
                  .time = 66,
                  .keys = 80,
                  .heads = 4,
                  .dim = 8,
                  .value_dim = 8,
                  .dropout = 0.4,
                  .dtype = DType::f64};
  const Device device = fresh_device();
  const AttentionGradient whole = make_attention(c, device);
  const AttentionResult all = run_attention(whole);
  c.batch = 1;
  c.heads = 2;
  AttentionGradient part = make_attention(c, device);
  const auto cut = [](const Tensor& from, const Tensor& to) {
    const std::int64_t rows = to.shape()[1];
    const std::int64_t width = 2 * to.shape()[3];
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(from.data<double>() + (rows + i) * 2 * width + width,
                  width,
                  to.data<double>() + i * width);
  };
  cut(whole.forward.query, part.forward.query);
  cut(whole.forward.key, part.forward.key);
  cut(whole.forward.value, part.forward.value);
  cut(whole.dout, part.dout);
  part.forward.dropout = whole.forward.dropout;
  part.forward.dropout->batch_begin = 1;
  part.forward.dropout->head_begin = 2;
  const AttentionResult mine = run_attention(part);
  const Tensor out = part.forward.out.clone();
  cut(whole.forward.out, out);
  EXPECT_EQ(mine.out, numbers(out));
  const Tensor dquery = part.dquery.clone();
  cut(whole.dquery, dquery);
  EXPECT_LE(distance(mine.dquery, numbers(dquery)), 1e-14);
  const Tensor dkey = part.dkey.clone();
  cut(whole.dkey, dkey);
  EXPECT_LE(distance(mine.dkey, numbers(dkey)), 1e-14);
}

class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

TEST(Attention, ForwardDoesNotDependOnThreadCount) {
  AttentionCase c{.batch = 1,
                  .time = 600,
                  .keys = 700,
                  .heads = 2,
                  .dim = 8,
                  .value_dim = 8,
                  .relative = true,
                  .dtype = DType::f32};
  const Device device = fresh_device();
  const AttentionResult expected = [&] {
    const Threads one(1);
    return run_attention(make_attention(c, device));
  }();
  for (const int count : {2, 3, 5, 8}) {
    const Threads threads(count);
    const AttentionResult found = run_attention(make_attention(c, device));
    EXPECT_EQ(found.out, expected.out) << count;
    EXPECT_EQ(found.log_sum_exp, expected.log_sum_exp) << count;
    expect_close(found, expected, 1e-5, fmt::format("{} threads", count));
    const AttentionResult again = run_attention(make_attention(c, device));
    EXPECT_EQ(again.dquery, found.dquery) << count;
    EXPECT_EQ(again.dkey, found.dkey) << count;
    EXPECT_EQ(again.dposition_key, found.dposition_key) << count;
    EXPECT_EQ(again.dposition_bias, found.dposition_bias) << count;
  }
}

// Long enough for several key blocks, runs of them, and query blocks.
TEST(Attention, LongSequencesEqualDenseForAnyThreadCount) {
  for (const int count : {1, 2, 7}) {
    const Threads threads(count);
    expect_equals_dense({.batch = 1,
                         .time = 530,
                         .keys = 900,
                         .heads = 1,
                         .dim = 5,
                         .value_dim = 3,
                         .relative = true,
                         .dropout = 0.1,
                         .seed = 5});
    expect_equals_dense({.batch = 2,
                         .time = 700,
                         .keys = 700,
                         .heads = 1,
                         .dim = 5,
                         .value_dim = 3,
                         .window = 130,
                         .padded = true,
                         .seed = 6});
  }
}

// As with OMP_DYNAMIC or OMP_THREAD_LIMIT: a call inside a parallel region gets only one thread.
TEST(Attention, SmallerThreadCountThanRequestedEqualsDense) {
  const Threads threads(4);
  const Device device = fresh_device();
  const AttentionGradient g = make_attention({.batch = 2,
                                              .time = 300,
                                              .keys = 400,
                                              .heads = 2,
                                              .dim = 8,
                                              .value_dim = 8,
                                              .relative = true},
                                             device);
  AttentionResult found;
#pragma omp parallel num_threads(2)
#pragma omp single
  found = run_attention(g);
  expect_close(found, dense_attention(g), tolerance(DType::f64), "on one thread");
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  if (emulated) GTEST_SKIP() << "too slow; the definition's gradients are compared above";
  const AttentionCase c{.batch = 1,
                        .time = 5,
                        .keys = 8,
                        .heads = 2,
                        .dim = 3,
                        .value_dim = 2,
                        .window = 6,
                        .relative = true,
                        .dropout = 0.2};
  const Device device = fresh_device();
  const AttentionGradient g = make_attention(c, device);
  run_attention(g);
  const auto loss = [&] {
    attend(g.forward);
    double sum = 0;
    for (std::int64_t i = 0; i < g.dout.elements(); ++i)
      sum += g.forward.out.data<double>()[i] * g.dout.data<double>()[i];
    return sum;
  };
  const auto expect_gradient = [&](const Tensor& input, const Tensor& gradient, double before) {
    for (std::int64_t i = 0; i < input.elements(); ++i) {
      double& x = input.data<double>()[i];
      const double kept = x;
      x = kept + 1e-5;
      const double up = loss();
      x = kept - 1e-5;
      const double down = loss();
      x = kept;
      EXPECT_NEAR(gradient.data<double>()[i] - before, (up - down) / 2e-5, 1e-8);
    }
  };
  expect_gradient(g.forward.query, g.dquery, 0);
  expect_gradient(g.forward.key, g.dkey, 0);
  expect_gradient(g.forward.value, g.dvalue, 0);
  expect_gradient(g.forward.relative->position_key, g.dposition_key, 0.5);
  expect_gradient(g.forward.relative->content_bias, g.dcontent_bias, 0.5);
  expect_gradient(g.forward.relative->position_bias, g.dposition_bias, 0.5);
}

TEST(Attention, FlopsExcludePairsOfDifferentDocuments) {
  if (emulated) GTEST_SKIP() << "the host does not read what is on a device";
  const Device device = fresh_device();
  const AttentionGradient g = make_attention({.batch = 2,
                                              .time = 150,
                                              .keys = 230,
                                              .heads = 3,
                                              .dim = 4,
                                              .value_dim = 6,
                                              .window = 90,
                                              .padded = true,
                                              .document = 60},
                                             device);
  double pairs = 0;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t i = 0; i < 150; ++i)
      for (std::int64_t j = std::max<std::int64_t>(0, i - 9); j <= i + 80; ++j)
        pairs += i + 80 - j <= g.forward.mask.max_lookback.data<std::int64_t>()[b * 150 + i] &&
                 g.forward.mask.key_padding.data<std::uint8_t>()[b * 230 + j] == 0 &&
                 j < g.forward.mask.key_length.data<std::int64_t>()[b];
  EXPECT_GT(pairs, 0);
  EXPECT_EQ(attention_flops(g.forward), 2.0 * (4 + 6) * pairs * 3);
}

TEST(Attention, FlopsCountAllowedPairs) {
  const Device device = fresh_device();
  AttentionCase c{.batch = 2, .time = 5, .keys = 8, .heads = 3, .dim = 4, .value_dim = 6};
  // 4 + 5 + 6 + 7 + 8 pairs.
  EXPECT_EQ(attention_flops(make_attention(c, device).forward), 2.0 * (4 + 6) * 30 * 2 * 3);
  c.relative = true;
  EXPECT_EQ(attention_flops(make_attention(c, device).forward), 2.0 * (8 + 6) * 30 * 2 * 3);
  c.window = 2;
  EXPECT_EQ(attention_flops(make_attention(c, device).forward), 2.0 * (8 + 6) * 10 * 2 * 3);
  c.padded = true;  // all keys of the second batch row
  const AttentionGradient g = make_attention(c, device);
  double pairs = 0;
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = i + 2; j <= i + 3; ++j)
      pairs += g.forward.mask.key_padding.data<std::uint8_t>()[j] == 0 &&
               j < g.forward.mask.key_length.data<std::int64_t>()[0];
  EXPECT_EQ(attention_flops(g.forward), 2.0 * (8 + 6) * pairs * 3);
  // The scores again, their two gradients, and the two products with values.
  EXPECT_EQ(attention_backward_flops(g.forward), 2.0 * (3 * 8 + 2 * 6) * pairs * 3);
}

// Row lengths are unknown on the meta device.
TEST(Attention, FlopsCountPaddingOnMetaDevice) {
  const Device device = Device::meta();
  const auto tensor = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, device);
  };
  Attention a;
  a.query = tensor({2, 5, 3, 4}, DType::f64);
  a.key = tensor({2, 8, 3, 4}, DType::f64);
  a.value = tensor({2, 8, 3, 4}, DType::f64);
  a.out = tensor({2, 5, 3, 4}, DType::f64);
  a.log_sum_exp = tensor({2, 3, 5}, DType::f64);
  a.mask = {.rules = masks::everything(),
            .key_padding = tensor({2, 8}, DType::u8),
            .key_length = tensor({2}, DType::i64)};
  attention(Cpu{&device.state()}, a);
  const double forward = 2.0 * (4 + 4) * 5 * 8 * 2 * 3;
  EXPECT_EQ(device.state().flops(), forward);
  attention_backward(Cpu{&device.state()},
                     {.forward = a,
                      .dout = a.out.empty_like(),
                      .dquery = a.query.empty_like(),
                      .dkey = a.key.empty_like(),
                      .dvalue = a.value.empty_like()});
  EXPECT_EQ(device.state().flops(), (1 + 2.5) * forward);
}

TEST(Attention, RejectsMismatchedTensors) {
  const Device device = fresh_device();
  Attention a = make_attention({.time = 3, .keys = 4, .dim = 8, .value_dim = 8}, device).forward;
  a.value = Tensor::zeros({1, 5, 1, 8}, DType::f64, device);
  try {
    attend(a);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "attention: expected value f64 [1, 4, 1, 8], found f64 [1, 5, 1, "
                 "8]");
  }
}

// A negative scale would make masked scores the largest.
TEST(Attention, RejectsNegativeScale) {
  const Device device = fresh_device();
  const Attention a = make_attention({.time = 3, .keys = 3, .scale = -0.5}, device).forward;
  try {
    attend(a);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "attention: expected a scale above 0, or 0 for the default, found -0.5");
  }
}

TEST(Attention, SupportsEmptyKeysAndBatch) {
  const Device device = fresh_device();
  const AttentionResult none = run_attention(
      make_attention({.time = 3, .keys = 0, .dim = 4, .value_dim = 4, .causal = false}, device));
  EXPECT_EQ(none.out, Numbers(12, 0.0));
  EXPECT_EQ(none.dquery, Numbers(12, 0.0));
  run_attention(
      make_attention({.batch = 0, .time = 3, .keys = 3, .dim = 4, .value_dim = 4}, device));
}

}  // namespace
}  // namespace longspan::testing::attention_test
