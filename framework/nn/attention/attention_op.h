// What turns a layer's input, projected to queries, keys and values, into its output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/autograd/ring_attention.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/parameters.h"

namespace longspan {

// What the layers of a stack share in one pass over a segment.
struct AttentionContext {
  AttentionMask mask;  // mask.query_begin is the memory's length
  Variable distances;  // [memory + time, width]: the encoding of distance d in row d, where a
                       // mechanism asks for it
};

// A layer's input after the projections: this rank's heads. query: [batch, time, heads, dim]; key,
// value: [batch, memory + time, heads, dim], or with as many heads as the model has key heads where
// the mechanism reads shared ones.
struct ProjectedQKV {
  Variable query;
  Variable key;
  Variable value;
  ShardRange heads;
  // By the projections of global positions, where the mechanism has them.
  struct Global {
    Variable query;
    Variable key;
    Variable value;
  };
  std::optional<Global> global = {};
  // Where the rows stand where context ranks share the sequence: then they are this rank's.
  std::optional<SequenceShards> shares = {};
  // What distance_keys of the mechanism has given before; undefined: it is to be asked again.
  Variable distance_keys = {};
  // What was projected, at the queries' positions: [batch, time, width].
  Variable input = {};
  // Where a mechanism that carries a state reads on: tensors [batch, ...] behind the positions that
  // were read before, none at the beginning. It writes those behind these positions.
  std::vector<Tensor>* state = nullptr;

  // Keys of the whole sequence.
  std::int64_t positions() const { return shares ? shares->keys_total : key.shape()[1]; }
};

// Whether the model's own mask is the causal one; otherwise every query sees every key. Throws
// ConfigurationError, which begins with `kind` and says `why_no_memory`, for other masks and for a
// memory: for kinds that are no masked softmax.
bool is_causal(const AttentionMask& mask,
               const std::string& kind,
               const std::string& why_no_memory);

// Attention of the queries over the keys of all context ranks: what every kind that is a masked
// softmax ends with. The mask's rules see positions of the whole sequence.
Variable attend(const ProjectedQKV& input,
                const AttentionMask& mask,
                const AttentionTerms& terms,
                const std::optional<AttentionDropout>& dropout);

// For kinds that need the whole sequence: the projections of all positions, in the order of time,
// of a part of this rank's heads; what the kind makes of them, [batch, time, heads of the part,
// dim], goes back by `local_shard`. Without context ranks they are the input itself. Throws
// ConfigurationError when the heads do not divide by the context ranks.
ProjectedQKV gather_sequence(const ProjectedQKV& input);
Variable local_shard(const Variable& mixed, const ProjectedQKV& input);

// One attention kind. It may own parameters; it is built with the scope of its layer.
class AttentionOp {
 public:
  virtual ~AttentionOp() = default;
  // Whether queries and keys are one projection: Projected::key is then the query, and there is
  // neither memory nor another source to look at.
  virtual bool ties_query_and_key() const { return false; }
  // Whether there are projections to queries and keys; otherwise Projected has neither, and what
  // the layer looks at is itself.
  virtual bool projects_query_and_key() const { return true; }
  // Whether Projected::global is wanted.
  virtual bool projects_global() const { return false; }
  // Whether it can look at keys that were kept, with queries of later positions only.
  virtual bool supports_kv_cache() const { return false; }
  // Whether several heads may read one of Projected::key; otherwise there is one for each.
  virtual bool supports_grouped_kv() const { return false; }
  // Whether it goes by the reach of the context's mask.
  virtual bool supports_document_mask() const { return false; }
  // Whether what it reads on from is a state (Projected::state) and not keys.
  virtual bool has_recurrent_state() const { return false; }
  // The farthest distance of a key that any head of this rank sees, where it knows one: keys that
  // are kept need not reach farther back.
  virtual std::optional<std::int64_t> max_distance() const { return std::nullopt; }
  // Keys of distances, [distances, heads, dim], by the context's encodings; undefined where it has
  // none.
  virtual Variable distance_keys(const AttentionContext&, const ForwardContext&) const {
    return {};
  }
  // [batch, time, heads, dim].
  virtual Variable operator()(const ProjectedQKV& input,
                              const AttentionContext& context,
                              const ForwardContext& pass) const = 0;
};

}  // namespace longspan
