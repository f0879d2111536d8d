// An attention kind that is no masked softmax over the keys of a pattern, but mathematics of its
// own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/nn/attention/attention_op.h"

namespace longspan {

struct AttentionOptions;  // kinds.h
struct AttentionBuildOptions;

struct AttentionKind {
  std::string name;                // in model.attention.layer_types
  std::string sees;                // for the reference
  std::string alone;               // why a layer has nothing else, as a part of a sentence
  std::vector<std::string> keys;   // that it reads, of the section model
  bool supports_kv_cache = false;  // whether its mechanism does
  bool knows_distances = false;    // whether it goes with relative positions
  bool turns = false;        // whether it goes with rotary ones: its scores are of one query and
                             // one key, and grow with their product
  bool own_weights = false;  // whether a layer has other weights than a causal one
  bool has_probabilities = true;  // which model.attention.dropout drops
  // Positions of the longest sequence that its weights are for, where the training data's has so
  // many; null: of any.
  std::int64_t (*longest)(const AttentionOptions&, std::int64_t segment) = nullptr;
  // What keeps it from a model like this, as a sentence; empty, or null, where nothing does.
  // Memory, padding and what is not causal are its to refuse.
  std::string (*problem)(const AttentionOptions&, const AttentionBuildOptions&) = nullptr;
  // In the scope of a layer's attention; never null. Throws ConfigurationError with `problem`.
  std::unique_ptr<AttentionOp> (*make)(const Scope& attention,
                                       const AttentionOptions&,
                                       const AttentionBuildOptions&) = nullptr;
};

// What forbids a kind that needs whole sequences, each with a part of the heads where context ranks
// share time, as a sentence; empty where nothing does.
std::string whole_heads_problem(const std::string& kind, std::int64_t heads, const MeshShape& mesh);

// As is_causal, for kinds that know padding by lengths alone. Throws ConfigurationError, with the
// kind's name, for other padding too.
bool is_causal_only(const AttentionMask& mask, const std::string& kind);

}  // namespace longspan
