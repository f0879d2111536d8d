// Attention-free mixing against its definition, pair by pair.
#include "framework/kernels/attention/attention_free.h"

#include "framework/kernels/attention/cpu/attention_free_tiles.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::attention_free_test {
namespace {

using namespace longspan::testing;

struct Case {
  const char* name;
  std::int64_t window = 0;
  bool causal = true;
  bool banded = false;
  bool hides = false;
  bool documents = false;
  std::int64_t query_begin = 0;
  std::int64_t keys = 7, channels = 5;
  double size = 1;   // deviation of the keys
  double later = 0;  // above 0: size of the keys from position 65 on

  std::int64_t batch() const { return 2; }
  std::int64_t queries() const { return keys - query_begin; }
  std::int64_t positions() const { return keys + 2; }
  std::int64_t columns() const {
    return banded ? AttentionFree::band(window, causal) : positions();
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool causal : {false, true})
    for (const std::int64_t window : {0, 1, 3, 7, 20}) {
      all.push_back({"plain", window, causal});
      all.push_back({"padding", window, causal, false, true});
      if (window == 3) all.push_back({"banded", window, causal, true});
      if (!causal) continue;
      all.push_back({"documents", window, causal, false, false, true});
      all.push_back({"later queries", window, causal, false, true, false, 3});
      all.push_back({"documents, later queries", window, causal, false, false, true, 4});
      if (window == 3) all.push_back({"banded, documents", window, causal, true, true, true, 2});
    }
  for (const std::int64_t window : {0, 4, 40}) {
    all.push_back({"many channels", window, true, false, false, true, 0, slow ? 20 : 40, 35});
    all.push_back({"large keys", window, true, false, false, false, 0, 9, 3, 1000});
    all.push_back({"large keys, both sides", window, false, false, false, false, 0, 9, 3, 1000});
  }
  return all;
}

// More near keys than a tile has. The factors of some tiles would underflow with keys of size
// `some`, those of all tiles with keys of size `most`.
std::vector<Case> long_cases(double some, double most) {
  std::vector<Case> all;
  for (const bool causal : {false, true})
    for (const std::int64_t window : {40, 200})
      for (const double size : {1.0, some, most}) {
        if (slow && (window > 40 || size != some)) continue;
        const std::int64_t keys = window < 100 ? 101 : 150;
        const auto add = [&](Case c) {
          c.window = window;
          c.causal = causal;
          c.keys = keys;
          c.size = size;
          all.push_back(c);
        };
        add({.name = "padding", .hides = true});
        add({.name = "several blocks of channels", .channels = 67});
        if (window < keys) add({.name = "banded", .banded = true, .hides = true, .channels = 3});
        if (!causal) continue;
        add({.name = "documents", .hides = true, .documents = true});
        add({.name = "later queries", .hides = true, .query_begin = 37});
        // Query 64 sees a tile whose only visible keys are later.
        add({.name = "larger later keys", .hides = true, .later = 100});
        if (window < keys)
          add({.name = "banded, documents, later queries",
               .banded = true,
               .hides = true,
               .documents = true,
               .query_begin = 37});
      }
  return all;
}

struct Numbers {
  Values key, value, bias, dout;
  std::vector<std::int64_t> lookback;
  Values hidden;

