// Mamba-2 (Dao and Gu 2024): state space duality with a short convolution, a step size for each
// token and head, and a gated norm.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/autograd/gated_recurrence.h"
#include "framework/nn/attention/recurrent_layers.h"
#include "framework/nn/layers.h"
#include "framework/options/options.h"

namespace longspan {

// Section model.attention.mamba2.
struct Mamba2Options {
  std::optional<std::int64_t> heads = {};  // none: twice the hidden size over `dim`
  std::int64_t dim = 64;                   // of a head
  std::int64_t state = 128;                // size N of B and C
  std::int64_t groups = 1;                 // heads of a group share B and C
  std::vector<double> step_limit = {};     // least and most step size; empty: unlimited
  bool convolution_bias = true;

  std::int64_t heads_of(std::int64_t width) const { return heads.value_or(2 * width / dim); }
};

void declare(OptionTable& table, Mamba2Options& options);

// y silu(z), normalized by the root mean square of each group of features, times a gain (norm after
// the gate, unlike Gated DeltaNet). y, z: [batch, time, width]; gain: [width].
Variable gated_group_norm(const Variable& y,
                          const Variable& z,
                          const Variable& gain,
                          std::int64_t groups,
                          double epsilon);

// Parameters, in addition to the projections "value" (x) and "out" of MultiHeadAttention: the
// projections "key" (B) and "query" (C) of the groups, "step" with a bias of each head, and
// "output_gate" (z); "value_convolution", "key_convolution" and "query_convolution", each with a
// weight [features, taps] and a bias; "log_rate" and "skip" [heads]; "output_norm".
class Mamba2Op : public RecurrentOp {
 public:
  struct Options {
    Mamba2Options mamba2;
    std::int64_t width = 0;
    std::int64_t taps = 4;  // model.attention.short_convolution.kernel_size
    bool bias = false;      // of the projections
    double epsilon = 1e-5;  // of the norm
  };
  Mamba2Op(const Scope& scope, const Options& options);

  bool projects_query_and_key() const override { return false; }
  std::optional<ProjectionShape> projection_shape() const override {
    return ProjectionShape{.value_heads = options_.mamba2.heads_of(options_.width),
                           .value_dim = options_.mamba2.dim};
  }
  std::vector<RecurrentStateSpec> recurrent_states(const Parameters& parameters) const override;
  // Throws ConfigurationError for a memory and for other masks than a causal one.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  struct Convolution {
    Weight weight;
    Weight bias;  // null: none
  };
  Convolution convolution(const Scope& scope, std::int64_t features) const;

  Options options_;
  bool passes_states_;
  Linear key_;
  Linear query_;
  Linear step_;
  Linear gate_;
  Convolution value_convolution_;
  Convolution key_convolution_;
  Convolution query_convolution_;
  Weight log_rate_;
  Weight skip_;
  Weight norm_;
};

AttentionKind mamba2_kind();

}  // namespace longspan
