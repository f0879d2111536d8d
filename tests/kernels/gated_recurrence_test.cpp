// Gated recurrences against their definition, token by token with dense matrices.
#include "framework/kernels/attention/gated_recurrence.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::gated_recurrence_test {
namespace {

using namespace longspan::testing;

enum class Gates : std::uint8_t { none, heads, channels };
enum class Correction : std::uint8_t { none, delta, explicit_terms };

struct Case {
  const char* name;
  Gates gates = Gates::none;
  Correction correction = Correction::none;
  std::int64_t batch = 2, time = 9, heads = 2, keys = 3, values = 5;
  bool has_state = false;  // before the first and after the last token
  bool documents = false;
  double strength = 1;  // factor of the log gates

  std::int64_t tokens() const { return batch * time * heads; }
  std::int64_t state() const { return batch * heads * keys * values; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Gates gates : {Gates::none, Gates::heads, Gates::channels})
    for (const Correction correction :
         {Correction::none, Correction::delta, Correction::explicit_terms}) {
      all.push_back({"short", gates, correction});
      Case carried = {"with states and documents", gates, correction};
      carried.has_state = carried.documents = true;
      all.push_back(carried);
    }
  // Several chunks, segments and blocks of columns; with strong gates, chunks of different lengths.
  for (const Correction correction :
       {Correction::none, Correction::delta, Correction::explicit_terms})
    for (const double strength : {1.0, 12.0}) {
      Case longer = {
          "long", Gates::channels, correction, 1, slow ? 40 : 300, 2, 21, 70, true, true};
      longer.strength = strength;
      all.push_back(longer);
    }
  for (const Gates gates : {Gates::none, Gates::heads})
    for (const Correction correction :
         {Correction::none, Correction::delta, Correction::explicit_terms})
      all.push_back({"blocks", gates, correction, 1, slow ? 20 : 40, 2, 21, 70, true, true});
  Case segments = {"segments", Gates::heads, Correction::delta, 1, 300, 1, 2, 3, true, true};
  all.push_back(segments);
  for (const Gates gates : {Gates::heads, Gates::channels})
    for (const Correction correction :
         {Correction::none, Correction::delta, Correction::explicit_terms}) {
      Case vanishing = {"vanishing gates", gates, correction};
      vanishing.strength = 300;
      vanishing.has_state = true;
      all.push_back(vanishing);
    }
  return all;
}

struct Numbers {
  Values query, key, value, log_decay, beta, a, b, initial, dout, dfinal;
  std::vector<std::int64_t> position;

  template <typename T>
  static Numbers of(const Case& c) {
    using A = Accumulator<T>;
    const double size = 1 / std::sqrt(static_cast<double>(c.keys));  // keys of length 1
    Numbers n = {normal_values<T>(c.tokens() * c.keys, 1),
                 normal_values<T>(c.tokens() * c.keys, 2, size),
                 normal_values<T>(c.tokens() * c.values, 3),
                 normal_values<A>(c.tokens() * (c.gates == Gates::channels ? c.keys : 1), 4),
                 normal_values<A>(c.tokens(), 5),
                 normal_values<T>(c.tokens() * c.keys, 6, size),
                 normal_values<T>(c.tokens() * c.keys, 7, 0.5 * size),
                 normal_values<A>(c.state(), 8),
                 normal_values<T>(c.tokens() * c.values, 9),
                 normal_values<A>(c.state(), 10),
                 {}};
    for (double& g : n.log_decay) g = rounded<A>(-0.3 * c.strength * std::abs(g));
    for (double& step : n.beta) step = rounded<A>(1 / (1 + std::exp(-step)));
    for (std::int64_t row = 0; row < c.batch; ++row)
      for (std::int64_t t = 0; t < c.time; ++t) n.position.push_back((t + 4 * row + 2) % 7);
    return n;
  }
};

// All results, by the definition.
struct Dense {
  Values out, last, dquery, dkey, dvalue, dlog_decay, dbeta, da, db, dinitial;

