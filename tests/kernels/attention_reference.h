// Attention cases with their tensors, kernel calls and comparisons.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "framework/kernels/attention/attention.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::testing {

struct AttentionCase {
  std::int64_t batch = 1;
  std::int64_t time = 1;
  std::int64_t keys = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 0;  // 0: heads
  std::int64_t dim = 1;
  std::int64_t value_dim = 1;
  bool causal = true;
  std::int64_t window = 0;
  bool padded = false;        // some keys of every batch row, all keys of the second one
  std::int64_t document = 0;  // rows hold documents of about that length
  bool relative = false;
  bool key_table = false;  // Shaw's
  bool value_table = false;
  bool of_keys = false;  // the key table is multiplied with keys too
  bool slopes = false;
  bool bias = false;    // learned, by distance
  int span = 0;         // 1: by head, 2: by token
  double ramp = 0;      // of the span, if keys must lie beyond it
  bool floor = true;    // keys beyond the span have a weight
  bool sorted = false;  // a sorted sequence, causal by `causal`
  bool buckets = false;
  bool in_order = false;  // a sorted sequence in its original order, in parts
  int hash = 0;           // 1: self score, 2: counts, 3: both
  double scale = 0;
  double cap = 0;
  std::optional<HeadMasks> rules = {};  // in addition to causal and window
  std::optional<std::int64_t> query_begin = {};
  std::int64_t key_begin = 0;
  double dropout = 0;
  std::int64_t fold = 1;  // of the view
  DType dtype = DType::f64;
  double spread = 1;  // of the inputs
  std::uint64_t seed = 1;

  std::int64_t first_query() const { return query_begin.value_or(keys - time); }
  // Distances from 0 to the largest.
  std::int64_t distances() const {
    return std::max<std::int64_t>(1, first_query() + time - key_begin);
  }
  std::string to_string() const {
    return fmt::format(
        "batch {} time {} keys {} heads {} of {} dim {} value_dim {} causal {} window {} padded {} "
        "document {} relative {} tables {} {} of keys {} slopes {} bias {} span {} ramp {} floor "
        "{} "
        "sorted "
        "{} {} hash "
        "{} from {} "
        "{} "
        "dropout {} fold {} {} seed {}",
        batch,
        time,
        keys,
        heads,
        key_heads,
        dim,
        value_dim,
        causal,
        window,
        padded,
        document,
        relative,
        key_table,
        value_table,
        of_keys,
        slopes,
        bias,
        span,
        ramp,
        floor,
        sorted,
        buckets,
        hash,
        first_query(),
        key_begin,
        dropout,
        fold,
        name_of(dtype),
        seed);
  }
};

using Numbers = std::vector<double>;

// Standard normal numbers times `spread`, rounded to the dtype.
inline Tensor random_tensor(
    const Shape& shape, DType dtype, const Device& device, Random random, double spread) {
  Tensor result = Tensor::empty(shape, dtype, device);
  with_floating_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::uint64_t i = 0;
    for (T& x : result.span<T>()) {
      const double number = spread * random.normal_at(i++);
      if constexpr (std::is_same_v<T, double>)
        x = number;
      else
        x = static_cast<T>(static_cast<float>(number));
    }
  });
  return result;
}

inline Numbers numbers(const Tensor& tensor) {
  Numbers result;
  with_floating_type(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const T x : tensor.span<T>())
      if constexpr (std::is_same_v<T, double>)
        result.push_back(x);
      else
        result.push_back(static_cast<double>(static_cast<float>(x)));
  });
  return result;
}

inline Tensor poisoned(const Shape& shape, DType dtype, const Device& device) {
  Tensor result = Tensor::empty(shape, dtype, device);
  with_floating_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (T& x : result.span<T>()) x = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  });
  return result;
}

