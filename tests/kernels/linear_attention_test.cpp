// Linear attention against its definition, written as dense sums over pairs.
#include "framework/kernels/attention/linear_attention.h"

#include <algorithm>

#include "tests/kernels/kernel_testing.h"

namespace longspan::linear_attention_test {
namespace {

using namespace longspan::testing;

struct Case {
  const char* name;
  std::int64_t batch = 2, time = 9, keys = 9, heads = 2, features = 3, values = 5;
  bool causal = true;
  FeatureMap map = FeatureMap::identity;
  Divisor divisor = Divisor::sum;
  double epsilon = 1e-3;
  bool decays = false;
  bool weighs = false;  // and masks some keys
  Ranges parts = {};    // none: all in one
  Ranges key_parts = {};
};

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"causal"},
      {"causal, elu", 2, 9, 9, 2, 3, 5, true, FeatureMap::elu_plus_one},
      {"whole", 2, 9, 4, 2, 3, 5, false, FeatureMap::elu_plus_one},
      {"no divisor", 2, 9, 4, 2, 3, 5, false, FeatureMap::identity, Divisor::none},
      {"causal, decays and weights",
       2,
       9,
       9,
       2,
       3,
       5,
       true,
       FeatureMap::elu_plus_one,
       Divisor::sum,
       1e-3,
       true,
       true},
      {"away from 0",
       1,
       9,
       9,
       1,
       4,
       2,
       true,
       FeatureMap::identity,
       Divisor::away_from_0,
       0.5,
       true,
       true},
      {"whole, weights",
       2,
       5,
       9,
       2,
       3,
       5,
       false,
       FeatureMap::elu_plus_one,
       Divisor::sum,
       1e-3,
       false,
       true},
      {"whole, exponentials", 2, 9, 4, 2, 3, 5, false, FeatureMap::exponential},
      {"causal, exponentials",
       2,
       9,
       9,
       2,
       3,
       5,
       true,
       FeatureMap::exponential,
       Divisor::sum,
       1e-3,
       true,
       true},
      {"empty rows behind", 1, 1, 1, 1, 1, 1}};
  Case parts = {"in parts",
                2,
                11,
                11,
                2,
                3,
                5,
                true,
                FeatureMap::elu_plus_one,
                Divisor::sum,
                1e-3,
                true,
                true};
  parts.parts = parts.key_parts = {{0, 4}, {4, 5}, {5, 11}};
  all.push_back(parts);
  Case whole = {"whole, in parts",
                2,
                7,
                11,
                2,
                3,
                5,
                false,
                FeatureMap::identity,
                Divisor::sum,
                1e-3,
                false,
                true};
  whole.parts = {{0, 3}, {3, 7}};
  whole.key_parts = {{0, 4}, {4, 5}, {5, 11}};
  all.push_back(whole);
  // Several chunks, and more features and values than a SIMD vector has.
  const std::int64_t time = emulated ? 70 : 150;
  for (const bool decays : {false, true}) {
    Case chunks = {decays ? "chunks that decay" : "chunks", 1, time, time, 2, 21, 18};
    chunks.map = FeatureMap::elu_plus_one;
    chunks.decays = chunks.weighs = decays;
    if (decays) chunks.parts = chunks.key_parts = {{0, 67}, {67, time}};
    all.push_back(chunks);
  }
  Case whole_chunks = {"whole chunks", 1, time, time - 3, 2, 21, 18, false};
  all.push_back(whole_chunks);
  for (Case& c : all) {
    if (c.parts.empty()) c.parts = {{0, c.time}};
    if (c.key_parts.empty()) c.key_parts = {{0, c.keys}};
  }
  return all;
}

struct Numbers {
  Values query, key, value, log_weight, decay, dout;