  Dense(const Case& c, const Numbers& n) : c_(c), n_(n) {
    out.assign(n.value.size(), 0);
    dquery.assign(n.query.size(), 0);
    dkey = da = db = dquery;
    dvalue = out;
    dlog_decay.assign(n.log_decay.size(), 0);
    dbeta.assign(n.beta.size(), 0);
    last.assign(n.initial.size(), 0);
    dinitial = last;
    for (std::int64_t head = 0; head < c.batch * c.heads; ++head) run(head);
  }

  static double scale() { return 0.7; }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t place(std::int64_t head, std::int64_t t) const {
    return (head / c_.heads * c_.time + t) * c_.heads + head % c_.heads;
  }
  bool starts(std::int64_t head, std::int64_t t) const {
    return c_.documents && n_.position[at(head / c_.heads * c_.time + t)] == 0;
  }
  double gate(std::int64_t token, std::int64_t k) const {
    if (c_.gates == Gates::none) return 1;
    return std::exp(n_.log_decay[at(c_.gates == Gates::heads ? token : token * c_.keys + k)]);
  }
  double key(std::int64_t token, std::int64_t k) const { return n_.key[at(token * c_.keys + k)]; }
  // The row k of the transition M of S_t = M S_(t-1) + written v^T.
  double transition(std::int64_t token, std::int64_t k, std::int64_t j) const {
    const double diagonal = k == j ? gate(token, k) : 0;
    if (c_.correction == Correction::none) return diagonal;
    if (c_.correction == Correction::explicit_terms)
      return diagonal + n_.b[at(token * c_.keys + k)] * n_.a[at(token * c_.keys + j)];
    return diagonal - n_.beta[at(token)] * key(token, k) * key(token, j) * gate(token, j);
  }
  double written(std::int64_t token, std::int64_t k) const {
    return (c_.correction == Correction::delta ? n_.beta[at(token)] : 1) * key(token, k);
  }

  void run(std::int64_t head) {
    const std::int64_t size = c_.keys * c_.values;
    std::vector<Values> states(at(c_.time + 1), Values(at(size)));
    if (c_.has_state) std::copy_n(n_.initial.begin() + head * size, size, states.front().begin());
    for (std::int64_t t = 0; t < c_.time; ++t) {
      const std::int64_t token = place(head, t);
      for (std::int64_t v = 0; v < c_.values; ++v) {
        const double value = n_.value[at(token * c_.values + v)];
        for (std::int64_t k = 0; k < c_.keys; ++k) {
          double& next = states[at(t + 1)][at(k * c_.values + v)];
          next = written(token, k) * value;
          for (std::int64_t j = 0; j < c_.keys && !starts(head, t); ++j)
            next += transition(token, k, j) * states[at(t)][at(j * c_.values + v)];
          out[at(token * c_.values + v)] += scale() * next * n_.query[at(token * c_.keys + k)];
        }
      }
    }
    std::ranges::copy(states.back(), last.begin() + head * size);
    run_backward(head, states);
  }
  void run_backward(std::int64_t head, const std::vector<Values>& states) {
    const std::int64_t size = c_.keys * c_.values;
    Values d(at(size));
    if (c_.has_state) std::copy_n(n_.dfinal.begin() + head * size, size, d.begin());
    for (std::int64_t t = c_.time - 1; t >= 0; --t) {
      const std::int64_t token = place(head, t);
      Values dmatrix(at(c_.keys * c_.keys)), dwritten(at(c_.keys)), before(at(size));
      for (std::int64_t v = 0; v < c_.values; ++v) {
        const double dy = scale() * n_.dout[at(token * c_.values + v)];
        const double value = n_.value[at(token * c_.values + v)];
        for (std::int64_t k = 0; k < c_.keys; ++k) {
          double& dstate = d[at(k * c_.values + v)];
          dstate += n_.query[at(token * c_.keys + k)] * dy;
          dquery[at(token * c_.keys + k)] += states[at(t + 1)][at(k * c_.values + v)] * dy;
          dwritten[at(k)] += dstate * value;
          dvalue[at(token * c_.values + v)] += dstate * written(token, k);
        }
        for (std::int64_t k = 0; k < c_.keys && !starts(head, t); ++k)
          for (std::int64_t j = 0; j < c_.keys; ++j) {
            const double dstate = d[at(k * c_.values + v)];
            dmatrix[at(k * c_.keys + j)] += dstate * states[at(t)][at(j * c_.values + v)];
            before[at(j * c_.values + v)] += transition(token, k, j) * dstate;
          }
      }
      add_terms(token, dmatrix, dwritten);
      d = before;
    }
    std::ranges::copy(d, dinitial.begin() + head * size);
  }
  // Adds the gradients of the terms of the transition and of what is written.
  void add_terms(std::int64_t token, const Values& dmatrix, const Values& dwritten) {
    const std::int64_t n = c_.keys;
    const bool is_delta = c_.correction == Correction::delta;
    const double step = n_.beta[at(token)];
    for (std::int64_t k = 0; k < n; ++k) {
      dkey[at(token * n + k)] += (is_delta ? step : 1) * dwritten[at(k)];
      if (is_delta) dbeta[at(token)] += key(token, k) * dwritten[at(k)];
      add_gate(token, k, dmatrix[at(k * n + k)]);
      for (std::int64_t j = 0; j < n; ++j) {
        const double dm = dmatrix[at(k * n + j)];
        if (c_.correction == Correction::explicit_terms) {
          da[at(token * n + j)] += dm * n_.b[at(token * n + k)];
          db[at(token * n + k)] += dm * n_.a[at(token * n + j)];
        }
        if (!is_delta) continue;
        const double both = key(token, k) * key(token, j), g = gate(token, j);
        dbeta[at(token)] -= dm * both * g;
        dkey[at(token * n + k)] -= dm * step * key(token, j) * g;
        dkey[at(token * n + j)] -= dm * step * key(token, k) * g;
        add_gate(token, j, -dm * step * both);
      }
    }
  }
  void add_gate(std::int64_t token, std::int64_t k, double dgate) {
    if (c_.gates == Gates::none) return;
    dlog_decay[at(c_.gates == Gates::heads ? token : token * c_.keys + k)] +=
        dgate * gate(token, k);
  }

