// External scores against equivalent products of the query with the unit vector of the key's
// position.
#include "framework/kernels/attention/external_scores.h"

#include <algorithm>
#include <utility>

#include "tests/kernels/attention_reference.h"
#include "tests/kernels/mask_testing.h"

namespace longspan::testing::external_scores_test {
namespace {

struct GivenCall {
  AttentionGradient gradient;
  ExternalScores given;
  ExternalScores sums;
};
inline std::vector<Tensor*> tensors_of(GivenCall& call) {
  std::vector<Tensor*> all = testing::tensors_of(call.gradient);
  for (ExternalScores* scores : {&call.given, &call.sums})
    all.insert(all.end(), {&scores->row, &scores->low, &scores->high});
  return all;
}

struct Case {
  AttentionCase attention;
  bool row = false;
  bool factors = false;
  std::int64_t lows = 7;
  std::string to_string() const {
    return fmt::format("row {} factors {} {}: {}", row, factors, lows, attention.to_string());
  }
  std::int64_t positions() const { return attention.key_begin + attention.keys; }
  // Wider than the number of positions.
  std::int64_t row_width() const { return positions() + 3; }
  std::int64_t highs() const { return positions() / lows + 2; }
};

GivenCall call_of(const Case& c, const Device& device) {
  const AttentionCase& a = c.attention;
  GivenCall call = {.gradient = make_attention(a, device), .given = {}, .sums = {}};
  const auto add = [&](const char* name, const Shape& shape, Tensor& values, Tensor& sums) {
    values = random_tensor(shape, a.dtype, device, Random(a.seed).child(name), a.spread);
    sums = filled(shape, accumulator_of(a.dtype), 0.5, device);
  };
  if (c.row) add("row", {1, a.time, a.heads, c.row_width()}, call.given.row, call.sums.row);
  if (!c.factors) return call;
  add("low", {a.batch, a.time, a.heads, c.lows}, call.given.low, call.sums.low);
  add("high", {a.batch, a.time, a.heads, c.highs()}, call.given.high, call.sums.high);
  return call;
}

struct GivenResult {
  AttentionResult attention;
  Numbers drow, dlow, dhigh;
};

GivenResult run(const GivenCall& call) {
  on_backend(call, call.gradient.dout, [](auto on, const GivenCall& there) {
    attention(on, there.gradient.forward, there.given);
    attention_backward(on, there.gradient, there.given, there.sums);
  });
  const AttentionGradient& g = call.gradient;
  const auto given = [](const Tensor& tensor) {
    return tensor.defined() ? numbers(tensor) : Numbers();
  };
  GivenResult result;
  result.attention.out = numbers(g.forward.out);
  result.attention.log_sum_exp = numbers(g.forward.log_sum_exp);
  result.attention.dquery = numbers(g.dquery);
  result.attention.dkey = numbers(g.dkey);
  result.attention.dvalue = numbers(g.dvalue);
  result.drow = given(call.sums.row);
  result.dlow = given(call.sums.low);
  result.dhigh = given(call.sums.high);
  return result;
}

Tensor of_doubles(const Numbers& values, const Shape& shape, const Device& device) {
  Tensor result = Tensor::empty(shape, DType::f64, device);
  std::ranges::copy(values, result.data<double>());
  return result;
}

// Appends the scores of all keys to the scaled features of a query, and the unit vector of its
// position to those of a key.
GivenResult by_products(const Case& c, const Device& device) {
  AttentionCase wide = c.attention;
  wide.dtype = DType::f64;
  const GivenCall call = call_of(c, device);
  const Attention& narrow = call.gradient.forward;
  const std::int64_t batch = wide.batch, time = wide.time, heads = wide.heads, keys = wide.keys;
  const std::int64_t dim = wide.dim, width = dim + keys;
  const double scale = wide.scale != 0 ? wide.scale : 1 / std::sqrt(static_cast<double>(dim));
  const auto at = [](const Numbers& all, std::int64_t i) {
    return all.empty() ? 0.0 : all[static_cast<std::size_t>(i)];
  };
  const auto given = [](const Tensor& tensor) {
    return tensor.defined() ? numbers(tensor) : Numbers();
  };
  const Numbers query = numbers(narrow.query), key = numbers(narrow.key);
  const Numbers row = given(call.given.row), low = given(call.given.low);
  const Numbers high = given(call.given.high);
  Numbers queries, units;
  for (std::int64_t i = 0; i < batch * time * heads; ++i) {
    for (std::int64_t d = 0; d < dim; ++d) queries.push_back(scale * at(query, i * dim + d));
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int64_t k = wide.key_begin + j;
      queries.push_back(at(row, i % (time * heads) * c.row_width() + k) +
                        at(low, i * c.lows + k % c.lows) * at(high, i * c.highs() + k / c.lows));
    }
  }
  for (std::int64_t i = 0; i < batch * keys * heads; ++i) {
    for (std::int64_t d = 0; d < dim; ++d) units.push_back(at(key, i * dim + d));
    for (std::int64_t j = 0; j < keys; ++j) units.push_back(j == i / heads % keys ? 1 : 0);
  }
  AttentionGradient g = call.gradient;
  g.forward.scale = 1;
  g.forward.query = of_doubles(queries, {batch, time, heads, width}, device);
  g.forward.key = of_doubles(units, {batch, keys, heads, width}, device);
  for (Tensor* tensor : {&g.forward.value, &g.dout})
    *tensor = of_doubles(numbers(*tensor), tensor->shape(), device);
  if (Tensor& slopes = g.forward.slopes; slopes.defined())
    slopes = of_doubles(numbers(slopes), slopes.shape(), device);
  g.forward.out = g.dout.empty_like();
  g.forward.log_sum_exp = Tensor::empty({batch, heads, time}, DType::f64, device);
  g.dquery = g.forward.query.empty_like();
  g.dkey = g.forward.key.empty_like();
  g.dvalue = g.forward.value.empty_like();
  GivenResult result;
  result.attention = run_attention(g);
  const Numbers dqueries = std::exchange(result.attention.dquery, {});
  const Numbers dunits = std::exchange(result.attention.dkey, {});
  for (std::int64_t i = 0; i < batch * keys * heads; ++i)
    for (std::int64_t d = 0; d < dim; ++d)
      result.attention.dkey.push_back(at(dunits, i * width + d));
  result.drow.assign(row.size(), 0.5);
  result.dlow.assign(low.size(), 0.5);
  result.dhigh.assign(high.size(), 0.5);
  const auto add = [](Numbers& to, std::int64_t i, double x) {
    if (!to.empty()) to[static_cast<std::size_t>(i)] += x;
  };
  for (std::int64_t i = 0; i < batch * time * heads; ++i) {
    for (std::int64_t d = 0; d < dim; ++d)
      result.attention.dquery.push_back(scale * at(dqueries, i * width + d));
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int64_t k = wide.key_begin + j;
      const double dscore = at(dqueries, i * width + dim + j);
      const std::int64_t l = i * c.lows + k % c.lows, h = i * c.highs() + k / c.lows;
      add(result.drow, i % (time * heads) * c.row_width() + k, dscore);
      add(result.dlow, l, dscore * at(high, h));
      add(result.dhigh, h, dscore * at(low, l));
    }
  }
  return result;
}

