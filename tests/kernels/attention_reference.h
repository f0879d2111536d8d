// Attention written as it is defined: a dense matrix of scores in double, and the calls of the
// kernel that are compared with it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "framework/kernels/attention.h"

namespace longspan::testing {

struct AttentionCase {
  std::int64_t batch = 1;
  std::int64_t time = 1;
  std::int64_t keys = 1;
  std::int64_t heads = 1;
  std::int64_t dim = 1;
  std::int64_t value_dim = 1;
  bool causal = true;
  std::int64_t window = 0;
  bool padded = false;  // some keys of every batch row, all keys of the second one
  bool relative = false;
  double dropout = 0;
  DType dtype = DType::f64;
  double spread = 1;  // of the inputs
  std::uint64_t seed = 1;

  std::int64_t offset() const { return keys - time; }
  std::string to_string() const {
    return fmt::format(
        "batch {} time {} keys {} heads {} dim {} value_dim {} causal {} window {} padded {} "
        "relative {} dropout {} {} seed {}",
        batch,
        time,
        keys,
        heads,
        dim,
        value_dim,
        causal,
        window,
        padded,
        relative,
        dropout,
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

// The tensors of a case: random inputs, NaN where the kernel must write, 0.5 where it must add.
inline AttentionGradient make_attention(const AttentionCase& c, const Device& device) {
  const Random random = Random(c.seed).child("attention");
  const DType sums = accumulator_of(c.dtype);
  const Shape query{c.batch, c.time, c.heads, c.dim};
  const Shape out{c.batch, c.time, c.heads, c.value_dim};
  const auto input = [&](const char* name, const Shape& shape) {
    return random_tensor(shape, c.dtype, device, random.child(name), c.spread);
  };
  AttentionGradient g;
  Attention& a = g.forward;
  a.query = input("query", query);
  a.key = input("key", {c.batch, c.keys, c.heads, c.dim});
  a.value = input("value", {c.batch, c.keys, c.heads, c.value_dim});
  a.mask.rules = c.causal ? masks::causal() : Mask();
  if (c.window > 0) a.mask.rules = a.mask.rules & masks::window(c.window - 1, masks::unlimited);
  a.mask.query_begin = c.offset();
  if (c.padded) {
    a.mask.key_padding = Tensor::empty({c.batch, c.keys}, DType::u8, device);
    auto padding = a.mask.key_padding.span<std::uint8_t>();
    for (std::size_t i = 0; i < padding.size(); ++i)
      padding[i] = static_cast<std::int64_t>(i) / c.keys == 1 ||
                   random.child("padding").uniform_at(i) < 0.3f;
  }
  if (c.relative)
    a.relative = RelativeTerm{input("position_key", {c.keys, c.heads, c.dim}),
                              input("content_bias", {c.heads, c.dim}),
                              input("position_bias", {c.heads, c.dim})};
  if (c.dropout > 0)
    a.dropout = AttentionDropout{c.dropout, random.child("dropout"), 0, 0, c.heads};
  a.out = poisoned(out, c.dtype, device);
  a.log_sum_exp = poisoned({c.batch, c.heads, c.time}, sums, device);
  g.dout = random_tensor(out, c.dtype, device, random.child("dout"), 1);
  g.dquery = poisoned(query, c.dtype, device);
  g.dkey = poisoned(a.key.shape(), c.dtype, device);
  g.dvalue = poisoned(a.value.shape(), c.dtype, device);
  if (c.relative) {
    const auto half = [&](const Shape& shape) {
      Tensor result = Tensor::empty(shape, sums, device);
      if (sums == DType::f64)
        for (double& x : result.span<double>()) x = 0.5;
      else
        for (float& x : result.span<float>()) x = 0.5f;
      return result;
    };
    g.dposition_key = half({c.keys, c.heads, c.dim});
    g.dcontent_bias = half({c.heads, c.dim});
    g.dposition_bias = half({c.heads, c.dim});
  }
  return g;
}

// Every output of the forward and the backward pass, by name.
struct AttentionResult {
  Numbers out, log_sum_exp, dquery, dkey, dvalue, dposition_key, dcontent_bias, dposition_bias;
};

inline AttentionResult run_attention(const AttentionGradient& g) {
  const Cpu cpu{&g.dout.device().state()};
  attention(cpu, g.forward);
  attention_backward(cpu, g);
  AttentionResult r{numbers(g.forward.out),
                    numbers(g.forward.log_sum_exp),
                    numbers(g.dquery),
                    numbers(g.dkey),
                    numbers(g.dvalue),
                    {},
                    {},
                    {}};
  if (g.forward.relative) {
    r.dposition_key = numbers(g.dposition_key);
    r.dcontent_bias = numbers(g.dcontent_bias);
    r.dposition_bias = numbers(g.dposition_bias);
  }
  return r;
}

// One batch row and head of the reference.
class DenseAttention {
 public:
  DenseAttention(const AttentionGradient& g, AttentionResult& result)
      : g_(g),
        a_(g.forward),
        r_(result),
        query_(numbers(a_.query)),
        key_(numbers(a_.key)),
        value_(numbers(a_.value)),
        dout_(numbers(g.dout)) {
    batch_ = a_.query.shape()[0];
    time_ = a_.query.shape()[1];
    heads_ = a_.query.shape()[2];
    dim_ = a_.query.shape()[3];
    keys_ = a_.key.shape()[1];
    value_dim_ = a_.value.shape()[3];
    scale_ = 1 / std::sqrt(static_cast<double>(dim_));
    if (a_.relative) {
      position_key_ = numbers(a_.relative->position_key);
      content_bias_ = numbers(a_.relative->content_bias);
      position_bias_ = numbers(a_.relative->position_bias);
    }
    r_.out.assign(dout_.size(), 0);
    r_.log_sum_exp.assign(static_cast<std::size_t>(batch_ * heads_ * time_), 0);
    r_.dquery.assign(query_.size(), 0);
    r_.dkey.assign(key_.size(), 0);
    r_.dvalue.assign(value_.size(), 0);
    r_.dposition_key.assign(position_key_.size(), 0.5);
    r_.dcontent_bias.assign(content_bias_.size(), 0.5);
    r_.dposition_bias.assign(position_bias_.size(), 0.5);
  }

  void run() {
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t h = 0; h < heads_; ++h)
        for (std::int64_t i = 0; i < time_; ++i) row(b, h, i);
  }

 private:
  std::size_t at(std::int64_t b,
                 std::int64_t length,
                 std::int64_t i,
                 std::int64_t h,
                 std::int64_t width) const {
    return static_cast<std::size_t>(((b * length + i) * heads_ + h) * width);
  }
  bool seen(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!a_.mask.rules.of(a_.mask.head_begin + h)
             .allows(a_.mask.query_begin + i, a_.mask.key_begin + j))
      return false;
    const Tensor& padding = a_.mask.key_padding;
    return !padding.defined() || padding.data<std::uint8_t>()[b * keys_ + j] == 0;
  }
  std::size_t position(std::int64_t h, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(
        ((i + a_.mask.query_begin - a_.mask.key_begin - j) * heads_ + h) * dim_);
  }
  double kept(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!a_.dropout) return 1;
    const auto& d = *a_.dropout;
    const std::int64_t index =
        ((d.batch_begin + b) * d.heads_total + d.head_begin + h) * time_ * keys_ + i * keys_ + j;
    return d.random.uniform_at(static_cast<std::uint64_t>(index)) >= d.rate ? 1 / (1 - d.rate) : 0;
  }
  double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::size_t q = at(b, time_, i, h, dim_);
    const std::size_t k = at(b, keys_, j, h, dim_);
    const auto bias = static_cast<std::size_t>(h * dim_);
    double sum = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(dim_); ++c) {
      const double u = a_.relative ? content_bias_[bias + c] : 0;
      sum += (query_[q + c] + u) * key_[k + c];
      if (a_.relative)
        sum += (query_[q + c] + position_bias_[bias + c]) * position_key_[position(h, i, j) + c];
    }
    return sum * scale_;
  }

  void row(std::int64_t b, std::int64_t h, std::int64_t i) {
    const auto keys = static_cast<std::size_t>(keys_);
    const auto value_dim = static_cast<std::size_t>(value_dim_);
    Numbers scores(keys, -std::numeric_limits<double>::infinity());
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < keys; ++j) {
      const auto key = static_cast<std::int64_t>(j);
      if (seen(b, h, i, key)) scores[j] = score(b, h, i, key);
      most = std::max(most, scores[j]);
    }
    auto& log_sum_exp = r_.log_sum_exp[static_cast<std::size_t>((b * heads_ + h) * time_ + i)];
    log_sum_exp = most;
    if (std::isinf(most)) return;
    double total = 0;
    for (const double s : scores) total += std::exp(s - most);
    log_sum_exp = most + std::log(total);
    Numbers dprobability(keys);
    const std::size_t o = at(b, time_, i, h, value_dim_);
    double delta = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      const double p = std::exp(scores[j] - log_sum_exp);
      const double keep = kept(b, h, i, static_cast<std::int64_t>(j));
      const std::size_t v = at(b, keys_, static_cast<std::int64_t>(j), h, value_dim_);
      for (std::size_t c = 0; c < value_dim; ++c) {
        r_.out[o + c] += p * keep * value_[v + c];
        r_.dvalue[v + c] += p * keep * dout_[o + c];
        dprobability[j] += keep * dout_[o + c] * value_[v + c];
      }
      delta += p * dprobability[j];
    }
    for (std::size_t j = 0; j < keys; ++j)
      if (!std::isinf(scores[j]))
        score_gradient(b,
                       h,
                       i,
                       static_cast<std::int64_t>(j),
                       scale_ * std::exp(scores[j] - log_sum_exp) * (dprobability[j] - delta));
  }

  void score_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, double d) {
    const std::size_t q = at(b, time_, i, h, dim_);
    const std::size_t k = at(b, keys_, j, h, dim_);
    const auto bias = static_cast<std::size_t>(h * dim_);
    for (std::size_t c = 0; c < static_cast<std::size_t>(dim_); ++c) {
      r_.dquery[q + c] += d * key_[k + c];
      r_.dkey[k + c] += d * query_[q + c];
      if (!a_.relative) continue;
      const std::size_t r = position(h, i, j) + c;
      r_.dkey[k + c] += d * content_bias_[bias + c];
      r_.dquery[q + c] += d * position_key_[r];
      r_.dposition_key[r] += d * (query_[q + c] + position_bias_[bias + c]);
      r_.dcontent_bias[bias + c] += d * key_[k + c];
      r_.dposition_bias[bias + c] += d * position_key_[r];
    }
  }

  const AttentionGradient& g_;
  const Attention& a_;
  AttentionResult& r_;
  Numbers query_, key_, value_, dout_, position_key_, content_bias_, position_bias_;
  std::int64_t batch_, time_, heads_, dim_, keys_, value_dim_;
  double scale_;
};

