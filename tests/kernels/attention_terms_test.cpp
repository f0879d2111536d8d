// Masks and score terms against the dense definition, and merged outputs.
#include <gtest/gtest.h>

#include "tests/kernels/attention_dense.h"
#include "tests/kernels/mask_testing.h"

namespace longspan::testing::attention_terms_test {
namespace {

// Combinations of terms, by number: those of every seed in turn, and those with a distance bias.
constexpr int combinations = 19;
constexpr int with_biases = 3;
void add_terms(int number, AttentionCase& c) {
  c.relative = number == 1 || number == 8 || number == 9;
  c.key_table = number == 2 || number == 4 || number == 10 || (number >= 15 && number <= 18);
  c.value_table = number == 3 || number == 4 || number == 16;
  c.of_keys = number == 15 || number == 16;
  c.slopes = number == 5 || number == 9 || number == 10;
  c.span = number == 6 || number == 16 ? 1 : number == 7 || number == 8 || number == 10 ? 2 : 0;
  c.sorted = number >= 11 && number <= 13;
  c.buckets = number == 12;
  c.hash = number == 12 || number == 13 ? number - 11 : 0;
  if (number == 14) c.hash = 1;
  // Relative terms in a sequence of several parts.
  if (number == 17 || number == 18 || number == 20) {
    c.relative = number == 17;
    c.key_table = number == 18;
    c.span = number == 18 ? 1 : 0;
    c.sorted = c.buckets = c.in_order = true;
  }
  c.bias = number >= 19;
  if (number == 21) {
    c.span = 2;
    c.cap = 0.7;
  }
  if (c.relative) c.causal = true;
}

AttentionCase random_case(std::uint64_t seed, DType dtype, int terms) {
  Draws draws(Random(8).child(seed));
  AttentionCase c;
  c.seed = seed;
  c.dtype = dtype;
  c.batch = 1 + draws.pick(1);
  c.heads = 1 + draws.pick(2);
  c.time = 1 + draws.pick(150);
  c.keys = 1 + draws.pick(200);
  c.dim = 1 + draws.pick(20);
  c.value_dim = 1 + draws.pick(20);
  c.causal = draws.one_in(2);
  c.padded = draws.one_in(3);
  c.dropout = draws.one_in(4) ? 0.3 : 0;
  c.scale = draws.one_in(4) ? 0.7 : 0;
  c.query_begin = draws.one_in(2) ? 0 : draws.pick(150);
  c.key_begin = draws.one_in(2) ? 0 : draws.pick(150);
  const std::int64_t positions = std::max(*c.query_begin + c.time, c.key_begin + c.keys);
  std::vector<Mask> by_head;
  const std::int64_t masks_drawn = draws.one_in(3) ? c.heads : 1;
  for (std::int64_t h = 0; h < masks_drawn; ++h)
    by_head.push_back(draws.one_in(4) ? Mask() : random_mask(draws, positions));
  c.rules = HeadMasks(std::move(by_head));
  add_terms(terms, c);
  return c;
}
AttentionCase random_case(std::uint64_t seed, DType dtype) {
  return random_case(seed, dtype, static_cast<int>(seed % combinations));
}
AttentionCase biased_case(std::uint64_t seed, DType dtype) {
  return random_case(seed, dtype, combinations + static_cast<int>(seed % with_biases));
}

void expect_dense(const AttentionCase& c, double tolerance) {
  const Device device = fresh_device();
  const AttentionGradient g = make_attention(c, device);
  const AttentionResult found = run_attention(g);
  expect_close(found, dense_attention(g), tolerance, c.to_string());
}

TEST(AttentionMasks, EveryMaskAndTermMatchesDense) {
  for (std::uint64_t seed = 0; seed < (slow ? 2 : 12) * combinations; ++seed)
    expect_dense(random_case(seed, DType::f64), 1e-11);
}

TEST(AttentionMasks, EveryMaskWithDistanceBiasMatchesDense) {
  for (std::uint64_t seed = 0; seed < (slow ? 2 : 12) * with_biases; ++seed)
    expect_dense(biased_case(seed, DType::f64), 1e-11);
  for (std::uint64_t seed = 1000; seed < 1000 + (slow ? 1 : 3) * with_biases; ++seed)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (slow && (seed % 2 == 0) != (dtype == DType::f32)) continue;
      AttentionCase c = biased_case(seed, dtype);
      c.spread = c.scale > 0 ? 0.3 : 0.5;
      expect_dense(c, dtype == DType::f32 ? 1e-5 : 2e-2);
    }
}

TEST(AttentionTerms, LshSelfScoreMatchesDenseWithRoundCounts) {
  for (std::uint64_t seed = 13; seed < (slow ? 2 : 12) * combinations; seed += combinations) {
    AttentionCase c = random_case(seed, DType::f64);
    c.hash = 3;
    expect_dense(c, 1e-11);
  }
}

TEST(AttentionMasks, EveryMaskAndTermMatchesDenseInNarrowDTypes) {
  for (std::uint64_t seed = 1000; seed < 1000 + (slow ? 1 : 3) * combinations; ++seed)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (slow && (seed % 2 == 0) != (dtype == DType::f32)) continue;
      AttentionCase c = random_case(seed, dtype);
      // Several terms with a larger scale give large scores with large rounding errors.
      c.spread = c.scale > 0 ? 0.3 : 0.5;
      expect_dense(c, dtype == DType::f32 ? 1e-5 : 2e-2);
    }
}

