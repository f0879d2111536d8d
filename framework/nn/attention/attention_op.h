// Attention op: maps the projected queries, keys and values of a layer to its output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/autograd/ring_attention.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/parameters.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// State that the layers of a stack share in one pass over a segment.
struct AttentionContext {
  AttentionMask mask;  // mask.query_begin is the length of the memory
  // [memory + time, width]: row d encodes relative position d, if an op requires it
  Variable distances;
  // AttentionOp::first_value of the stack's first layer
  Variable first_value = {};
};

// Encoder output that a decoder stack attends to, with its own length and sharding over the ranks.
// Value type.
struct EncoderOutput {
  Variable rows = {};       // [batch, n, width]: positions of this rank
  SequenceShard time = {};  // layout of all positions
  // [batch] i64: number of positions of each batch row that are not padding. Identical on all ranks
  // that share time. Undefined: no padding.
  Tensor length = {};

  // Returns a context that masks nothing but padding.
  AttentionContext key_context() const {
    return {.mask = {.rules = masks::everything(), .key_length = length}, .distances = {}};
  }
};

// Place of a chunk in the sequence that is read in chunks.
struct ChunkPlacement {
  std::int64_t begin = 0;    // position of the first query, without the memory
  std::int64_t queries = 0;  // of the whole sequence
  std::int64_t keys = 0;     // of the whole sequence, with the memory, or of the encoder output
};
// Returns the place of the current chunk. `keys`: number of keys over all chunks.
ChunkPlacement chunk_placement(const KVCache& chunks, std::int64_t keys);

// Heads and dimensions of a layer's projections: queries and keys [key_heads, key_dim], values and
// the op's output [value_heads, value_dim].
struct ProjectionShape {
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
};

// Projected layer input for this rank's heads. query: [batch, time, heads, dim]; key, value:
// [batch, memory + time, heads, dim]. Ops with supports_grouped_kv receive key and value with the
// model's number of key heads, and those with a projection_shape all with their own.
struct ProjectedQKV {
  Variable query;
  Variable key;
  Variable value;
  ShardRange heads;
  // Projections of global positions, if the op has them.
  struct Global {
    Variable query;
    Variable key;
    Variable value;
  };
  std::optional<Global> global = {};
  // Layout of the rows if context ranks shard the sequence. The tensors then hold this rank's rows.
  std::optional<SequenceShards> shares = {};
  // Cached result of distance_keys; undefined: not computed yet.
  Variable distance_keys = {};
  // Input of the projections at the query positions: [batch, time, width].
  Variable input = {};
  // Set if the rows are a chunk of a sequence: an op with a recurrent state continues from that of
  // the previous chunk.
  LayerKVCache* state = nullptr;
  // Set for training on chunks.
  std::optional<ChunkPlacement> chunk = {};

  // Returns the number of positions of the full sequence, with its memory.
  std::int64_t positions(const AttentionMask& mask) const {
    if (chunk) return chunk->keys;
    return mask.key_begin + (shares ? shares->keys_total : key.shape()[1]);
  }
};

// Returns whether the model mask is causal; otherwise every query attends to every key. For types
// that are not a masked softmax. Throws ConfigurationError for other masks and for a memory; the
// message starts with `kind` and includes `why_no_memory`.
bool is_causal(const AttentionMask& mask,
               const std::string& kind,
               const std::string& why_no_memory);

// Softmax attention of the queries over the keys of all context ranks, shared by all masked softmax
// types. The mask rules use positions of the full sequence.
Variable attend(const ProjectedQKV& input,
                const AttentionMask& mask,
                const AttentionTerms& terms,
                const std::optional<AttentionDropout>& dropout);

// For types that need the full sequence. gather_sequence returns the projections of all positions
// in time order, for a subset of this rank's heads. local_shard converts the result, [batch, time,
// heads of the subset, dim], back. Both return their input without context ranks. Throws
// ConfigurationError if the heads are not divisible by the context ranks.
ProjectedQKV gather_sequence(const ProjectedQKV& input);
Variable local_shard(const Variable& mixed, const ProjectedQKV& input);
// Returns x [batch, own rows, heads] or [batch, own rows, heads, n] as gather_sequence returns the
// projections. An undefined x remains undefined.
Variable gather_heads(const Variable& x, const std::optional<SequenceShards>& shares);
// Returns the positions of all tokens in their documents, [batch, time], from those of this rank's
// tokens (AttentionMask::max_lookback). Undefined if rows have no documents.
Tensor gather_document_positions(const AttentionMask& mask,
                                 const std::optional<SequenceShards>& shares);
