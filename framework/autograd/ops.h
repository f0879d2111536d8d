// Recorded ops. Each computes immediately and records its gradient.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/autograd/variable.h"
#include "framework/core/random.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/gate.h"
#include "framework/kernels/halting.h"
#include "framework/kernels/rotary.h"

namespace longspan {

// y = x weight^T + bias. x: [..., in]; weight: [out, in]; bias: [out] or undefined.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias);

// linear(a, a_weight, bias) + linear(b, b_weight, none), with the sum fused into the products. a:
// [..., n]; b: [..., m] with equal row counts; a_weight: [out, n]; b_weight: [out, m].
Variable linear_of_two(const Variable& a,
                       const Variable& a_weight,
                       const Variable& b,
                       const Variable& b_weight,
                       const Variable& bias);

// linear(dropout(activation(linear(x, in, in_bias))), out, out_bias). Biases may be undefined. The
// products fuse the activation and its derivative where possible. Stores the hidden layer once for
// relu, and otherwise also before the activation. With `unread` the value is not computed and must
// not be read: only the gradient is, as in a recomputation.
struct FeedForwardWeights {
  Variable in;
  Variable in_bias;
  Variable out;
  Variable out_bias;
};
struct Hidden {
  Activation activation = Activation::relu;
  double rate = 0;  // dropout rate; the hidden layer then has three axes
  Random random = Random(0);
  ShardPlacement placement = {};
  Tensor rows = {};  // as Dropout::rows
};
Variable feed_forward(const Variable& x,
                      const FeedForwardWeights& weights,
                      const Hidden& hidden,
                      bool unread = false);

// Returns a + b of equal shape.
Variable add(const Variable& a, const Variable& b);

// Returns x + bias, with bias [width] added to every row.
Variable add_bias(const Variable& x, const Variable& bias);

Variable activate(Activation activation, const Variable& x);

// y = x / (1 - rate) where the mask keeps an element, else 0. x is viewed as [outer, middle,
// inner]: [batch, time, width] or [1, time, width]. `rows`: as Dropout::rows. Returns x for rate 0.
Variable dropout(const Variable& x,
                 double rate,
                 const Random& random,
                 const ShardPlacement& placement,
                 const Tensor& rows = {});

// Returns a + dropout(x, ...), fused.
Variable dropout_add(const Variable& a,
                     const Variable& x,
                     double rate,
                     const Random& random,
                     const ShardPlacement& placement);

// Returns the norm in x's dtype or, for f32 x, in a narrower one.
Variable layer_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    double epsilon,
                    std::optional<DType> dtype = {});

// Residual sum dropout_add(a, x, ...) and its layer norm. a, x: [batch, time, width]. Writes the
// norm over x if it has no other owner.
struct ResidualNorm {
  Variable sum;
  Variable norm;
};
ResidualNorm residual_layer_norm(const Variable& a,
                                 Variable&& x,
                                 double rate,
                                 const Random& random,
                                 const ShardPlacement& placement,
                                 const Variable& weight,
                                 const Variable& bias,
                                 double epsilon);

// Returns scale * table[ids - begin], zero rows for ids of other ranks. ids: [batch, time] i64;
// table: [rows, width], and possibly more rows, which are not read. Result: [batch, time, width].
Variable embedding(const Variable& table,
                   const Tensor& ids,
                   std::int64_t begin,
                   double scale,
                   std::optional<std::int64_t> rows = {});

// Returns x[..., : count].
Variable first_features(const Variable& x, std::int64_t count);

// Returns factor * x + table[t, :] for each batch row. x: [batch, time, width]; table: at least
// [time, width].
Variable scale_and_add_positions(const Variable& x, double factor, const Variable& table);

// Concatenates `before` (may be undefined) and x along time: [batch, n + time, width].
// `before_products`: operation count of the gradient of `before` in the ops that read the result.
// If that gradient is not required, a dry device counts them as redundant.
Variable concat_time(const Variable& before, const Variable& x, double before_products = 0);

// As attention/attention.h, with the local heads. Biases, Shaw tables (each may be undefined) and
// spans are parameters, or in an accumulator dtype.
struct RelativeVariables {
  Variable position_key;
  Variable content_bias;
  Variable position_bias;
};
struct ShawVariables {
  Variable key_table;
  Variable value_table;
  bool of_keys = false;
  bool made = false;  // the key table is an activation: its gradient is rounded once
};
struct SpanVariables {
  Variable span;
  double ramp = 32;
  std::int64_t first = 1;
  double floor = 1e-8;
};
struct AttentionTerms {
  std::optional<RelativeVariables> relative = {};
  std::optional<ShawVariables> shaw = {};
  Tensor slopes = {};
  Variable distance_bias = {};  // [heads, 2 K + 1], in the accumulator dtype
  std::optional<SpanVariables> span = {};
  std::optional<LshTerm> hash = {};
  double scale = 0;
  double cap = 0;       // soft cap of scores (Attention::cap)
  Variable sinks = {};  // [heads], in the accumulator dtype (kernels/attention/sinks.h)
};
Variable attention(const Variable& query,
                   const Variable& key,
                   const Variable& value,
                   const AttentionMask& mask,
                   const AttentionTerms& terms = {},
                   const std::optional<AttentionDropout>& dropout = {});