// Splits the keys into two calls. Their outputs merge to the full output, and their gradients,
// which read the merged output, add up to the full gradients.
TEST(AttentionMasks, MergedKeyPartsMatchFullAttention) {
  constexpr int drawn = combinations + with_biases;
  for (int number = 0; number < (slow ? 1 : 4) * drawn; ++number) {
    const auto seed = static_cast<std::uint64_t>(number / drawn * combinations + number % drawn);
    AttentionCase c = number % drawn < combinations ? random_case(seed, DType::f64)
                                                    : biased_case(seed, DType::f64);
    c.batch = 1;
    c.heads = 1;
    c.keys += 1;
    if (c.sorted || c.padded) continue;
    SCOPED_TRACE(c.to_string());
    const Device device = fresh_device();
    AttentionGradient whole = make_attention(c, device);
    if (whole.forward.dropout) whole.forward.dropout->keys_total = c.keys;
    const AttentionResult expected = run_attention(whole);

    AttentionGradient again = make_attention(c, device);
    const std::int64_t cut = c.keys / 2;
    const auto part_of = [&](std::int64_t begin, std::int64_t end) {
      AttentionGradient part = again;
      Attention& a = part.forward;
      const auto rows = [&](const Tensor& all) {  // of one batch row and head
        const Tensor flat = all.reshape({all.shape()[1], all.shape()[3]}).slice(begin, end);
        return flat.reshape({1, end - begin, 1, all.shape()[3]});
      };
      a.key = rows(whole.forward.key);
      a.value = rows(whole.forward.value);
      part.dkey = rows(again.dkey);
      part.dvalue = rows(again.dvalue);
      a.mask.key_begin += begin;
      if (a.dropout) {
        a.dropout->keys_total = c.keys;
        a.dropout->keys_begin = begin;
      }
      a.out = again.forward.out.empty_like();
      a.log_sum_exp = again.forward.log_sum_exp.empty_like();
      return part;
    };
    AttentionGradient first = part_of(0, cut);
    AttentionGradient second = part_of(cut, c.keys);
    attend(first.forward);
    attend(second.forward);
    merge({first.forward.out,
           first.forward.log_sum_exp,
           second.forward.out,
           second.forward.log_sum_exp});
    second.forward.out = first.forward.out;
    second.forward.log_sum_exp = first.forward.log_sum_exp;
    again.dquery.zero();
    again.dkey.zero();
    again.dvalue.zero();
    first.add = second.add = true;
    attend_backward(first);
    attend_backward(second);
    const auto given = [](const Tensor& tensor) {
      return tensor.defined() ? numbers(tensor) : Numbers();
    };
    const AttentionResult found{numbers(first.forward.out),
                                numbers(first.forward.log_sum_exp),
                                numbers(again.dquery),
                                numbers(again.dkey),
                                numbers(again.dvalue),
                                given(again.dposition_key),
                                given(again.dcontent_bias),
                                given(again.dposition_bias),
                                given(again.dkey_table),
                                given(again.dvalue_table),
                                given(again.dspan),
                                given(again.ddistance_bias)};
    expect_close(found, expected, 1e-11, "merged");
  }
}

