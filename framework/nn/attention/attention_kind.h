// Attention type with its own computation, not a masked softmax over the keys of a pattern, or
// layer type in place of attention.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/nn/attention/attention_op.h"

namespace longspan {

struct AttentionOptions;  // attention_kinds.h
struct AttentionBuildOptions;
class TokenMixer;  // token_mixer.h

struct AttentionKind {
  std::string name;  // value in model.attention.layer_types
  std::string sees;  // keys it attends to, for the reference
  // clause of a message: why a layer cannot combine it with other types
  std::string alone;
  bool supports_kv_cache = false;   // as AttentionOp::supports_kv_cache
  bool supports_documents = false;  // as AttentionOp::supports_document_mask
  bool knows_distances = false;     // supports relative positions
  // supports RoPE: scores depend on one query and one key, and increase with their product, or the
  // type ignores it (AttentionOp::rotates)
  bool turns = false;
  bool own_weights = false;       // its weights differ from those of a causal layer
  bool has_probabilities = true;  // has probabilities, to which model.attention.dropout applies
  // Returns the longest sequence its weights support, if training sequences have `segment`
  // positions. Null: any length.
  std::int64_t (*longest)(const AttentionOptions&, std::int64_t segment) = nullptr;
  // Returns the reason why a model does not support it. Empty, or null function: supported. Memory,
  // padding and non-causal masks must be rejected here.
  std::string (*problem)(const AttentionOptions&, const AttentionBuildOptions&) = nullptr;
  // Creates the op in the scope of a layer's attention; never null. Throws ConfigurationError with
  // the message of `problem`.
  std::unique_ptr<AttentionOp> (*make)(const Scope& attention,
                                       const AttentionOptions&,
                                       const AttentionBuildOptions&) = nullptr;
  // Set instead of `make`: creates what replaces the layer's attention, projections included.
  std::unique_ptr<TokenMixer> (*make_mixer)(const Scope& attention,
                                            const AttentionOptions&,
                                            const AttentionBuildOptions&) = nullptr;
};

// Returns the reason why the model does not support a type that needs full sequences, with the
// heads split over context ranks. Otherwise empty.
std::string validate_head_sharding(const std::string& kind,
                                   std::int64_t heads,
                                   const MeshShape& mesh);

// As is_causal, for types that support padding only as lengths. Throws ConfigurationError for other
// padding too, with the name of the type.
bool is_causal_only(const AttentionMask& mask, const std::string& kind);

}  // namespace longspan