// Integers from `least` to `most`.
inline Tensor random_integers(const Shape& shape,
                              std::int64_t least,
                              std::int64_t most,
                              const Device& device,
                              const Random& random) {
  Tensor result = Tensor::empty(shape, DType::i32, device);
  std::uint64_t i = 0;
  for (std::int32_t& x : result.span<std::int32_t>())
    x = static_cast<std::int32_t>(least +
                                  static_cast<std::int64_t>(random.word(i++)) % (most - least + 1));
  return result;
}

inline Tensor filled(const Shape& shape, DType dtype, double value, const Device& device) {
  Tensor result = Tensor::empty(shape, dtype, device);
  if (dtype == DType::f64)
    for (double& x : result.span<double>()) x = value;
  else
    for (float& x : result.span<float>()) x = static_cast<float>(value);
  return result;
}

inline void make_mask(const AttentionCase& c,
                      const Device& device,
                      const Random& random,
                      Attention& a) {
  a.mask.rules = c.rules.value_or(HeadMasks());
  if (c.causal && !c.sorted) a.mask.rules = a.mask.rules & masks::causal();
  if (c.window > 0) a.mask.rules = a.mask.rules & masks::window(c.window - 1, masks::unlimited);
  a.mask.query_begin = c.first_query();
  a.mask.key_begin = c.key_begin;
  if (c.padded) {
    a.mask.key_padding = Tensor::empty({c.batch, c.keys}, DType::u8, device);
    auto padding = a.mask.key_padding.span<std::uint8_t>();
    for (std::size_t i = 0; i < padding.size(); ++i)
      padding[i] = static_cast<std::int64_t>(i) / c.keys == 1 ||
                   random.child("padding").uniform_at(i) < 0.3f;
    a.mask.key_length = Tensor::empty({c.batch}, DType::i64, device);
    std::uint64_t b = 0;
    for (std::int64_t& length : a.mask.key_length.span<std::int64_t>())
      length =
          c.key_begin + c.keys - static_cast<std::int64_t>(random.child("length").word(b++) % 20);
  }
  if (c.document > 0) {
    a.mask.max_lookback = Tensor::empty({c.batch, c.time}, DType::i64, device);
    std::int64_t reach = 0;
    std::uint64_t i = 0;
    for (std::int64_t& of_query : a.mask.max_lookback.span<std::int64_t>()) {
      const auto word = static_cast<std::int64_t>(random.child("documents").word(i) >> 1);
      // The first document of a row may start before the row.
      if (static_cast<std::int64_t>(i++) % c.time == 0)
        reach = word % (2 * c.keys);
      else
        reach = word % c.document == 0 ? 0 : reach + 1;
      of_query = reach;
    }
  }
  if (!c.sorted) return;
  if (c.in_order) a.mask.rules = c.causal ? a.mask.rules & masks::causal() : a.mask.rules;
  const std::int64_t positions = c.keys + 5;
  const auto integers =
      [&](const char* name, std::int64_t rows, std::int64_t least, std::int64_t most) {
        return random_integers({c.batch, c.heads, rows}, least, most, device, random.child(name));
      };
  a.mask.sorted = SortedSequence{.query_position = integers("qp", c.time, -1, positions - 1),
                                 .key_position = integers("kp", c.keys, -1, positions - 1),
                                 .causal = c.causal};
  if (!c.buckets) return;
  a.mask.sorted->query_bucket = integers("qb", c.time, 0, 2);
  a.mask.sorted->key_bucket = integers("kb", c.keys, 0, 2);
  if (!c.in_order) return;
  const auto stand = [](const Tensor& position, std::int64_t begin, std::int64_t count) {
    std::int64_t i = 0;
    for (std::int32_t& at : position.span<std::int32_t>())
      at = at < 0 ? -1 : static_cast<std::int32_t>(begin + i++ % count);
  };
  a.mask.sorted->causal = false;
  stand(a.mask.sorted->query_position, c.first_query(), c.time);
  stand(a.mask.sorted->key_position, c.key_begin, c.keys);
}