  const Case& c_;
  const Numbers& n_;
};

template <typename T>
GatedRecurrence call_of(const Case& c, const Numbers& n) {
  using A = Accumulator<T>;
  const Shape key = {c.batch, c.time, c.heads, c.keys}, by_head = {c.batch, c.time, c.heads};
  const Shape state = {c.batch, c.heads, c.keys, c.values};
  GatedRecurrence call = {.query = tensor_of<T>(n.query, key),
                          .key = tensor_of<T>(n.key, key),
                          .value = tensor_of<T>(n.value, key.with(3, c.values)),
                          .scale = Dense::scale()};
  if (c.gates != Gates::none)
    call.log_decay = tensor_of<A>(n.log_decay, c.gates == Gates::channels ? key : by_head);
  if (c.correction == Correction::delta) call.beta = tensor_of<A>(n.beta, by_head);
  if (c.correction == Correction::explicit_terms) {
    call.a = tensor_of<T>(n.a, key);
    call.b = tensor_of<T>(n.b, key);
  }
  if (c.documents)
    call.document_position =
        Tensor::from<std::int64_t>(n.position, {c.batch, c.time}, backend_device());
  if (c.has_state) {
    call.initial = tensor_of<A>(n.initial, state);
    call.final_state = poisoned<A>(state);
  }
  call.out = poisoned<T>(call.value.shape());
  call.checkpoints = poisoned<A>({call.segments(), c.batch, c.heads, c.keys, c.values});
  return call;
}

template <typename T>
void expect_definition(const Case& c, double relative) {
  SCOPED_TRACE(c.name);
  using A = Accumulator<T>;
  const Numbers n = Numbers::of<T>(c);
  const Dense expected(c, n);
  const GatedRecurrence call = call_of<T>(c, n);
  gated_recurrence(backend(), call);
  expect_close(values_of(call.out), expected.out, relative, 4);
  if (c.has_state) expect_close(values_of(call.final_state), expected.last, relative, 4);
  GatedRecurrenceGradient g = {.forward = call,
                               .dout = tensor_of<T>(n.dout, call.out.shape()),
                               .dquery = poisoned<T>(call.query.shape()),
                               .dkey = poisoned<T>(call.key.shape()),
                               .dvalue = poisoned<T>(call.value.shape())};
  const auto like = [](const Tensor& x, auto tag) {
    return x.defined() ? poisoned<typename decltype(tag)::type>(x.shape()) : Tensor();
  };
  g.dlog_decay = like(call.log_decay, TypeTag<A>());
  g.dbeta = like(call.beta, TypeTag<A>());
  g.da = like(call.a, TypeTag<T>());
  g.db = like(call.b, TypeTag<T>());
  if (c.has_state) {
    g.dfinal = tensor_of<A>(n.dfinal, call.initial.shape());
    g.dinitial = poisoned<A>(call.initial.shape());
  }
  gated_recurrence_backward(backend(), g);
  const double size = 10;  // sums of many terms
  expect_close(values_of(g.dquery), expected.dquery, relative, size);
  expect_close(values_of(g.dkey), expected.dkey, relative, size);
  expect_close(values_of(g.dvalue), expected.dvalue, relative, size);
  const auto compare = [&](const Tensor& found, const Values& wanted) {
    if (found.defined()) expect_close(values_of(found), wanted, relative, size);
  };
  compare(g.dlog_decay, expected.dlog_decay);
  compare(g.dbeta, expected.dbeta);
  compare(g.da, expected.da);
  compare(g.db, expected.db);
  compare(g.dinitial, expected.dinitial);
}

TEST(GatedRecurrence, MatchesDefinition) {
  for (const Case& c : cases()) expect_definition<double>(c, 1e-11);
}

template <typename T>
class GatedRecurrenceTest : public ::testing::Test {};
TYPED_TEST_SUITE(GatedRecurrenceTest, FloatingTypes);

TYPED_TEST(GatedRecurrenceTest, MatchesDefinitionInEveryDType) {
  const double relative = std::is_same_v<TypeParam, double>  ? 1e-11
                          : std::is_same_v<TypeParam, float> ? 2e-5
                                                             : 2e-2;
  const std::vector<Case> all = cases();
  for (std::size_t i = 0; i < all.size(); i += slow ? 5 : 1)
    expect_definition<TypeParam>(all[i], relative);
}

// Writing a pair with step size 1 and reading its key gives its value (keys of length 1).
TEST(GatedRecurrence, DeltaRuleRecallsWhatItWrote) {
  const Case c = {"recall", Gates::none, Correction::delta, 1, 6, 1, 4, 3};
  Numbers n = Numbers::of<double>(c);
  n.beta.assign(n.beta.size(), 1);
  for (std::int64_t t = 0; t < c.time; ++t) {
    double squares = 0;
    for (std::int64_t k = 0; k < c.keys; ++k)
      squares += n.key[static_cast<std::size_t>(t * c.keys + k)] *
                 n.key[static_cast<std::size_t>(t * c.keys + k)];
    for (std::int64_t k = 0; k < c.keys; ++k) {
      const auto i = static_cast<std::size_t>(t * c.keys + k);
      n.query[i] = n.key[i] /= std::sqrt(squares);
    }
  }
  GatedRecurrence call = call_of<double>(c, n);
  call.scale = 1;
  gated_recurrence(backend(), call);
  expect_close(values_of(call.out), n.value, 1e-13);
}

TEST(GatedRecurrence, RejectsInvalidCalls) {
  const Case c = {"invalid", Gates::heads, Correction::delta};
  const Numbers n = Numbers::of<double>(c);
  GatedRecurrence call = call_of<double>(c, n);
  call.a = call.b = call.key;
  EXPECT_THROW(gated_recurrence(backend(), call), Failure) << "beta, a and b";
  call = call_of<double>(c, n);
  call.log_decay = call.beta.reshape({c.batch, c.time * c.heads, 1});
  EXPECT_THROW(gated_recurrence(backend(), call), Failure);
  call = call_of<double>(c, n);
  call.checkpoints = {};
  GatedRecurrenceGradient g = {
      .forward = call, .dout = call.out, .dquery = {}, .dkey = {}, .dvalue = {}};
  EXPECT_THROW(gated_recurrence_backward(backend(), g), Failure) << "no checkpoints";
}

}  // namespace
}  // namespace longspan::gated_recurrence_test