// Returns the sum of the elements times a factor, as one element.
Variable sum(const Variable& x, double factor = 1);

Variable reshape(const Variable& x, const Shape& shape);

// Returns the values in another floating dtype.
Variable cast(const Variable& x, DType dtype);

// Returns cap tanh(x / cap), in x's dtype (kernels/elementwise.h).
Variable soft_cap(const Variable& x, double cap);

// As kernels/elementwise.h.
Variable tanh(const Variable& x);

// Returns x + value. x: an accumulator dtype.
Variable add_scalar(const Variable& x, double value);

// Returns factor * x, in x's dtype.
Variable multiply_scalar(const Variable& x, double factor);

// Returns x / sqrt(|x|^2 + epsilon) over the last axis, as in kernels/l2_normalize.h.
Variable l2_normalize(const Variable& x, double epsilon = 1e-24);

// As kernels/gate.h. x, change (undefined if the function has none) and logits: [..., width] in one
// dtype; bias: [width], a parameter, undefined if the function has none.
Variable gate(GateFunction function,
              const Variable& x,
              const Variable& change,
              const Variable& logits,
              const Variable& bias);

// Returns limit / (1 + exp(-x - bias)), in the accumulator dtype. x: [..., heads]; bias: [heads],
// in that dtype.
Variable token_spans(const Variable& x, const Variable& bias, double limit);

// Repeats each head `times` times in succession. x: [batch, time, heads, dim]. Returns [batch,
// time, times * heads, dim], or x if times = 1.
Variable repeat_kv(const Variable& x, std::int64_t times);

// Rotates x [batch, time, heads, dim] by `table` [time, 2 pairs], as in kernels/rotary.h. Writes in
// place if x has no other owner.
Variable apply_rotary(Variable&& x, RotaryLayout pairs, const Tensor& table);

// Computes only some rows of an activation: gathers the rows, and scatters the results.

// Subset of `whole` rows. Both tensors are i64 on the device of the activation.
struct RowSubset {
  Tensor which;  // [n]: distinct row indices; -1: an additional row of zeros
  Tensor where;  // [whole]: index of a row among the n, or -1
};

// Returns the rows of x [..., width], which has `whole` rows, as [1, n, width].
Variable gather_rows(const Variable& x, const RowSubset& rows);

// Scatters y [1, n, width] into `shape`, whose last axis is that of y. Other rows are zeros.
Variable scatter_rows(const Variable& y, const RowSubset& rows, const Shape& shape);

// Recorded ops of adaptive computation time (kernels/halting.h).

// Weights of a step, and the sums and costs after it: [positions] in an accumulator dtype. `now`:
// the decision of the step, [positions] u8, which is stored.
struct ActStepWeights {
  Variable weights;
  Variable sums;
  Variable costs;
};
ActStepWeights act_step_weights(const Variable& logits,
                                const Variable& sums,
                                const Variable& costs,
                                const Tensor& now);

// Accumulates x [..., width] into `before`, of x's shape and in its accumulator dtype. Undefined
// `before`: zeros. The result has that dtype.
Variable accumulate_states(const Variable& x,
                           const Variable& weights,
                           const Variable& before,
                           StateAccumulation join);

// Returns the rows of `moving`, but of `resting` where the decision `now` [rows] u8 is to rest,
// bitwise equal.
Variable select_rows(const Tensor& now, const Variable& moving, const Variable& resting);

// Gated feed-forward layers (Shazeer 2020).

// linear(dropout(activation(linear(x, in, in_bias)) * linear(x, up, up_bias)), out, out_bias).
// Biases may be undefined. Stores the two factors of the hidden layer. `unread`: as in
// feed_forward.
struct GatedForward {
  Variable in;
  Variable in_bias;
  Variable up;
  Variable up_bias;
  Variable out;
  Variable out_bias;
};
Variable gated_feed_forward(const Variable& x,
                            const GatedForward& weights,
                            const Hidden& hidden,
                            bool unread = false);

// Hidden layer only: activation(before) * factor. Stores both.
Variable gated(Activation activation, const Variable& before, const Variable& factor);

}  // namespace longspan
