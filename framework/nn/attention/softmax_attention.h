// Scaled dot-product attention (Vaswani et al. 2017). Positions are in the input, in relative terms
// of the scores, or absent.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/pattern.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Learned bias per head and relative position bucket, added to scores (T5, Raffel et al. 2020).

// One table for all layers of a stack. Value type.
class RelativePositionBias {
 public:
  struct Options {
    std::int64_t heads = 0;
    std::int64_t buckets = 32;  // even, at least 4
    // larger distances share its bucket, the last one of their side; must exceed half of the
    // buckets
    std::int64_t max_distance = 128;
    // no query attends to a later key: all buckets are for earlier ones
    bool causal = false;
    Initializer initial = {};
  };
  // Creates "relative_bias" [heads, buckets], rows split over tensor ranks. Throws Failure if the
  // options violate the constraints above.
  RelativePositionBias(const Scope& stack, const Options& options);
  // Returns AttentionTerms::distance_bias for this rank's heads and all relative positions.
  Variable term() const;

 private:
  Weight table_;
  // [1, own heads * (2 max_distance + 1)] i64: table index of each head and relative position,
  // starting at the max distance before the query
  Tensor places_;
};

// Returns the bucket of relative position `distance` (key position - query position), 0 to buckets
// - 1. Half of the buckets of a side hold one distance each, starting at 0; the others grow
// logarithmically. Bidirectional: later keys use the second half of the buckets.
std::int64_t relative_position_bucket(std::int64_t distance,
                                      const RelativePositionBias::Options& options);

// Relative positions: a learned vector per relative position. Let D = max_distance and r = clip(k -
// p, -D, D) + D. The score of query p and key k is
//   q_p . (key_k + keys[r]) / sqrt(dim)
// and the weighted values are value_k + values[r] (Shaw et al. 2018). Variants: without `values`
// (BERT's relative_key); or also with key_k . keys[r] in the score (Huang et al. 2020, method 4;
// BERT's relative_key_query).

// Tables "relative_keys" and "relative_values" of one layer, [2 max_distance + 1, dim], shared by
// its heads. Value type.
class RelativePositionTables {
 public:
  struct Options {
    std::int64_t max_distance = 0;  // at least 1
    std::int64_t dim = 0;           // per head
    Initializer initial = {};
    bool values = true;    // also adds a table to the values
    bool of_keys = false;  // adds the product of keys with the key table to the scores
  };
  RelativePositionTables(const Scope& scope, const Options& options)
      : keys_(scope.replicated_weight(
            "relative_keys", {2 * options.max_distance + 1, options.dim}, options.initial)),
        of_keys_(options.of_keys) {
    if (options.values)
      values_ = scope.replicated_weight(
          "relative_values", {2 * options.max_distance + 1, options.dim}, options.initial);
  }

  ShawVariables term() const {
    return {.key_table = keys_->variable,
            .value_table = values_ ? values_->variable : Variable(),
            .of_keys = of_keys_};
  }

 private:
  Weight keys_;
  Weight values_;
  bool of_keys_;
};

// Value type.
struct SoftmaxOptions {
  // "sinks" [heads]: a term in the softmax denominator of each head (sinks.h)
  Weight sinks = nullptr;
  double cap = 0;    // soft cap of scores (Attention::cap); 0: none
  double scale = 0;  // of the query-key products; 0: 1 / sqrt(dim)

  bool empty() const { return !sinks && cap == 0 && scale == 0; }
  void add_to(AttentionTerms& terms) const {
    terms.cap = cap;
    terms.scale = scale;
    if (sinks) terms.sinks = sinks->variable;
  }
};

// Creates the options of a layer. `attention`: scope of its attention. Sinks are initialized with
// 0.
inline SoftmaxOptions softmax_form(const Scope& attention,
                                   std::int64_t heads,
                                   bool has_sinks,
                                   const std::optional<double>& cap) {
  SoftmaxOptions form = {.cap = cap.value_or(0)};
  if (has_sinks)
    form.sinks = attention.no_decay_weight("sinks", {heads}, Initializer::constant(0), 0);
  return form;
}

// Relative position terms of the scores. Value type. Empty if positions are in the input.
struct RelativeTerms {
  std::optional<RelativePositionTables> tables = {};
  Tensor slopes = {};  // ALiBi
  std::optional<RelativePositionBias> bias = {};

  bool empty() const { return !tables && !slopes.defined() && !bias; }
};

class SoftmaxAttention : public AttentionOp {
 public:
  // `dropout` applies to the probabilities.
  explicit SoftmaxAttention(double dropout,
                            AttentionPattern pattern = {},
                            RelativeTerms distances = {},
                            SoftmaxOptions form = {})
      : dropout_(dropout),
        pattern_(std::move(pattern)),
        distances_(std::move(distances)),
        form_(std::move(form)) {}
  bool projects_global() const override { return pattern_.projects_global(); }
  bool supports_kv_cache() const override { return true; }
  bool supports_document_mask() const override { return true; }
  bool supports_grouped_kv() const override { return true; }
  std::optional<std::int64_t> max_distance() const override { return pattern_.max_distance(); }
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  AttentionTerms terms() const;
  Variable by_pattern(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const;

  double dropout_;
  AttentionPattern pattern_;
  RelativeTerms distances_;
  SoftmaxOptions form_;
};

// Returns the dropout of the probabilities of a call with this input and mask. Nothing outside
// training.
std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const ProjectedQKV& input,
                                                    const AttentionMask& mask,
                                                    const ForwardContext& pass);

// Attention with linear biases (ALiBi, Press et al. 2022): subtracts slope * |p - k| from a score,
// with a fixed slope per head.

// Returns the slopes of all heads of a model, steepest first: 2^(-8 i / heads), i = 1 ... heads,
// for a power of two. Otherwise the slopes for the power of two below it, then every second slope
// for twice as many heads, as in the authors' code.
std::vector<double> alibi_slopes(std::int64_t heads);

// Returns the slopes of this tensor rank's heads, [heads], in the accumulator dtype, on the device.
Tensor alibi_slopes(const Scope& scope, std::int64_t heads);

}  // namespace longspan