  template <typename T>
  static Numbers of(const Case& c) {
    Numbers n = {normal_values<T>(c.batch() * c.keys * c.channels, 1, c.size),
                 normal_values<T>(c.batch() * c.keys * c.channels, 2),
                 normal_values<Accumulator<T>>(c.positions() * c.columns(), 3),
                 normal_values<T>(c.batch() * c.queries() * c.channels, 4),
                 {},
                 {}};
    for (std::size_t i = 0; c.later > 0 && i < n.key.size(); ++i)
      if (static_cast<std::int64_t>(i) / c.channels % c.keys > 64)
        n.key[i] = c.later + static_cast<double>(i % 4);  // exact in every dtype
    // Documents, the first of which starts in an earlier segment.
    const std::int64_t shortest = c.keys < 64 ? 3 : 43;
    for (std::int64_t b = 0; b < c.batch(); ++b)
      for (std::int64_t t = c.query_begin; t < c.keys; ++t)
        n.lookback.push_back(t < 2 ? t + 4 : (t - 2) % (shortest + 2 * b));
    for (std::int64_t i = 0; i < c.batch() * c.keys; ++i)
      n.hidden.push_back(c.hides && i % 4 == 0 ? -infinity : 0);
    return n;
  }
};

struct Results {
  Values out, dkey, dvalue, dbias;
};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Results dense(const Case& c, const Numbers& n) {
  Results r = {
      Values(n.dout.size()), Values(n.key.size()), Values(n.key.size()), Values(n.bias.size())};
  for (std::int64_t b = 0; b < c.batch(); ++b)
    for (std::int64_t i = 0; i < c.queries(); ++i) {
      const std::int64_t t = c.query_begin + i;
      const std::int64_t start =
          c.documents ? std::max<std::int64_t>(0, t - n.lookback[at(b * c.queries() + i)]) : 0;
      for (std::int64_t channel = 0; channel < c.channels; ++channel) {
        std::vector<std::int64_t> seen;
        Values exponents;
        std::vector<std::int64_t> biases;
        double top = -infinity, sum = 0, mean = 0;
        for (std::int64_t j = start; j < (c.causal ? t + 1 : c.keys); ++j) {
          if (n.hidden[at(b * c.keys + j)] < 0) continue;
          const bool near = std::abs(t - j) < c.window;
          const std::int64_t column = c.banded ? j - t + c.window - 1 : j - start;
          biases.push_back(near ? (t - start) * c.columns() + column : -1);
          seen.push_back((b * c.keys + j) * c.channels + channel);
          exponents.push_back(n.key[at(seen.back())] + (near ? n.bias[at(biases.back())] : 0));
          top = std::max(top, exponents.back());
        }
        for (std::size_t k = 0; k < seen.size(); ++k) {
          exponents[k] = std::exp(exponents[k] - top);
          sum += exponents[k];
          mean += exponents[k] * n.value[at(seen[k])];
        }
        const std::int64_t row = (b * c.queries() + i) * c.channels + channel;
        if (seen.empty()) continue;
        mean /= sum;
        r.out[at(row)] = mean;
        for (std::size_t k = 0; k < seen.size(); ++k) {
          const double pg = exponents[k] / sum * n.dout[at(row)];
          const double dexponent = pg * (n.value[at(seen[k])] - mean);
          r.dvalue[at(seen[k])] += pg;
          r.dkey[at(seen[k])] += dexponent;
          if (biases[k] >= 0) r.dbias[at(biases[k])] += dexponent;
        }
      }
    }
  return r;
}

template <typename T>
struct Computed {
  using A = Accumulator<T>;
  AttentionFree forward;
  AttentionFreeGradient gradient;

  Computed(const Case& c, const Numbers& n) {
    const Shape keys = {c.batch(), c.keys, c.channels}, queries = keys.with(1, c.queries());
    forward = {.key = tensor_of<T>(n.key, keys),
               .value = tensor_of<T>(n.value, keys),
               .query_begin = c.query_begin,
               .causal = c.causal,
               .window = c.window,
               .banded = c.banded,
               .out = poisoned<T>(queries),
               .log_sum = poisoned<A>(queries)};
    if (c.window > 0) forward.bias = tensor_of<A>(n.bias, {c.positions(), c.columns()});
    if (c.documents) forward.max_lookback = ids_of(n.lookback).reshape({c.batch(), c.queries()});
    if (c.hides) forward.hidden = tensor_of<A>(n.hidden, {c.batch(), c.keys});
    attention_free(backend(), forward);
    gradient = {.forward = forward,
                .dout = tensor_of<T>(n.dout, queries),
                .dkey = poisoned<T>(keys),
                .dvalue = poisoned<T>(keys)};
    if (c.window > 0) gradient.dbias = poisoned<A>(forward.bias.shape());
    attention_free_backward(backend(), gradient);
  }
};

template <typename T>
class AttentionFreeKernel : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionFreeKernel, FloatingTypes);

// Returns the computed call.
template <typename T>
AttentionFree expect_definition(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.name << ", window " << c.window << ", causal " << c.causal
                                    << ", keys of size " << c.size);
  const Numbers n = Numbers::of<T>(c);
  const Results expected = dense(c, n);
  const Computed<T> run(c, n);
  const double bound = 20 * tolerance<T>();
  expect_close(values_of(run.forward.out), expected.out, bound);
  expect_close(values_of(run.gradient.dkey), expected.dkey, bound);
  expect_close(values_of(run.gradient.dvalue), expected.dvalue, bound);
  // The mean of a query is rounded before its use in the gradient.
  if (c.window > 0) expect_close(values_of(run.gradient.dbias), expected.dbias, bound, 10);
  return run.forward;
}

TYPED_TEST(AttentionFreeKernel, MatchesDefinition) {
  for (const Case& c : cases()) expect_definition<TypeParam>(c);
}

