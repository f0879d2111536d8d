// Scaled dot-product attention (Vaswani et al. 2017). Positions are in the input, in relative terms
// of the scores, or absent.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/pattern.h"
#include "framework/nn/attention/relative_position_bias.h"
#include "framework/nn/parameters.h"

namespace longspan {

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

// Returns the dropout of the probabilities of this rank's heads. Nothing outside training.
std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const ShardRange& heads,
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