  template <typename T>
  static Numbers of(const Case& c) {
    using A = Accumulator<T>;
    Numbers n = {normal_values<T>(c.batch * c.time * c.heads * c.features, 1),
                 normal_values<T>(c.batch * c.keys * c.heads * c.features, 2),
                 normal_values<T>(c.batch * c.keys * c.heads * c.values, 3),
                 normal_values<A>(c.batch * c.keys * c.heads, 4, 0.5),
                 normal_values<A>(c.batch * c.keys * c.heads, 5, 0.2),
                 normal_values<T>(c.batch * c.time * c.heads * c.values, 6)};
    // Without a feature map the inputs are non-negative features, unless the divisor may be
    // negative.
    if (c.map != FeatureMap::elu_plus_one && c.divisor == Divisor::sum)
      for (Values* x : {&n.query, &n.key})
        for (double& value : *x) value = rounded<T>(std::abs(value));
    for (double& value : n.decay) value = -std::abs(value);
    if (c.weighs)
      for (std::size_t i = 0; i < n.log_weight.size(); i += 7) n.log_weight[i] = -infinity;
    return n;
  }
};

// All outputs, by the definition.
struct Dense {
  Values out, divisors, dquery, dkey, dvalue, dlog_weight, ddecay;

  Dense(const Case& c, const Numbers& n) : c_(c), n_(n) {
    out.assign(n.dout.size(), 0);
    divisors.assign(at(c.batch * c.time * c.heads), 0);
    dquery.assign(n.query.size(), 0);
    dkey.assign(n.key.size(), 0);
    dvalue.assign(n.value.size(), 0);
    dlog_weight.assign(n.log_weight.size(), 0);
    ddecay = dlog_weight;
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t i = 0; i < c.time; ++i) row(b, h, i);
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  double feature(double x) const {
    return c_.map != FeatureMap::elu_plus_one ? x : x > 0 ? x + 1 : std::exp(x);
  }
  double slope(double x) const {
    if (c_.map == FeatureMap::exponential) return x;
    return c_.map == FeatureMap::identity || x > 0 ? 1 : std::exp(x);
  }
  double weight(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    double log = c_.weighs ? n_.log_weight[at((b * c_.keys + j) * c_.heads + h)] : 0;
    for (std::int64_t l = j + 1; c_.decays && l <= i; ++l)
      log += n_.decay[at((b * c_.keys + l) * c_.heads + h)];
    return std::exp(log);
  }
  void row(std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t seen = c_.causal ? i + 1 : c_.keys;
    const std::int64_t place = (b * c_.time + i) * c_.heads + h;
    const double* const query = n_.query.data() + place * c_.features;
    const auto key_at = [&](std::int64_t j) { return (b * c_.keys + j) * c_.heads + h; };
    Values products(at(seen)), weights(at(seen));
    double sum = 0;
    Values mixed(at(c_.values), 0);
    for (std::int64_t j = 0; j < seen; ++j) {
      weights[at(j)] = weight(b, h, i, j);
      for (std::int64_t f = 0; f < c_.features; ++f)
        products[at(j)] += feature(query[f]) * feature(n_.key[at(key_at(j) * c_.features + f)]);
      sum += weights[at(j)] * products[at(j)];
      for (std::int64_t v = 0; v < c_.values; ++v)
        mixed[at(v)] += weights[at(j)] * products[at(j)] * n_.value[at(key_at(j) * c_.values + v)];
    }
    double divisor = c_.divisor == Divisor::none ? 1 : sum;
    if (c_.divisor == Divisor::sum) divisor += c_.epsilon;
    const bool held = c_.divisor == Divisor::away_from_0 && std::abs(sum) < c_.epsilon;
    if (held) divisor = sum < 0 ? -c_.epsilon : c_.epsilon;
    divisors[at(place)] = divisor;
    const double* const dout = n_.dout.data() + place * c_.values;
    double dsum = 0;
    for (std::int64_t v = 0; v < c_.values; ++v) {
      out[at(place * c_.values + v)] = mixed[at(v)] / divisor;
      if (c_.divisor != Divisor::none && !held) dsum -= dout[v] * mixed[at(v)] / divisor / divisor;
    }
    for (std::int64_t j = 0; j < seen; ++j) {
      double dproduct = dsum;
      for (std::int64_t v = 0; v < c_.values; ++v) {
        const double value = n_.value[at(key_at(j) * c_.values + v)];
        dproduct += dout[v] / divisor * value;
        dvalue[at(key_at(j) * c_.values + v)] +=
            weights[at(j)] * products[at(j)] * dout[v] / divisor;
      }
      dproduct *= weights[at(j)];
      for (std::int64_t f = 0; f < c_.features; ++f) {
        const double key = n_.key[at(key_at(j) * c_.features + f)];
        dquery[at(place * c_.features + f)] += dproduct * feature(key) * slope(query[f]);
        dkey[at(key_at(j) * c_.features + f)] += dproduct * feature(query[f]) * slope(key);
      }
      dlog_weight[at(key_at(j))] += dproduct * products[at(j)];
      for (std::int64_t l = j + 1; l <= i && c_.causal; ++l)
        ddecay[at(key_at(l))] += dproduct * products[at(j)];
    }
  }

