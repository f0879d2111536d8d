// Multi-head attention: projections around an attention op, with heads split over tensor ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/autograd/ops.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/layers.h"
#include "framework/nn/rotary.h"

namespace longspan {

// Returns the reason why tensor ranks cannot split the heads. Otherwise empty.
std::string validate_heads(std::int64_t heads, const MeshShape& mesh);

// As above, for key heads, which query heads share.
std::string validate_key_heads(std::int64_t key_heads, std::int64_t heads, const MeshShape& mesh);

// Projections that have a bias.
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
    std::int64_t dim = 0;                        // per head
    std::optional<std::int64_t> key_heads = {};  // key and value heads; none: heads
    std::optional<std::int64_t> encoder_hidden_size =
        {};  // width of the encoder output, if it differs
    ProjectionBiases bias = true;
    std::optional<NormOptions> query_key_norm = {};  // layer or rms, before the rotation
    // Multiplies the op's output by sigmoid(W x), elementwise, of the input x of the queries. Only
    // self-attention, and not for ops with a gate of their own.
    bool output_gate = false;
    std::optional<Initializer> initial = {};  // none: Xavier
    std::optional<Initializer> initial_out = {};
    std::optional<Rotary> rotary = {};  // RoPE of queries and keys
  };
  // Throws ConfigurationError with the message of validate_heads or validate_key_heads. Throws it
  // also for key_heads < heads if the op ties query and key.
  MultiHeadAttention(const Scope& scope,
                     const Options& options,
                     std::unique_ptr<AttentionOp> mechanism);

  // Returns whether the op supports ForwardContext::kv_cache.
  bool supports_kv_cache() const { return mechanism_->supports_kv_cache(); }

  // x: [batch, time, width], which attends to `memory` [batch, n, width] (may be undefined) and
  // then to itself. With pass.active_rows, computes only the active queries if the op treats
  // queries independently. The other rows of the result are then zeros. With pass.kv_cache, also
  // attends to the cached positions, and appends its own. Decoding supports no memory, and every
  // context rank computes the same. Throws ConfigurationError if the op does not support it.
  Variable operator()(const Variable& x,
                      const Variable& memory,
                      const AttentionContext& context,
                      const ForwardContext& pass) const;
  // Cross-attention of x to another sequence, of any length. `context` is for the positions of that
  // sequence. With a pass.kv_cache for decoding, only the first pass reads the encoder output.
  // Later its rows may be undefined.
  Variable operator()(const Variable& x,
                      const EncoderOutput& side,
                      const AttentionContext& context,
                      const ForwardContext& pass) const;

  // See AttentionOp. x: [batch, time, width], outside the region.
  bool reads_first_value() const { return mechanism_->reads_first_value(); }
  Variable first_value(const Variable& x,
                       const AttentionContext& context,
                       const ForwardContext& pass) const;

  // Returns the cross-attention probabilities of the model's first `heads` heads, averaged: [batch,
  // positions of x inside the region, all encoder positions]. In the accumulator dtype, equal on
  // every tensor rank, without dropout. With pass.kv_cache, uses the cached encoder output, and
  // columns of spare capacity are zeros.
  Variable probabilities(const Variable& x,
                         const EncoderOutput& side,
                         std::int64_t heads,
                         const ForwardContext& pass) const;

 private:
  // Continues from this layer's state in pass.kv_cache, and extends it by the rows of `seen`.
  // Always causal, whatever the context. Parameters as in `project`.
  Variable attend_with_cache(const Variable& asking,
                             const Variable& seen,
                             const ForwardContext& reading,
                             const AttentionContext& context,
                             const ForwardContext& pass) const;
  // Parts of it, for an op that attends to cached keys: extend `projected` by the cached rows and
  // return the context for them. The second one is for training on chunks.
  AttentionContext with_cached_keys(ProjectedQKV& projected,
                                    const AttentionContext& context,
                                    const ForwardContext& pass) const;
  AttentionContext with_chunk_keys(ProjectedQKV& projected,
                                   const AttentionContext& context,
                                   const ForwardContext& pass) const;
  Variable cross_attend_with_cache(const Variable& x,
                                   const EncoderOutput& side,
                                   const AttentionContext& context,
                                   const ForwardContext& pass) const;
  Variable concat_memory(const Variable& memory, const Variable& x) const;
  static Variable split_heads(Variable&& projected, std::int64_t dim);
  Variable query(const Variable& asking, const ForwardContext& pass) const;
  // Applies QK norm and, if enabled, RoPE to queries or keys [batch, time, heads, dim].
  // `with_memory`: the first rows are those of pass.memory.
  Variable normalize_and_rotate(Variable&& projected,
                                const std::optional<QKNorm>& norm,
                                const ForwardContext& pass,
                                bool with_memory = false) const;
  // Returns this layer's state in pass.kv_cache, for `rows` streams.
  LayerKVCache& recurrent_state(std::int64_t rows, const ForwardContext& pass) const;
  // Returns keys and values with the number of heads that the op reads.
  ProjectedQKV for_heads(ProjectedQKV&& projected) const;
  // Repeats key heads to one per query head.
  Variable for_all_heads(const Variable& projected) const {
    return repeat_kv(projected, heads_.count / key_heads_.count);
  }
  // Calls the op, the final step of all variants.
  Variable apply_attention(const ProjectedQKV& projected,
                           const AttentionContext& context,
                           const ForwardContext& pass) const;

  // Returns the projections, with the model's number of key heads. `asking` and `seen` are inside
  // the region. `reading`: context with all rows of `seen`.
  ProjectedQKV project(const Variable& asking,
                       const Variable& seen,
                       const ForwardContext& reading,
                       const ForwardContext& pass) const;

  ProcessMesh mesh_;
  TensorParallelRegion region_;
  ShardRange heads_;      // of the op's output
  ShardRange key_heads_;  // of keys and values, which heads_ share
  std::int64_t dim_;      // of queries and keys
  std::int64_t value_dim_;
  std::optional<Linear> query_;  // none if the op projects no queries
  std::optional<Linear> key_;    // none if tied to the query
  std::optional<Linear> value_;  // none if the op projects no values
  // Query, key and value projections of global positions, if the op uses them. Initialized as
  // copies of the others.
  std::vector<Linear> global_;
  std::optional<Linear> output_gate_;
  Linear out_;
  std::optional<QKNorm> query_norm_;
  std::optional<QKNorm> key_norm_;
  std::optional<Rotary> rotary_;
  std::unique_ptr<AttentionOp> mechanism_;
  std::vector<std::string> state_names_;  // of AttentionOp::recurrent_states
};

}  // namespace longspan
