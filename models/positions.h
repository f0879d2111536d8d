// Position encodings of a stack: absolute ones, added to embeddings, or relative ones, used by
// attention.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/rotary.h"
#include "models/model_options.h"

namespace longspan {

enum class PositionEmbeddingType : std::uint8_t {
  sinusoidal,          // Vaswani et al. 2017
  learned,             // learned table
  relative,            // Shaw et al. 2018
  relative_key,        // as `relative`, without values (BERT)
  relative_key_query,  // as `relative_key`, with key-position products as well (Huang et al. 2020)
  relative_bias,       // a bias per bucket of relative positions (Raffel et al. 2020)
  alibi,               // Press et al. 2022
  rotary               // Su et al. 2021
};

struct PositionOptions {
  PositionEmbeddingType kind = PositionEmbeddingType::sinusoidal;
  std::optional<std::int64_t> longest = {};  // rows of a learned table; none: the sequence length
                                             // of the training data
  std::int64_t first = 0;                    // offset of the first position in a learned table
  std::int64_t relative_max_distance = 16;   // relative positions are clipped to it
  std::int64_t buckets = 32;                 // number of relative position buckets
  RotaryOptions rope = {};

  // Returns the rows of a learned table, given the sequence length of the training data.
  std::int64_t rows(std::int64_t segment) const { return longest.value_or(segment); }
  bool learned() const { return kind == PositionEmbeddingType::learned; }
  // Whether attention uses relative positions. Otherwise positions are added to the embeddings.
  bool is_relative() const {
    return has_tables() || biased() || kind == PositionEmbeddingType::alibi || rotary();
  }
  bool rotary() const { return kind == PositionEmbeddingType::rotary; }
  bool biased() const { return kind == PositionEmbeddingType::relative_bias; }
  // Whether earlier keys and values are independent of later input, so that they can be cached.
  bool supports_kv_cache() const { return !rotary() || !rope.by_length(); }
  bool has_tables() const {
    return kind == PositionEmbeddingType::relative || kind == PositionEmbeddingType::relative_key ||
           kind == PositionEmbeddingType::relative_key_query;
  }
};

// Declares the keys model.position_embedding_type, model.max_position_embeddings,
// model.position_embedding_offset, model.relative_attention_max_distance,
// model.relative_attention_num_buckets and model.rope.*.
void declare(OptionTable& table,
             PositionOptions& options,
             const ModelOptions& common,
             Sequences sequences,
             const PlannedBuildOptions& planned);

// Returns why the attention types or heads of a stack do not support relative positions; empty if
// they do.
std::string validate_distances(const PositionOptions& options, const ModelOptions& common);
// Returns why a stack with these options does not support sequences of `segment` positions (0: any
// length); empty if it does.
std::string validate_positions(const PositionOptions& options,
                               const ModelOptions& common,
                               Sequences sequences,
                               std::int64_t segment);

// Embedding of tokens and absolute positions. Value type.
class PositionEmbedding {
 public:
  // Creates "positions/weight" [first + longest, width] for learned positions.
  PositionEmbedding(const Scope& scope,
                    const PositionOptions& options,
                    const ModelOptions& common,
                    const ModelBuildOptions& setting);
  // Returns scale * the embeddings of `tokens` [batch, time], plus absolute positions if any:
  // [batch, time, width] of this rank's positions of `pass`. `places` [batch, time] i64 (may be
  // undefined) gives positions per row. Throws Failure where positions exceed a learned table.
  Variable embed(const TokenEmbedding& embedding,
                 const Tensor& tokens,
                 double scale,
                 const ForwardContext& pass,
                 const Tensor& places = {}) const;
  // The longest sequence; 0: unlimited.
  std::int64_t longest() const { return table_ ? table_->global_shape[0] - first_ : 0; }

 private:
  Variable rows_of(const Tensor& places, const ForwardContext& pass) const;

  bool by_distance_;
  std::int64_t first_;
  std::int64_t width_;
  DType compute_;
  Device device_;
  Weight table_;
};

// Creates "positions/weight" [first + longest, width] in the scope of a layer. Returns the function
// that adds its rows to the layer's input (Al-Rfou et al. 2018): Layer::enter. It throws Failure as
// PositionEmbedding::embed does.
std::function<Variable(const Variable& x, const ForwardContext& pass)> layer_positions(
    const Scope& layer,
    const PositionOptions& options,
    const ModelOptions& common,
    const ModelBuildOptions& setting);

// Returns the relative position terms of a layer's self-attention, without those that the stack
// shares. Empty for absolute positions.
RelativeTerms distance_terms(const Scope& attention,
                             const PositionOptions& options,
                             const ModelOptions& common);

// Returns the bias that the layers of a stack share; nullopt unless positions are relative_bias.
// causal: no position attends to a later one.
std::optional<RelativePositionBias> distance_bias(const Scope& stack,
                                                  const PositionOptions& options,
                                                  const ModelOptions& common,
                                                  bool causal);

// Returns the rotary embedding of queries and keys; nullopt unless positions are rotary.
std::optional<Rotary> rotary_of(const PositionOptions& options,
                                const ModelOptions& common,
                                const ModelBuildOptions& setting);

// Configuration keys of rotary position embeddings (RoPE).

// Declares the keys model.rope.* and their constraints.
void declare_rotary(OptionTable& table,
                    PositionOptions& options,
                    const ModelOptions& common,
                    Sequences sequences);

// Returns why the attention types or heads of a stack do not support rotary positions; empty if
// they do, and for other positions.
std::string validate_rotary_kinds(const AttentionOptions& attention);
std::string validate_rotary(const PositionOptions& options,
                            const ModelOptions& common,
                            Sequences sequences);

}  // namespace longspan
