// Multi-head attention: the projections around a mechanism, heads split over tensor ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/autograd/head_groups.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/encoder_output.h"
#include "framework/nn/layers.h"
#include "framework/nn/qk_norm.h"
#include "framework/nn/rotary.h"

namespace longspan {

// Why the tensor ranks cannot divide the heads, as a sentence; empty where they can.
std::string heads_problem(std::int64_t heads, const MeshShape& mesh);

// The same of key heads, which queries share.
std::string key_heads_problem(std::int64_t key_heads, std::int64_t heads, const MeshShape& mesh);

// Which projections add a bias.
struct ProjectionBiases {
  bool query = true;
  bool key = true;
  bool value = true;
  bool out = true;

  ProjectionBiases(bool all = true) : query(all), key(all), value(all), out(all) {}
};

class MultiHeadAttention {
 public:
  struct Options {
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t dim = 0;                        // of a head
    std::optional<std::int64_t> key_heads = {};  // of keys and values; none: heads
    std::optional<std::int64_t> encoder_hidden_size =
        {};  // of what it looks at, where that is another
    ProjectionBiases bias = true;
    std::optional<NormOptions> query_key_norm = {};  // layer or rms, before they are turned
    std::optional<Initializer> initial = {};         // Xavier where nothing is said
    std::optional<Initializer> initial_out = {};
    std::optional<Rotary> rotary = {};  // queries and keys are turned by their positions
  };
  // Throws ConfigurationError with heads_problem and key_heads_problem, and for fewer key heads
  // where queries are keys.
  MultiHeadAttention(const Scope& scope,
                     const Options& options,
                     std::unique_ptr<AttentionOp> mechanism);

  // Whether its kind can read on from kept keys (Pass::kept).
  bool supports_kv_cache() const { return mechanism_->supports_kv_cache(); }

  // x: [batch, time, width] looks at `memory` [batch, n, width] (may be undefined), then at itself.
  // With pass.taken it asks for those rows alone where its kind lets each query go by itself, and
  // the other rows of the result are zeros. With pass.kept it looks at the positions read before
  // instead, and keeps its own keys and values; every context rank then does the same. Throws
  // ConfigurationError where the mechanism cannot.
  Variable operator()(const Variable& x,
                      const Variable& memory,
                      const AttentionContext& context,
                      const ForwardContext& pass) const;
  // x looks at another sequence, of any length. The context is of that sequence's positions. With
  // pass.kept the side is read in the first pass only, in later ones its rows may be undefined.
  Variable operator()(const Variable& x,
                      const EncoderOutput& side,
                      const AttentionContext& context,
                      const ForwardContext& pass) const;

  // What the first `heads` heads of the model look at of a side, on average: [batch, positions of x
  // inside the region, all positions of the side], in the accumulator dtype, the same on every
  // tensor rank. There is no dropout in it. With pass.kept the side is the one that was read, and
  // what has room behind it has columns of zeros.
  Variable probabilities(const Variable& x,
                         const EncoderOutput& side,
                         std::int64_t heads,
                         const ForwardContext& pass) const;

 private:
  // The same from what pass.kept has of this layer. x: [rows, time, width], the positions that come
  // next. Causal, whatever the context says.
  Variable attend_with_cache(const Variable& x,
                             const AttentionContext& context,
                             const ForwardContext& pass) const;
  // The same of a mechanism that carries a state.
  Variable step_recurrent_state(const Variable& x,
                                const AttentionContext& context,
                                const ForwardContext& pass) const;
  Variable cross_attend_with_cache(const Variable& x,
                                   const EncoderOutput& side,
                                   const AttentionContext& context,
                                   const ForwardContext& pass) const;
  Variable concat_memory(const Variable& memory, const Variable& x) const;
  Variable split_heads(Variable&& projected) const;
  Variable query(const Variable& asking, const ForwardContext& pass) const;
  // Queries or keys [batch, time, heads, dim] as scores read them: normed, and turned where
  // positions are rotary. `with_memory`: the first rows are those of pass.memory.
  Variable normalize_and_rotate(Variable&& projected,
                                const std::optional<QKNorm>& norm,
                                const ForwardContext& pass,
                                bool with_memory = false) const;
  // Keys or values as the mechanism reads them.
  Variable for_heads(const Variable& projected) const {
    return mechanism_->supports_grouped_kv() ? projected : for_all_heads(projected);
  }
  // One for each head.
  Variable for_all_heads(const Variable& projected) const {
    return repeat_kv(projected, heads_.count / key_heads_.count);
  }
  // The last step of all of them.
  Variable apply_attention(const ProjectedQKV& projected,
                           const AttentionContext& context,
                           const ForwardContext& pass) const;

  // Both inside the region. `reading`: the pass of all rows of `seen`. `shares`: where context
  // ranks divide them.
  Variable attend(const Variable& asking,
                  const Variable& seen,
                  const ForwardContext& reading,
                  const std::optional<SequenceShards>& shares,
                  const AttentionContext& context,
                  const ForwardContext& pass) const;

  ProcessMesh mesh_;
  TensorParallelRegion region_;
  ShardRange heads_;
  ShardRange key_heads_;
  std::int64_t dim_;
  std::optional<Linear> query_;  // none where the mechanism wants no queries
  std::optional<Linear> key_;    // none where it shares the query
  Linear value_;
  // Of global positions, where the mechanism wants them: query, key and value. They start as copies
  // of the others.
  std::vector<Linear> global_;
  Linear out_;
  std::optional<QKNorm> query_norm_;
  std::optional<QKNorm> key_norm_;
  std::optional<Rotary> rotary_;
  std::unique_ptr<AttentionOp> mechanism_;
};

}  // namespace longspan