void expect_products(const Case& c, double tolerance) {
  const Device device = fresh_device();
  const GivenResult found = run(call_of(c, device)), expected = by_products(c, device);
  expect_close(found.attention, expected.attention, tolerance, c.to_string());
  EXPECT_LE(distance(found.drow, expected.drow), tolerance) << "drow: " << c.to_string();
  EXPECT_LE(distance(found.dlow, expected.dlow), tolerance) << "dlow: " << c.to_string();
  EXPECT_LE(distance(found.dhigh, expected.dhigh), tolerance) << "dhigh: " << c.to_string();
}

Case random_case(std::uint64_t seed, DType dtype) {
  Draws draws(Random(21).child(seed));
  Case c;
  AttentionCase& a = c.attention;
  a.seed = seed;
  a.dtype = dtype;
  a.spread = dtype == DType::f64 ? 1 : 0.5;
  a.batch = 1 + draws.pick(2);
  a.heads = 1 + draws.pick(2);
  a.time = 1 + draws.pick(150);
  // More than one block of key tiles, which several threads divide.
  a.keys = 1 + draws.pick(seed % 3 == 0 && !slow ? 600 : 150);
  a.dim = 1 + draws.pick(9);
  a.value_dim = 1 + draws.pick(9);
  a.causal = draws.one_in(2);
  a.padded = draws.one_in(3);
  a.dropout = draws.one_in(3) ? 0.3 : 0;
  a.scale = draws.one_in(2) ? 0.7 : 0;
  a.slopes = draws.one_in(4);
  a.query_begin = draws.pick(60);
  a.key_begin = draws.one_in(2) ? 0 : draws.pick(60);
  c.row = seed % 3 != 1;
  c.factors = seed % 3 != 0;
  c.lows = 1 + draws.pick(90);
  return c;
}

TEST(ExternalScores, MatchesProductsWithUnitVectors) {
  for (std::uint64_t seed = 0; seed < (slow ? 9 : 36); ++seed)
    expect_products(random_case(seed, DType::f64), 1e-11);
}

TEST(ExternalScores, MatchesProductsWithUnitVectorsInNarrowDTypes) {
  for (std::uint64_t seed = 100; seed < (slow ? 103 : 112); ++seed)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      // A head width that matrix units support.
      Case c = random_case(seed, dtype);
      c.attention.dim = c.attention.value_dim = 32;
      expect_products(c, dtype == DType::f32 ? 1e-5 : 2e-2);
    }
}

TEST(ExternalScores, RejectsMismatchedShapes) {
  const Device device = fresh_device();
  Case c;
  c.attention.keys = 9;
  c.row = c.factors = true;
  const auto problem = [&](const GivenCall& call) {
    try {
      tile_attention::check(call.gradient.forward, call.given);
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  GivenCall call = call_of(c, device);
  call.given.row = Tensor::zeros({1, 1, 1, 8}, DType::f64, device);
  EXPECT_NE(problem(call).find("expected at least 9 positions in the rows"), std::string::npos);
  call = call_of(c, device);
  call.given.high = Tensor::zeros({1, 1, 1, 1}, DType::f64, device);
  EXPECT_NE(problem(call).find("score factors for at least 9 positions"), std::string::npos);
  call = call_of(c, device);
  call.given.high = Tensor();
  EXPECT_NE(problem(call).find("high factor of scores is missing"), std::string::npos);
}

}  // namespace
}  // namespace longspan::testing::external_scores_test