inline AttentionResult dense_attention(const AttentionGradient& g) {
  AttentionResult result;
  DenseAttention(g, result).run();
  return result;
}

// Largest difference, relative to the largest number of the reference (or to 1 where that is
// less); infinite where a number is not finite and the reference's is not the same.
inline double distance(const Numbers& found, const Numbers& wanted) {
  if (found.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  double scale = 1;
  for (const double w : wanted)
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == wanted[i]) continue;
    const double difference = std::abs(found[i] - wanted[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
  }
  return worst / scale;
}

inline void expect_close(const AttentionResult& found,
                         const AttentionResult& wanted,
                         double tolerance,
                         const std::string& what) {
  EXPECT_LE(distance(found.out, wanted.out), tolerance) << "out: " << what;
  EXPECT_LE(distance(found.log_sum_exp, wanted.log_sum_exp), tolerance) << "lse: " << what;
  EXPECT_LE(distance(found.dquery, wanted.dquery), tolerance) << "dquery: " << what;
  EXPECT_LE(distance(found.dkey, wanted.dkey), tolerance) << "dkey: " << what;
  EXPECT_LE(distance(found.dvalue, wanted.dvalue), tolerance) << "dvalue: " << what;
  EXPECT_LE(distance(found.dposition_key, wanted.dposition_key), tolerance)
      << "dposition_key: " << what;
  EXPECT_LE(distance(found.dcontent_bias, wanted.dcontent_bias), tolerance)
      << "dcontent_bias: " << what;
  EXPECT_LE(distance(found.dposition_bias, wanted.dposition_bias), tolerance)
      << "dposition_bias: " << what;
}

}  // namespace longspan::testing