inline void make_terms(const AttentionCase& c,
                       const Device& device,
                       const Random& random,
                       AttentionGradient& g) {
  Attention& a = g.forward;
  const DType sums = accumulator_of(c.dtype);
  const auto input = [&](const char* name, const Shape& shape) {
    return random_tensor(shape, c.dtype, device, random.child(name), c.spread);
  };
  const auto half = [&](const Shape& shape) { return filled(shape, sums, 0.5, device); };
  if (c.relative) {
    a.relative = RelativeTerm{input("position_key", {c.distances(), c.heads, c.dim}),
                              input("content_bias", {c.heads, c.dim}),
                              input("position_bias", {c.heads, c.dim})};
    g.dposition_key = half({c.distances(), c.heads, c.dim});
    g.dcontent_bias = half({c.heads, c.dim});
    g.dposition_bias = half({c.heads, c.dim});
  }
  if (c.key_table || c.value_table) {
    a.shaw.emplace();
    const std::int64_t rows = 2 * static_cast<std::int64_t>(c.seed % 4 * 13) + 1;
    if (c.key_table) {
      a.shaw->key_table = input("key_table", {rows, c.dim});
      g.dkey_table = half({rows, c.dim});
      a.shaw->of_keys = c.of_keys;
    }
    if (c.value_table) {
      a.shaw->value_table = input("value_table", {rows, c.value_dim});
      g.dvalue_table = half({rows, c.value_dim});
    }
  }
  if (c.slopes) {
    a.slopes = Tensor::empty({c.heads}, sums, device);
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const double slope = std::exp2(-1.0 - 2.0 * static_cast<double>(h));
      if (sums == DType::f64)
        a.slopes.data<double>()[h] = slope;
      else
        a.slopes.data<float>()[h] = static_cast<float>(slope);
    }
  }
  if (c.bias) {
    const Shape shape = {c.heads, 2 * static_cast<std::int64_t>(c.seed % 4 * 13) + 1};
    a.distance_bias = random_tensor(shape, sums, device, random.child("distance_bias"), c.spread);
    g.ddistance_bias = half(shape);
  }
  if (c.span > 0) {
    const Shape shape = c.span == 1 ? Shape{c.heads} : Shape{c.batch, c.time, c.heads};
    // Some keys lie at an end of the ramp. Nonzero factors are at least 1/18 (1/5 in narrow
    // dtypes), because smaller ones would amplify rounding errors.
    struct Ends {
      double ramp, middle, steps;  // of z
    };
    const Ends ends = c.ramp > 0              ? Ends{c.ramp, 40, 1}
                      : c.dtype == DType::f64 ? Ends{9, 0, 2}
                                              : Ends{300, 100, 2};
    const Tensor z = random_tensor(shape, sums, device, random.child("span"), 20);
    with_floating_type(sums, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_floating_point_v<T>)
        for (T& x : z.span<T>())
          x = static_cast<T>(std::round(ends.steps * x) / ends.steps + ends.middle);
    });
    a.span = SpanTerm{.span = z,
                      .ramp = ends.ramp,
                      .first = static_cast<std::int64_t>(c.seed % 2),
                      .floor = !c.floor          ? 0
                               : c.seed % 3 == 0 ? 0.01
                                                 : 1e-8};
    g.dspan = half(shape);
  }
  if (c.hash == 0) return;
  a.hash.emplace();
  if (c.hash != 2) a.hash->self_score = -3;
  if (c.hash == 1) return;
  const Shape rounds{c.batch, c.heads, 1 + static_cast<std::int64_t>(c.seed % 3), c.keys + 5};
  a.hash->chunk = random_integers(rounds, 0, 6, device, random.child("chunk"));
  if (c.seed % 2 == 0)
    a.hash->bucket = random_integers(rounds, 0, 1, device, random.child("bucket"));
  a.hash->look_ahead = static_cast<std::int64_t>(c.seed % 5 == 0);
  a.hash->chunks = c.seed % 4 == 0 ? 0 : 7;
  a.hash->count_floor = c.seed % 7 == 0 ? 1e-3 : 0;
}