  const Case& c_;
  const Numbers& n_;
};

template <typename T>
LinearAttention call_of(const Case& c, const Numbers& n) {
  using A = Accumulator<T>;
  LinearAttention call = {.query = tensor_of<T>(n.query, {c.batch, c.time, c.heads, c.features}),
                          .key = tensor_of<T>(n.key, {c.batch, c.keys, c.heads, c.features}),
                          .value = tensor_of<T>(n.value, {c.batch, c.keys, c.heads, c.values}),
                          .map = c.map,
                          .causal = c.causal,
                          .divisor = c.divisor,
                          .epsilon = c.epsilon,
                          .parts = c.parts,
                          .key_parts = c.key_parts,
                          .out = poisoned<T>({c.batch, c.time, c.heads, c.values}),
                          .divisors = poisoned<A>({c.batch, c.time, c.heads})};
  if (c.weighs) call.log_weight = tensor_of<A>(n.log_weight, {c.batch, c.keys, c.heads});
  if (c.decays) call.decay = tensor_of<A>(n.decay, {c.batch, c.keys, c.heads});
  return call;
}

template <typename A>
Tensor states_of(const Case& c, const Ranges& parts) {
  return poisoned<A>({std::ssize(parts), c.batch, c.heads, c.features, c.values + 1});
}

std::vector<std::int64_t> in_order(std::int64_t parts, bool backwards = false) {
  std::vector<std::int64_t> order;
  for (std::int64_t part = 0; part < parts; ++part) order.push_back(part);
  if (backwards) std::ranges::reverse(order);
  return order;
}

// The state before each part, or the sum over all parts.
template <typename A>
Tensor joined(const Case& c, const Tensor& states, const Tensor& decays, bool backwards) {
  const Tensor all = poisoned<A>({1, c.batch, c.heads, c.features, c.values + 1});
  scan_states(backend(),
              {.states = states,
               .decays = decays,
               .order = in_order(states.shape()[0], backwards),
               .last = all.reshape({c.batch, c.heads, c.features, c.values + 1})});
  return c.causal ? states : all;
}