TEST(AttentionMasks, MergingEmptyPartChangesNothing) {
  const Device device = fresh_device();
  const double none = -std::numeric_limits<double>::infinity();
  const auto tensor = [&](const Shape& shape, const Numbers& values) {
    return Tensor::from<double>(values, shape, device);
  };
  const Shape rows{1, 3, 1, 2};
  const Shape sums{1, 1, 3};
  const MergeAttention call{tensor(rows, {1, 2, 0, 0, 0, 0}),
                            tensor(sums, {0.5, none, none}),
                            tensor(rows, {0, 0, 3, 4, 0, 0}),
                            tensor(sums, {none, 0.25, none})};
  merge(call);
  EXPECT_EQ(numbers(call.out), (Numbers{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(numbers(call.log_sum_exp), (Numbers{0.5, 0.25, none}));
}

// bf16 parts may sum gradients and merge outputs in f32.
TEST(AttentionMasks, SupportsSumsWiderThanInputs) {
  const Device device = fresh_device();
  AttentionGradient g = make_attention({.batch = 1,
                                        .time = 70,
                                        .keys = 70,
                                        .heads = 2,
                                        .dim = 8,
                                        .value_dim = 8,
                                        .dtype = DType::bf16},
                                       device);
  const AttentionResult rounded = run_attention(g);
  g.add = true;
  g.dquery = filled(g.dquery.shape(), DType::f32, 1, device);
  g.dkey = filled(g.dkey.shape(), DType::f32, 1, device);
  g.dvalue = filled(g.dvalue.shape(), DType::f32, 1, device);
  attend_backward(g);
  const auto expect = [](const Tensor& found, const Numbers& expected) {
    const Numbers numbers_found = numbers(found);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(numbers_found[i] - 1, expected[i], 5e-3 * std::abs(expected[i]) + 1e-6);
  };
  expect(g.dquery, rounded.dquery);
  expect(g.dkey, rounded.dkey);
  expect(g.dvalue, rounded.dvalue);
}

// Each head has a bias for the query's own position and one for each neighbor.
TEST(AttentionTerms, AddsBiasByClippedDistanceAndHead) {
  const Device device = fresh_device();
  AttentionGradient g = make_attention(
      {.time = 3, .keys = 3, .heads = 2, .dim = 1, .value_dim = 1, .causal = false, .bias = true},
      device);
  Attention& a = g.forward;
  // Before, at and after the query.
  a.distance_bias = Tensor::from<double>(Numbers{1, 2, 3, 0.5, 0.25, 0.125}, {2, 3}, device);
  a.query.zero();
  attend(a);
  const Numbers sums = numbers(a.log_sum_exp);
  const auto sum = [](double x, double y, double z) {
    return std::log(std::exp(x) + std::exp(y) + std::exp(z));
  };
  const Numbers expected = {sum(2, 3, 3),
                            sum(1, 2, 3),
                            sum(1, 1, 2),
                            sum(0.25, 0.125, 0.125),
                            sum(0.5, 0.25, 0.125),
                            sum(0.5, 0.5, 0.25)};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(sums[i], expected[i], 1e-12);
}

// Worked example of the specification: ramp 4, z 2, x = 0 .. 6.
TEST(AttentionTerms, SoftSpanDecaysOverRamp) {
  const Device device = fresh_device();
  AttentionGradient g = make_attention(
      {.time = 1, .keys = 8, .dim = 1, .value_dim = 8, .causal = true, .span = 1}, device);
  Attention& a = g.forward;
  a.span = SpanTerm{.span = Tensor::from<double>(Numbers{2}, {1}, device), .ramp = 4};
  a.query.zero();
  a.value.zero();
  for (std::int64_t j = 0; j < 8; ++j) a.value.data<double>()[j * 8 + j] = 1;
  a.mask.rules = masks::window(masks::unlimited, -1);
  attend(a);
  const Numbers expected = {0, .25, .5, .75, 1, 1, 1, 0};  // key 6 is at distance 0
  for (std::size_t j = 0; j < 8; ++j) EXPECT_NEAR(numbers(a.out)[j], expected[j] / 4.5, 1e-7);
}

// The visible keys equal those of a window, for any score and any span.
TEST(AttentionTerms, MasksKeysBeyondSpanWithoutFloor) {
  const Device device = fresh_device();
  const AttentionCase c = {.time = 150,
                           .keys = 150,
                           .heads = 2,
                           .dim = 8,
                           .value_dim = 8,
                           .causal = true,
                           .span = 1,
                           .dtype = DType::f32,
                           .spread = 12};
  for (const float reach : {0.0F, 3.0F, 70.0F}) {
    SCOPED_TRACE(reach);
    const auto run = [&](const Mask& mask) {
      AttentionGradient g = make_attention(c, device);
      Attention& a = g.forward;
      a.span = SpanTerm{.span = Tensor::from<float>(std::vector<float>(2, reach - 4), {2}, device),
                        .ramp = 4,
                        .floor = 0};
      a.mask.rules = mask;
      return run_attention(g);
    };
    // Keys at distances 1 .. reach have a weight.
    const Mask others = masks::window(masks::unlimited, -1);
    const AttentionResult expected =
        run(others & masks::window(static_cast<std::int64_t>(reach), masks::unlimited));
    const AttentionResult found = run(others);
    expect_close(found, expected, 1e-5, "");
    EXPECT_EQ(found.log_sum_exp.front(), -std::numeric_limits<double>::infinity());
    if (reach == 0) {
      EXPECT_EQ(found.out, Numbers(found.out.size(), 0));
      EXPECT_EQ(found.dquery, Numbers(found.dquery.size(), 0));
    }
  }
}

TEST(AttentionTerms, RejectsIncompatibleTerms) {
  const Device device = fresh_device();
  const auto refused = [&](const AttentionCase& c) -> std::string {
    try {
      attend(make_attention(c, device).forward);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(refused({.time = 3, .keys = 3, .relative = true, .key_table = true}),
            "attention: the relative term of Transformer-XL and Shaw's tables cannot be combined");
  EXPECT_EQ(refused({.time = 3, .keys = 3, .slopes = true, .hash = 1}),
            "attention: hash attention cannot be combined with another score term");
  EXPECT_EQ(refused({.time = 3, .keys = 3, .span = 1, .sorted = true}),
            "attention: sorted causal sequences do not support relative score terms");
  EXPECT_EQ(refused({.time = 3, .keys = 3, .slopes = true, .bias = true}),
            "attention: a relative position bias cannot be combined with another relative term");
  EXPECT_EQ(refused({.time = 3, .keys = 3, .bias = true, .hash = 1}),
            "attention: hash attention cannot be combined with another score term");
  EXPECT_EQ(refused({.time = 3, .keys = 3, .hash = 2}),
            "attention: hash chunks require a sorted sequence");
  EXPECT_EQ(refused({.time = 3, .keys = 5, .causal = false, .relative = true}),
            "attention: the relative term has keys for distances 0 to 4, but the mask allows -2 to "
            "4");
  AttentionGradient tiny = make_attention({.time = 3, .keys = 3, .span = 1}, device);
  tiny.forward.span->floor = 1e-36;  // the weight of a key beyond the span would be NaN
  EXPECT_THROW(attend(tiny.forward), Failure);
  AttentionGradient biased = make_attention({.time = 3, .keys = 3, .bias = true}, device);
  biased.ddistance_bias = filled({1, 5}, DType::f64, 0, device);
  EXPECT_THROW(attend_backward(biased), Failure);
  biased.forward.distance_bias = filled({1, 6}, DType::f64, 0, device);
  EXPECT_THROW(attend(biased.forward), Failure);
  AttentionCase table{.time = 3, .keys = 3, .heads = 3};
  table.rules = HeadMasks({Mask(), masks::self()});
  EXPECT_EQ(refused(table), "attention: expected a mask for each of the heads 0 to 2, found 2");
}

}  // namespace
}  // namespace longspan::testing::attention_terms_test