// The tensors of a case: random inputs, NaN where the kernel must write, 0.5 where it must add.
inline AttentionGradient make_attention(const AttentionCase& c, const Device& device) {
  const Random random = Random(c.seed).child("attention");
  const Shape query{c.batch, c.time, c.heads, c.dim};
  const Shape out{c.batch, c.time, c.heads, c.value_dim};
  const auto input = [&](const char* name, const Shape& shape) {
    return random_tensor(shape, c.dtype, device, random.child(name), c.spread);
  };
  AttentionGradient g;
  Attention& a = g.forward;
  a.query = input("query", query);
  const std::int64_t key_heads = c.key_heads > 0 ? c.key_heads : c.heads;
  a.key = input("key", {c.batch, c.keys, key_heads, c.dim});
  a.value = input("value", {c.batch, c.keys, key_heads, c.value_dim});
  a.scale = c.scale;
  a.cap = c.cap;
  make_mask(c, device, random, a);
  if (c.dropout > 0) {
    a.dropout = AttentionDropout{c.dropout, random.child("dropout"), 0, 0, c.heads / c.fold};
    if (c.fold > 1) {
      a.dropout->fold = c.fold;
      a.dropout->time_total = c.time * c.fold;
      a.dropout->keys_total = c.keys * c.fold;
    }
  }
  a.out = poisoned(out, c.dtype, device);
  a.log_sum_exp = poisoned({c.batch, c.heads, c.time}, accumulator_of(c.dtype), device);
  g.dout = random_tensor(out, c.dtype, device, random.child("dout"), 1);
  g.dquery = poisoned(query, c.dtype, device);
  g.dkey = poisoned(a.key.shape(), c.dtype, device);
  g.dvalue = poisoned(a.value.shape(), c.dtype, device);
  make_terms(c, device, random, g);
  return g;
}

inline std::vector<Tensor*> tensors_of(Attention& a) {
  std::vector<Tensor*> all = {&a.query,
                              &a.key,
                              &a.value,
                              &a.out,
                              &a.log_sum_exp,
                              &a.slopes,
                              &a.distance_bias,
                              &a.mask.key_padding,
                              &a.mask.key_length,
                              &a.mask.max_lookback};
  if (auto& sorted = a.mask.sorted)
    all.insert(all.end(),
               {&sorted->query_position,
                &sorted->key_position,
                &sorted->query_bucket,
                &sorted->key_bucket});
  if (auto& relative = a.relative)
    all.insert(all.end(),
               {&relative->position_key, &relative->content_bias, &relative->position_bias});
  if (a.shaw) all.insert(all.end(), {&a.shaw->key_table, &a.shaw->value_table});
  if (a.span) all.push_back(&a.span->span);
  if (a.hash) all.insert(all.end(), {&a.hash->chunk, &a.hash->bucket});
  return all;
}
inline std::vector<Tensor*> tensors_of(AttentionGradient& g) {
  std::vector<Tensor*> all = tensors_of(g.forward);
  all.insert(all.end(),
             {&g.dout,
              &g.dquery,
              &g.dkey,
              &g.dvalue,
              &g.dposition_key,
              &g.dcontent_bias,
              &g.dposition_bias,
              &g.dkey_table,
              &g.dvalue_table,
              &g.dspan,
              &g.ddistance_bias});
  return all;
}
inline std::vector<Tensor*> tensors_of(MergeAttention& m) {
  return {&m.out, &m.log_sum_exp, &m.part, &m.part_log_sum_exp, &m.position};
}