template <typename T>
void expect_definition(const Case& c, double relative) {
  SCOPED_TRACE(c.name);
  using A = Accumulator<T>;
  const Numbers n = Numbers::of<T>(c);
  const Dense expected(c, n);
  LinearAttention call = call_of<T>(c, n);
  Tensor decays;
  const bool joins = !c.causal || c.parts.size() > 1;
  if (joins) {
    if (c.decays) decays = poisoned<A>({std::ssize(c.key_parts), c.batch, c.heads});
    const Tensor states = states_of<A>(c, c.key_parts);
    linear_states(backend(), call, states, decays);
    call.before = joined<A>(c, states, decays, false);
  }
  linear_attention(backend(), call);
  expect_close(values_of(call.out), expected.out, relative);
  if (c.divisor != Divisor::none)
    expect_close(values_of(call.divisors), expected.divisors, relative, 4);
  LinearAttentionGradient g = {.forward = call,
                               .dout = tensor_of<T>(n.dout, call.out.shape()),
                               .dquery = poisoned<T>(call.query.shape()),
                               .dkey = poisoned<T>(call.key.shape()),
                               .dvalue = poisoned<T>(call.value.shape())};
  if (c.weighs) g.dlog_weight = poisoned<A>({c.batch, c.keys, c.heads});
  if (c.decays) g.ddecay = poisoned<A>({c.batch, c.keys, c.heads});
  if (joins) {
    const Tensor states = states_of<A>(c, c.parts);
    linear_states_backward(backend(), g, states);
    g.after = joined<A>(c, states, decays, true);
  }
  linear_attention_backward(backend(), g);
  const double size = 10;  // sums of many terms
  expect_close(values_of(g.dquery), expected.dquery, relative, size);
  expect_close(values_of(g.dkey), expected.dkey, relative, size);
  expect_close(values_of(g.dvalue), expected.dvalue, relative, size);
  if (c.weighs) expect_close(values_of(g.dlog_weight), expected.dlog_weight, 2 * relative, size);
  if (c.decays) expect_close(values_of(g.ddecay), expected.ddecay, 2 * relative, size);
}

TEST(LinearAttention, MatchesDefinition) {
  for (const Case& c : cases()) expect_definition<double>(c, 1e-12);
}

template <typename T>
class LinearAttentionTest : public ::testing::Test {};
TYPED_TEST_SUITE(LinearAttentionTest, FloatingTypes);

// The outputs that the backward pass reads are rounded.
TYPED_TEST(LinearAttentionTest, MatchesDefinitionInEveryDType) {
  for (const Case& c : cases())
    if (c.divisor != Divisor::away_from_0)
      expect_definition<TypeParam>(c, 6 * tolerance<TypeParam>());
}

TEST(LinearAttention, DoesNotReadMaskedKeys) {
  Case c = {"hidden", 1, 5, 5, 1, 2, 2};
  c.weighs = true;
  c.parts = c.key_parts = {{0, 5}};
  Numbers n = Numbers::of<double>(c);
  const auto run = [&](double hidden) {
    std::fill_n(n.key.begin(), 2, hidden);
    std::fill_n(n.value.begin(), 2, hidden);
    const LinearAttention call = call_of<double>(c, n);
    linear_attention(backend(), call);
    return call.out;
  };
  const Tensor out = run(nan);
  EXPECT_TRUE(same_bits(out, run(3)));
  EXPECT_EQ(values_of(out)[0], 0);  // the first query has no keys
}

// A state continues where another call ended.
TEST(LinearAttention, ContinuesFromGivenState) {
  const Case whole = cases()[4];
  const Numbers n = Numbers::of<double>(whole);
  const LinearAttention all = call_of<double>(whole, n);
  linear_attention(backend(), all);
  LinearAttention rest = call_of<double>(whole, n);
  rest.key_parts = rest.parts = {{0, 4}};
  const Tensor state = states_of<double>(whole, rest.parts);
  linear_states(backend(), rest, state, poisoned<double>({1, whole.batch, whole.heads}));
  rest.key_parts = rest.parts = {{4, 9}};
  rest.before = state;
  linear_attention(backend(), rest);
  const Values expected = values_of(all.out), found = values_of(rest.out);
  const std::int64_t row = whole.heads * whole.values;
  for (std::int64_t b = 0; b < whole.batch; ++b)
    for (std::int64_t i = 4 * row; i < 9 * row; ++i) {
      const auto at = static_cast<std::size_t>(b * 9 * row + i);
      EXPECT_NEAR(found[at], expected[at], 1e-12);
    }
}

}  // namespace
}  // namespace longspan::linear_attention_test