// Returns tensor `index` of an op's recurrent state, at the ends of the current chunk.
ChunkBoundaries chunk_state(const ProjectedQKV& input, std::size_t index);

// Attention type of a layer. May own parameters, which it creates in the scope of its layer.
class AttentionOp {
 public:
  virtual ~AttentionOp() = default;
  // Returns whether queries and keys are one projection. ProjectedQKV::key is then the query, and
  // neither memory nor cross-attention is supported.
  virtual bool ties_query_and_key() const { return false; }
  // Returns whether queries and keys are projected. Otherwise ProjectedQKV has neither, and the
  // layer supports only self-attention.
  virtual bool projects_query_and_key() const { return true; }
  // Returns whether values are projected. Otherwise its projections read ProjectedQKV::input, and
  // the layer supports only self-attention.
  virtual bool projects_value() const { return true; }
  // Returns the shape of its projections, if it differs from the model's. Tensor ranks must divide
  // the numbers of heads.
  virtual std::optional<ProjectionShape> projection_shape() const { return std::nullopt; }
  // Returns whether ProjectedQKV::global is required.
  virtual bool projects_global() const { return false; }
  // Returns whether the layer can read a sequence in chunks: it attends to earlier positions only,
  // through cached keys or a recurrent state.
  virtual bool supports_kv_cache() const { return false; }
  // Returns whether several heads may share a head of ProjectedQKV::key. Otherwise there is one key
  // head per head.
  virtual bool supports_grouped_kv() const { return false; }
  // Returns whether it applies the document bounds of the context's mask.
  virtual bool supports_document_mask() const { return false; }
  // Returns whether its chunks continue from a recurrent state (ProjectedQKV::state) instead of
  // keys.
  virtual bool has_recurrent_state() const { return false; }
  // Returns the tensors of its recurrent state by index (chunk_state), if a segment can continue
  // from the state of the stream's previous one.
  virtual std::vector<RecurrentStateSpec> recurrent_states(const Parameters&) const { return {}; }
  // Returns whether RoPE applies to its queries and keys.
  virtual bool rotates() const { return true; }
  // Returns whether QK norm applies to its queries and keys.
  virtual bool supports_qk_norm() const { return true; }
  // Returns whether it gates its output by the layer's input.
  virtual bool gates_output() const { return false; }
  // Returns whether the output of a position depends on the queries of others.
  virtual bool mixes_queries() const { return !supports_kv_cache(); }
  // Returns the max distance of a key that any head of this rank attends to, if bounded. Bounds the
  // KV cache.
  virtual std::optional<std::int64_t> max_distance() const { return std::nullopt; }
  // Returns whether it reads AttentionContext::first_value (value residual, Zhou et al. 2024).
  virtual bool reads_first_value() const { return false; }
  // Returns the values [batch, time, features of this rank] that all layers read, computed from the
  // input of the stack's first layer before any layer runs. Called on that layer only.
  virtual Variable first_value(const ProjectedQKV&,
                               const AttentionContext&,
                               const ForwardContext&) const {
    return {};
  }
  // Returns keys of relative positions, [positions, heads, dim], from the context's encodings.
  // Undefined if it has none.
  virtual Variable distance_keys(const AttentionContext&, const ForwardContext&) const {
    return {};
  }
  // Returns [batch, time, heads, dim].
  virtual Variable operator()(const ProjectedQKV& input,
                              const AttentionContext& context,
                              const ForwardContext& pass) const = 0;
};

// Attention of a sharded sequence over keys that are replicated on every context rank.

// Returns the positions of this rank's keys in the full sequence.
Ranges key_positions(const ProjectedQKV& input);

// Softmax attention of this rank's queries over all of `key` and `value`, [batch, keys, heads,
// dim], which are equal on all context ranks. Each rank's gradient covers only its own queries.
// Dropout draws the same numbers as without sharding.
Variable attend_replicated_keys(const ProjectedQKV& input,
                                const Variable& key,
                                const Variable& value,
                                const std::optional<AttentionDropout>& dropout);

}  // namespace longspan