// Calls f(backend, call) on the device of the kernels. Emulated kernels use copies of the call's
// tensors, which are then copied back.
template <typename Call, typename F>
void on_backend(Call call, const Tensor& any, F f) {
  if constexpr (!emulated) {
    f(backend(any.device()), call);
  } else {
    Call there = call;
    const auto here_all = tensors_of(call), there_all = tensors_of(there);
    for (Tensor* tensor : there_all)
      if (tensor->defined()) *tensor = tensor->to(backend_device());
    f(backend(), there);
    for (std::size_t i = 0; i < here_all.size(); ++i)
      if (here_all[i]->defined()) here_all[i]->copy_from(*there_all[i]);
  }
}
inline void attend(const Attention& a) {
  on_backend(a, a.query, [](auto on, const Attention& call) { attention(on, call); });
}
inline void attend_backward(const AttentionGradient& g) {
  on_backend(
      g, g.dout, [](auto on, const AttentionGradient& call) { attention_backward(on, call); });
}
inline void merge(const MergeAttention& m) {
  on_backend(m, m.out, [](auto on, const MergeAttention& call) { merge_attention(on, call); });
}

// Every output of the forward and the backward pass, by name.
struct AttentionResult {
  Numbers out, log_sum_exp, dquery, dkey, dvalue, dposition_key, dcontent_bias, dposition_bias;
  Numbers dkey_table, dvalue_table, dspan, ddistance_bias;
};

inline AttentionResult run_attention(const AttentionGradient& g) {
  on_backend(g, g.dout, [](auto on, const AttentionGradient& call) {
    attention(on, call.forward);
    attention_backward(on, call);
  });
  const auto given = [](const Tensor& tensor) {
    return tensor.defined() ? numbers(tensor) : Numbers();
  };
  AttentionResult r{numbers(g.forward.out),
                    numbers(g.forward.log_sum_exp),
                    numbers(g.dquery),
                    numbers(g.dkey),
                    numbers(g.dvalue),
                    given(g.dposition_key),
                    given(g.dcontent_bias),
                    given(g.dposition_bias),
                    given(g.dkey_table),
                    given(g.dvalue_table),
                    given(g.dspan),
                    given(g.ddistance_bias)};
  return r;
}

// The largest difference, relative to the largest expected value or to 1 if that is larger.
// Infinite if a non-finite value differs from its expected value.
inline double distance(const Numbers& found, const Numbers& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double scale = 1;
  for (const double w : expected)
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    const double difference = std::abs(found[i] - expected[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
  }
  return worst / scale;
}

inline void expect_close(const AttentionResult& found,
                         const AttentionResult& expected,
                         double tolerance,
                         const std::string& what) {
  EXPECT_LE(distance(found.out, expected.out), tolerance) << "out: " << what;
  EXPECT_LE(distance(found.log_sum_exp, expected.log_sum_exp), tolerance) << "lse: " << what;
  EXPECT_LE(distance(found.dquery, expected.dquery), tolerance) << "dquery: " << what;
  EXPECT_LE(distance(found.dkey, expected.dkey), tolerance) << "dkey: " << what;
  EXPECT_LE(distance(found.dvalue, expected.dvalue), tolerance) << "dvalue: " << what;
  EXPECT_LE(distance(found.dposition_key, expected.dposition_key), tolerance)
      << "dposition_key: " << what;
  EXPECT_LE(distance(found.dcontent_bias, expected.dcontent_bias), tolerance)
      << "dcontent_bias: " << what;
  EXPECT_LE(distance(found.dposition_bias, expected.dposition_bias), tolerance)
      << "dposition_bias: " << what;
  EXPECT_LE(distance(found.dkey_table, expected.dkey_table), tolerance) << "dkey_table: " << what;
  EXPECT_LE(distance(found.dvalue_table, expected.dvalue_table), tolerance)
      << "dvalue_table: " << what;
  EXPECT_LE(distance(found.dspan, expected.dspan), tolerance) << "dspan: " << what;
  // A sum over all pairs of a distance, up to hundreds, each rounded separately.
  EXPECT_LE(distance(found.ddistance_bias, expected.ddistance_bias), 2 * tolerance)
      << "ddistance_bias: " << what;
}

}  // namespace longspan::testing
