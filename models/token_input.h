// Input of a stack's first layer.
#pragma once

#include "framework/modeling/backbone.h"
#include "framework/nn/embedding.h"
#include "models/positions.h"

namespace longspan {

struct InputOptions {
  bool scaled = true;            // multiply embeddings by the square root of the width
  bool norm = false;             // of the sum
  std::int64_t token_types = 0;  // rows of a token type table; 0: no table

  double scale(std::int64_t width) const;
};

// Declares the keys model.scale_embedding and model.layernorm_embedding.
void declare(OptionTable& table, InputOptions& options);
// Declares the key model.type_vocab_size.
void declare_token_types(OptionTable& table, InputOptions& options);

// Value type.
class TokenInput {
 public:
  // Creates the parameters of PositionEmbedding and, as configured, "token_types/weight" [types,
  // width] and an "embedding_norm".
  TokenInput(const Scope& scope,
             const InputOptions& options,
             const PositionOptions& positions,
             const ModelOptions& common,
             const ModelBuildOptions& setting);

  // Returns the embeddings of `tokens` [batch, time] with their positions and the configured
  // additions, after dropout: [batch, time, width] of this rank's positions of `pass`. Every token
  // has the first type. The last argument [batch, time, width] is added to the embeddings; it may
  // be undefined. `length`: as for Norm. Throws Failure as PositionEmbedding::embed does.
  Variable operator()(const TokenEmbedding& embedding,
                      const Tensor& tokens,
                      const ForwardContext& pass,
                      const Tensor& length,
                      const Variable& extra = {}) const;
  // As PositionEmbedding::longest.
  std::int64_t longest() const { return positions_.longest(); }

 private:
  double scale_;
  double dropout_;
  PositionEmbedding positions_;
  Weight types_;
  std::optional<Norm> norm_;
};

// Fields: `previous_action` [rows, time] i64, negative if none, embedded with the table
// "previous_action"; `reward` [rows, time] f64, multiplied by a vector "reward".
class PreviousActionInputs {
 public:
  PreviousActionInputs(const Scope& scope,
                       std::int64_t width,
                       const Initializer& initial,
                       const ModelBuildOptions& setting);

  // Returns x [rows, time, width], the embedded observations, plus both inputs. scale: of the
  // table's rows.
  Variable operator()(const Variable& x,
                      const ModelInput& reading,
                      double scale,
                      const SequenceShard& time) const;

 private:
  // [rows, positions, 1] of this rank's positions outside split regions.
  Variable rewards(const ModelInput& reading, const SequenceShard& time) const;

  Device device_;
  DType compute_;
  TokenEmbedding action_;
  Linear reward_;
};

}  // namespace longspan