TYPED_TEST(AttentionFreeKernel, MatchesDefinitionByTiles) {
  if (emulated) GTEST_SKIP() << "only the CPU uses tiles";
  // The rounding of log_sum limits the sizes.
  constexpr bool is_double = std::is_same_v<TypeParam, double>;
  for (const Case& c : long_cases(is_double ? 120 : 10, is_double ? 300 : 40))
    EXPECT_TRUE(uses_tiles(expect_definition<TypeParam>(c)));
}

// Rows [begin, end) of each batch row of x [batch, time, channels].
Tensor rows_of(const Tensor& x, std::int64_t begin, std::int64_t end) {
  const Shape& shape = x.shape();
  Values some;
  const Values all = values_of(x);
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t i = begin * shape[2]; i < end * shape[2]; ++i)
      some.push_back(all[at(b * shape[1] * shape[2] + i)]);
  return tensor_of<double>(some, shape.with(1, end - begin));
}

// Two chunks with a state between them equal one sequence, also where a document starts with the
// second chunk.
TEST(AttentionFreeKernel, ContinuesFromState) {
  for (const bool documents : {false, true})
    for (const std::int64_t split : {1, 3, 4}) {
      SCOPED_TRACE(::testing::Message() << "documents " << documents << ", split " << split);
      Case c = {"state"};
      c.documents = documents;
      const Numbers n = Numbers::of<double>(c);
      const Computed<double> whole(c, n);
      const Shape state = {c.batch(), 3, c.channels};
      const Tensor between = poisoned<double>(state), dbetween = poisoned<double>(state);
      const auto part = [&](std::int64_t begin, std::int64_t end) {
        AttentionFree call = {.key = rows_of(whole.forward.key, begin, end),
                              .value = rows_of(whole.forward.value, begin, end)};
        if (documents) {
          std::vector<std::int64_t> lookback;
          for (std::int64_t b = 0; b < c.batch(); ++b)
            for (std::int64_t t = begin; t < end; ++t)
              lookback.push_back(n.lookback[at(b * c.keys + t)]);
          call.max_lookback = ids_of(lookback).reshape({c.batch(), end - begin});
        }
        call.out = poisoned<double>(call.key.shape());
        call.log_sum = poisoned<double>(call.key.shape());
        return call;
      };
      AttentionFree first = part(0, split), second = part(split, c.keys);
      first.final_state = second.initial = between;
      attention_free(backend(), first);
      attention_free(backend(), second);
      const auto expect_part =
          [&](const Tensor& found, const Tensor& all, std::int64_t begin, std::int64_t end) {
            expect_close(values_of(found), values_of(rows_of(all, begin, end)), 1e-12);
          };
      expect_part(first.out, whole.forward.out, 0, split);
      expect_part(second.out, whole.forward.out, split, c.keys);
      const auto gradient = [&](const AttentionFree& call, std::int64_t begin, std::int64_t end) {
        return AttentionFreeGradient{.forward = call,
                                     .dout = rows_of(whole.gradient.dout, begin, end),
                                     .dkey = poisoned<double>(call.key.shape()),
                                     .dvalue = poisoned<double>(call.key.shape())};
      };
      AttentionFreeGradient later = gradient(second, split, c.keys);
      later.dinitial = dbetween;
      attention_free_backward(backend(), later);
      AttentionFreeGradient earlier = gradient(first, 0, split);
      earlier.dfinal = dbetween;
      attention_free_backward(backend(), earlier);
      for (const auto member : {&AttentionFreeGradient::dkey, &AttentionFreeGradient::dvalue}) {
        expect_part(earlier.*member, whole.gradient.*member, 0, split);
        expect_part(later.*member, whole.gradient.*member, split, c.keys);
      }
    }
}

TEST(AttentionFreeKernel, RejectsUnsupportedCalls) {
  const Case c = {"errors", 3, false};
  const Numbers n = Numbers::of<double>(c);
  AttentionFree call = Computed<double>(c, n).forward;
  call.query_begin = 1;
  EXPECT_THROW(attention_free(backend(), call), Failure) << "later queries without a causal mask";
  call = Computed<double>(c, n).forward;
  call.banded = true;
  EXPECT_THROW(attention_free(backend(), call), Failure) << "columns";
  call = Computed<double>(c, n).forward;
  call.initial = poisoned<double>({c.batch(), 3, c.channels});
  EXPECT_THROW(attention_free(backend(), call), Failure) << "a state and biases";
}

}  // namespace
}  // namespace longspan::attention_free_test
