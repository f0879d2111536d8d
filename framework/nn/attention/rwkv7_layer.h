// RWKV-7 time mixing (Peng et al. 2025; BlinkDL/RWKV-LM, RWKV-v7): a delta rule with a decay and a
// step size of each channel, between token shifts and low-rank gates.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/nn/attention/recurrent_layers.h"
#include "framework/nn/layers.h"
#include "framework/options/options.h"

namespace longspan {

// Section model.attention.rwkv7: ranks of the low-rank projections; none: of the hidden size, as in
// the authors' code.
struct Rwkv7Options {
  std::optional<std::int64_t> decay_rank = {};
  std::optional<std::int64_t> rate_rank = {};
  std::optional<std::int64_t> value_rank = {};
  std::optional<std::int64_t> gate_rank = {};
};

void declare(OptionTable& table, Rwkv7Options& options);

// Parameters, in addition to the projection "out" of MultiHeadAttention. With C features in heads:
// - projections "query" (receptance), "key" and "value" [C, width], without a bias
// - low-rank projections "decay", "rate", "value_residual" (not of layer 0) and "output_gate":
//   "down" [rank, width] and "weight" [C, rank]; all but the gate with "bias" [C]
// - "shift" [width] in each of these scopes but value_residual, which reads the input of the value:
//   the share of the previous token in the input of a projection
// - "key_scale", "rate_scale", "bonus" [C]; "output_norm/weight" and "output_norm/bias" [C]
class Rwkv7Op : public RecurrentOp {
 public:
  struct Options {
    Rwkv7Options rwkv7;
    std::int64_t heads = 0;
    std::int64_t dim = 0;  // of a head
    std::int64_t width = 0;
    std::int64_t layer = 0;
    std::int64_t layers = 1;
  };
  Rwkv7Op(const Scope& scope, const Options& options);

  bool projects_query_and_key() const override { return false; }
  bool projects_value() const override { return false; }
  std::optional<ProjectionShape> projection_shape() const override {
    return ProjectionShape{.key_heads = options_.heads,
                           .value_heads = options_.heads,
                           .key_dim = options_.dim,
                           .value_dim = options_.dim};
  }
  bool reads_first_value() const override { return true; }
  Variable first_value(const ProjectedQKV& input,
                       const AttentionContext& context,
                       const ForwardContext& pass) const override;
  std::vector<RecurrentStateSpec> recurrent_states(const Parameters& parameters) const override;
  // Throws ConfigurationError for a memory and for other masks than a causal one.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  struct LowRank {
    Weight down;
    Linear up;
    Weight bias;  // null: none
  };
  // Coefficient of the shift of channel c: 1 - (c / width)^(exponent (1 - layer / layers)).
  Weight shift(const Scope& scope, double exponent) const;
  LowRank low_rank(const Scope& scope,
                   std::int64_t rank,
                   const std::optional<Initializer>& bias) const;
  // Returns gate * (the norm of y + (sum of bonus query key) value). in: y, query, key, value and
  // gate, [batch, time, heads, dim].
  Variable finish(const std::vector<Variable>& in) const;
  // Returns x_(t-1) - x_t of the layer's input, with state `index` of a chunk.
  Variable difference(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass,
                      std::size_t index) const;

  Options options_;
  ProcessMesh mesh_;
  bool passes_states_;
  Variable taps_;  // [width, 2] of the difference
  // Constants of the norm without parameters, of sums over a head, and of the gate.
  Variable unit_gain_;
  Variable summands_;  // [1, dim]
  Variable no_bias_;
  Variable no_gate_bias_;
  Linear query_;
  Linear key_;
  Linear value_;
  Weight query_shift_;
  Weight key_shift_;
  Weight value_shift_;
  Weight decay_shift_;
  Weight rate_shift_;
  Weight gate_shift_;
  LowRank decay_;
  LowRank rate_;
  std::optional<LowRank> value_residual_;
  LowRank gate_;
  Weight key_scale_;
  Weight rate_scale_;
  Weight bonus_;
  Weight norm_gain_;
  Weight norm_bias_;
};

AttentionKind rwkv7_kind();

}  // namespace longspan
