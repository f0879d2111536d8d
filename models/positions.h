// How a stack knows where its tokens stand: by absolute positions, which are added to their
// embeddings, or by distances, which attention sees.
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
  learned,             // a table
  relative,            // Shaw et al. 2018
  relative_key,        // the same without values (BERT)
  relative_key_query,  // and with keys times distances (Huang et al. 2020)
  relative_bias,       // a number for each bucket of distances (Raffel et al. 2020)
  alibi,               // Press et al. 2022
  rotary               // Su et al. 2021
};

struct PositionOptions {
  PositionEmbeddingType kind = PositionEmbeddingType::sinusoidal;
  std::optional<std::int64_t> longest = {};  // rows of a learned table; none: as many positions as
                                             // the training data's sequences have
  std::int64_t first = 0;  // the row of a learned table that the first position has
  std::int64_t relative_max_distance = 16;  // farther distances count as this one
  std::int64_t buckets = 32;                // of distances that share a bias
  RotaryOptions rope = {};

  // Rows of a learned table, where the training data's sequences have so many positions.
  std::int64_t rows(std::int64_t segment) const { return longest.value_or(segment); }
  bool learned() const { return kind == PositionEmbeddingType::learned; }
  // By distances, which attention sees; otherwise they are added to the embeddings.
  bool is_relative() const {
    return has_tables() || biased() || kind == PositionEmbeddingType::alibi || rotary();
  }
  bool rotary() const { return kind == PositionEmbeddingType::rotary; }
  bool biased() const { return kind == PositionEmbeddingType::relative_bias; }
  // Whether what was read can be kept: nothing that comes later changes it.
  bool supports_kv_cache() const { return !rotary() || !rope.by_length(); }
  bool has_tables() const {
    return kind == PositionEmbeddingType::relative || kind == PositionEmbeddingType::relative_key ||
           kind == PositionEmbeddingType::relative_key_query;
  }
};

// The keys model.position_embedding_type, model.max_position_embeddings,
// model.position_embedding_offset, model.relative_attention_max_distance,
// model.relative_attention_num_buckets and model.rope.*.
void declare(OptionTable& table,
             PositionOptions& options,
             const ModelOptions& common,
             Sequences sequences,
             const PlannedBuildOptions& planned);

// What keeps positions by distance from the attention kinds of a stack or from its heads, as a
// sentence; empty where nothing does.
std::string distances_problem(const PositionOptions& options, const ModelOptions& common);
// What keeps a stack with these options from sequences of `segment` positions (0: of any length),
// as a sentence; empty where nothing does.
std::string positions_problem(const PositionOptions& options,
                              const ModelOptions& common,
                              Sequences sequences,
                              std::int64_t segment);

// What the first layer reads of tokens. A value.
class PositionEmbedding {
 public:
  // Makes "positions/weight" [first + longest, width] where positions are learned.
  PositionEmbedding(const Scope& scope,
                    const PositionOptions& options,
                    const ModelOptions& common,
                    const ModelBuildOptions& setting);
  // scale * the embeddings of `tokens` [batch, time], with their positions where these are
  // absolute: [batch, time, width] of the positions that `pass` gives this rank. `places` [batch,
  // time] i64 (may be undefined): which positions those are, where rows have their own. Throws
  // Failure where they are more than a learned table has.
  Variable embed(const TokenEmbedding& embedding,
                 const Tensor& tokens,
                 double scale,
                 const ForwardContext& pass,
                 const Tensor& places = {}) const;
  // The longest sequence; 0: any.
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

// Makes "positions/weight" [first + longest, width] in the scope of a layer, and what adds its rows
// to the layer's input (Al-Rfou et al. 2018): Layer::enter. It throws Failure as Positions::embed
// does.
std::function<Variable(const Variable& x, const ForwardContext& pass)> layer_positions(
    const Scope& layer,
    const PositionOptions& options,
    const ModelOptions& common,
    const ModelBuildOptions& setting);

// Of a layer's attention to its own sequence, but for what its stack has; empty where positions are
// absolute.
RelativeTerms distance_terms(const Scope& attention,
                             const PositionOptions& options,
                             const ModelOptions& common);

// What the layers of a stack have together; nothing where positions are not relative_bias.
// `causal`: no position sees a later one.
std::optional<RelativePositionBias> distance_bias(const Scope& stack,
                                                  const PositionOptions& options,
                                                  const ModelOptions& common,
                                                  bool causal);

// Of the same: what turns its queries and keys; nothing where positions are not rotary.
std::optional<Rotary> rotary_of(const PositionOptions& options,
                                const ModelOptions& common,
                                const ModelBuildOptions& setting);

}  // namespace longspan
