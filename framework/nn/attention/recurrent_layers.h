// Layer types with a gated linear recurrence: retention (Sun et al. 2023), gated linear attention
// (Yang et al. 2023), DeltaNet (Yang et al. 2024), Gated DeltaNet (Yang et al. 2025) and Kimi Delta
// Attention (Kimi Team 2025). The state of a head is [key dim, value dim], whatever the length.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/nn/attention/attention_kind.h"
#include "framework/nn/attention/delta_rule.h"
#include "framework/nn/layers.h"
#include "framework/options/options.h"

namespace longspan {

enum class RecurrenceKind : std::uint8_t {
  retention,
  gla,
  delta_net,
  gated_delta_net,
  kimi_delta_attention
};

// Section model.attention.delta_rule: projections of the delta types. Numbers that are not set are
// the model's; see delta_rule_projections.
struct DeltaRuleOptions {
  std::optional<std::int64_t> key_heads = {};    // of queries and keys
  std::optional<std::int64_t> value_heads = {};  // of values, gates and outputs
  std::optional<std::int64_t> key_dim = {};      // per head
  std::optional<std::int64_t> value_dim = {};
  double norm_epsilon = 1e-6;  // of the norm of each head's output
};
void declare(OptionTable& table, DeltaRuleOptions& options);

// Returns the shape of the projections; nothing if no option sets it, so that the model's
// attention heads, and its key and value heads, define it.
std::optional<ProjectionShape> delta_rule_projections(const DeltaRuleOptions& options,
                                                      const AttentionBuildOptions& setting);

// Attention op whose layer keeps a state of fixed size instead of keys, and gates its output.
class RecurrentOp : public AttentionOp {
 public:
  bool supports_kv_cache() const override { return true; }
  bool has_recurrent_state() const override { return true; }
  bool supports_document_mask() const override { return true; }
  bool rotates() const override { return false; }
  bool gates_output() const override { return true; }
  bool mixes_queries() const override { return true; }
};

// Context ranks share a recurrence in one of two ways. If they divide the heads of a tensor rank,
// they exchange positions for heads, and each runs all positions of some heads. Otherwise each runs
// its own positions of all heads and passes the states on.
struct SharedRecurrence {
  ProjectedQKV exchanged;                // with shares if ranks exchange positions for heads
  std::optional<SequenceShards> passed;  // if ranks pass states on
};
// Returns the input with its shares in the field that applies.
SharedRecurrence shared_recurrence(const ProjectedQKV& input, bool passes);
// Returns whether context ranks pass on the states of `heads` heads.
bool passes_states(const ProcessMesh& mesh, std::int64_t heads);
// Returns the ranks that split the states: passed ones, at the ends of a sequence, are equal on all
// context ranks.
inline StateSplit split_of_states(bool passes) {
  return passes ? StateSplit::tensor : StateSplit::tensor_and_context;
}

// Returns the specification of the states of `heads` heads, named "state".
RecurrentStateSpec state_of_heads(const Parameters& parameters,
                                  std::int64_t heads,
                                  std::int64_t key_dim,
                                  std::int64_t value_dim,
                                  StateSplit split);
// Returns that of the rows before a convolution.
RecurrentStateSpec state_of_convolution(const Parameters& parameters,
                                        const std::string& name,
                                        std::int64_t taps,
                                        std::int64_t channels,
                                        StateSplit split);

// Throws ConfigurationError, with the name of the type, for a memory and for other masks than a
// causal one.
void require_causal(const AttentionMask& mask, const std::string& kind);

// Returns an AttentionKind with a recurrent state, without `problem` and `make`.
AttentionKind recurrent_kind(std::string name, std::string sees);

// Parameters, in addition to the projections of MultiHeadAttention:
// - retention: "output_gate". The gate of head h is 1 - 2^(-5 - h).
// - gla: "decay" (low rank, a gate of each channel), "head_norm", "output_gate"
// - delta types: "query_convolution" and "key_convolution" [key heads * key dim, taps],
//   "value_convolution" [heads * value dim, taps], "beta", "head_norm" [value dim]
// - gated_delta_net also "decay", "log_rate" [heads] and "output_gate"; kimi_delta_attention the
//   same with a gate of each channel and low ranks
class GatedRecurrenceOp : public RecurrentOp {
 public:
  struct Options {
    RecurrenceKind kind = RecurrenceKind::gated_delta_net;
    std::int64_t heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    std::int64_t width = 0;
    std::int64_t taps = 4;       // model.attention.short_convolution.kernel_size
    double norm_epsilon = 1e-6;  // of the norm of each head
    // Projections that differ from those of other attention types (model.attention.delta_rule).
    // Only delta types.
    std::optional<ProjectionShape> projections = {};
  };
  GatedRecurrenceOp(const Scope& scope, const Options& options);

  // Among the published models, only those of retention rotate queries and keys.
  bool rotates() const override { return options_.kind == RecurrenceKind::retention; }
  // The delta types normalize queries and keys after their convolution.
  bool supports_qk_norm() const override { return !is_delta(); }
  std::optional<ProjectionShape> projection_shape() const override { return options_.projections; }
  bool mixes_queries() const override { return is_delta(); }
  std::vector<RecurrentStateSpec> recurrent_states(const Parameters& parameters) const override;
  // Throws ConfigurationError for a memory and for other masks than a causal one.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  bool is_delta() const { return options_.kind >= RecurrenceKind::delta_net; }
  bool has_channel_gates() const {
    return options_.kind == RecurrenceKind::gla ||
           options_.kind == RecurrenceKind::kimi_delta_attention;
  }
  std::int64_t key_heads() const {
    return options_.projections ? options_.projections->key_heads : options_.heads;
  }
  // Gates of this rank's rows and heads, [batch, time, heads] or [batch, time, heads, dim].
  Variable log_decay(const ProjectedQKV& input, const ForwardContext& pass) const;
  // The convolution of queries (0), keys (1) or values (2), for the heads of `all`, some of those
  // of `input`.
  DeltaRuleConvolution convolution(std::size_t index,
                                   const ProjectedQKV& all,
                                   const ProjectedQKV& input) const;
  // Normalizes the heads of the output and applies the output gate.
  Variable finish(const Variable& y, const Variable& x, const ForwardContext& pass) const;

  Options options_;
  bool passes_states_;
  std::vector<Weight> convolutions_;  // of queries, keys and values
  std::optional<Linear> beta_;
  Weight decay_down_;  // low rank
  std::optional<Linear> decay_;
  Weight log_rate_;
  Weight head_gain_;
  Weight gate_down_;  // low rank
  std::optional<Linear> output_gate_;
};

// Initial values of the biases of step sizes, and of the logarithms of decay rates, with which
// gates start as e^(-rate step).
Initializer initial_step_bias();
Initializer initial_log_rate();

// Returns the rows of a parameter [heads * n, ...] that belong to `heads`, which are among those of
// this rank, `own`.
Variable heads_of_vector(const Variable& x, const ShardRange& heads, const ShardRange& own);

std::vector<AttentionKind> recurrent_kinds();

}  // namespace longspan
