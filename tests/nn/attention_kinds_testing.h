// Dense attention by the definition of an attention type, and its implementation on the same
// sequence.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <set>

#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/support/gradient_check.h"

namespace longspan::testing::kinds {

inline constexpr std::int64_t batch = 2;
inline constexpr std::int64_t heads = 4;
inline constexpr std::int64_t dim = 3;
inline constexpr std::int64_t value_dim = 2;

// Whether position p of global head `head` attends to key k, if the model's mask allows it.
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

inline void expect_same(const Results& found, const Results& expected) {
  expect_close(found.y, expected.y, 1e-12);
  expect_close(found.dquery, expected.dquery, 1e-11);
  expect_close(found.dkey, expected.dkey, 1e-11);
  expect_close(found.dvalue, expected.dvalue, 1e-11);
}

inline double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Adds factor * b to a.
inline void add_to(double* a, double factor, const double* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] += factor * b[i];
}

// Row by row from the definition, with the derivative, for causal and bidirectional sequences.
inline Results dense(const Sequence& s, const Sees& sees, bool causal = true) {
  const std::int64_t time = s.query.shape()[1];
  const Tensor y = Tensor::zeros(s.value.shape(), DType::f64, backend_device());
  const Tensor dquery = Tensor::zeros(s.query.shape(), DType::f64, backend_device());
  const Tensor dkey = Tensor::zeros(s.key.shape(), DType::f64, backend_device());
  const Tensor dvalue = Tensor::zeros(s.value.shape(), DType::f64, backend_device());
  const auto at = [&](const Tensor& x, std::int64_t b, std::int64_t t, std::int64_t h) {
    return x.data<double>() + ((b * time + t) * heads + h) * x.shape()[3];
  };
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t p = 0; p < time; ++p) {
        const std::int64_t end = causal ? p + 1 : time;
        Values weights(static_cast<std::size_t>(time), 0);
        double total = 0;
        for (std::int64_t k = 0; k < end; ++k)
          if (sees(h, p, k))
            total += weights[static_cast<std::size_t>(k)] =
                std::exp(scale * dot(at(s.query, b, p, h), at(s.key, b, k, h), dim));
        if (total == 0) continue;
        for (double& weight : weights) weight /= total;
        const double* const dy = at(s.upstream, b, p, h);
        double mean = 0;
        for (std::int64_t k = 0; k < end; ++k) {
          const double weight = weights[static_cast<std::size_t>(k)];
          add_to(at(y, b, p, h), weight, at(s.value, b, k, h), value_dim);
          add_to(at(dvalue, b, k, h), weight, dy, value_dim);
          mean += weight * dot(dy, at(s.value, b, k, h), value_dim);
        }
        for (std::int64_t k = 0; k < end; ++k) {
          const double change = scale * weights[static_cast<std::size_t>(k)] *
                                (dot(dy, at(s.value, b, k, h), value_dim) - mean);
          add_to(at(dquery, b, p, h), change, at(s.key, b, k, h), dim);
          add_to(at(dkey, b, k, h), change, at(s.query, b, p, h), dim);
        }
      }
  return {values_of(y), values_of(dquery), values_of(dkey), values_of(dvalue)};
}

// The heads `part` of a sequence.
inline Tensor heads_of(const Tensor& x, const ShardRange& part) {
  const std::int64_t rows = x.shape()[0] * x.shape()[1];
  const std::int64_t width = x.shape()[3];
  const Tensor result = Tensor::empty(x.shape().with(2, part.count), DType::f64, backend_device());
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(x.data<double>() + (row * heads + part.begin) * width,
                part.count * width,
                result.data<double>() + row * part.count * width);
  return result;
}

inline Results run(const AttentionOp& mechanism,
                   const Sequence& s,
                   const ShardRange& part,
                   const ForwardContext& pass,
                   bool causal = true) {
  const ProjectedQKV projected = {.query = Variable::leaf(heads_of(s.query, part)),
                                  .key = Variable::leaf(heads_of(s.key, part)),
                                  .value = Variable::leaf(heads_of(s.value, part)),
                                  .heads = part};
  AttentionContext context;
  if (!causal) context.mask.rules = masks::everything();
  const Variable y = mechanism(projected, context, pass);
  backward({y}, {heads_of(s.upstream, part)});
  return {values_of(y.value()),
          values_of(projected.query.gradient()),
          values_of(projected.key.gradient()),
          values_of(projected.value.gradient())};
}

inline constexpr ShardRange all_heads = {.begin = 0, .count = heads, .total = heads};

inline Results run(const AttentionPattern& pattern, const Sequence& s, bool causal = true) {
  return run(SoftmaxAttention(0, pattern), s, all_heads, ForwardContext(), causal);
}

inline AttentionPattern pattern_of(const AttentionOptions& options, bool causal = true) {
  return attention_patterns(options, {.layers = 1, .heads = heads, .causal = causal}).front();
}

// Options with one attention type for all layers.
inline AttentionOptions with(const std::string& kinds, AttentionOptions options = {}) {
  options.kinds = {kinds};
  return options;
}

// Definitions from specifications and papers.
namespace sees {

inline Sees causal() {
  return [](auto, auto, auto) { return true; };
}
inline Sees local(std::int64_t reach) {
  return [=](auto, std::int64_t p, std::int64_t k) { return std::abs(p - k) <= reach; };
}
inline Sees dilated(std::int64_t reach, std::int64_t gap) {
  return [=](auto, std::int64_t p, std::int64_t k) {
    return std::abs(p - k) <= reach * gap && (p - k) % gap == 0;
  };
}
inline Sees strided(std::int64_t length) {
  return [=](auto, std::int64_t p, std::int64_t k) { return (p - k) % length == 0; };
}
inline Sees block(std::int64_t length) {
  return [=](auto, std::int64_t p, std::int64_t k) { return k / length == p / length; };
}
// The block of p, with `more` positions before it and, without causality, after it.
inline Sees block_window(std::int64_t length, std::int64_t more) {
  return [=](auto, std::int64_t p, std::int64_t k) {
    const std::int64_t begin = p / length * length;
    return k >= begin - more && k < begin + length + more;
  };
}
// Head h has the group h / every mod groups.
inline Sees summary(std::int64_t length,
                    std::int64_t count,
                    std::int64_t groups = 1,
                    std::int64_t every = 1) {
  return [=](std::int64_t h, std::int64_t, std::int64_t k) {
    const std::int64_t group = h / every % groups;
    return k % length >= length - (group + 1) * count && k % length < length - group * count;
  };
}
inline Sees self() {
  return [](auto, std::int64_t p, std::int64_t k) { return k == p; };
}
inline Sees global(std::set<std::int64_t> positions) {
  return [=](auto, std::int64_t p, std::int64_t k) {
    return positions.contains(p) || positions.contains(k);
  };
}
inline Sees either(Sees a, Sees b) {
  return [=](std::int64_t h, std::int64_t p, std::int64_t k) { return a(h, p, k) || b(h, p, k); };
}
inline Sees by_head(std::vector<Sees> parts) {
  return [=](std::int64_t h, std::int64_t p, std::int64_t k) {
    return parts[static_cast<std::size_t>(h % std::ssize(parts))](h, p, k);
  };
}

}  // namespace sees

}  // namespace longspan::testing::kinds
