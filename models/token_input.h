// What the first layer of a stack reads of tokens.
#pragma once

#include "models/positions.h"

namespace longspan {

struct InputOptions {
  bool scaled = true;            // embeddings are multiplied by the root of the width
  bool norm = false;             // of the sum
  std::int64_t token_types = 0;  // rows of a table of types; 0: there is none

  double scale(std::int64_t width) const;
};

// The keys model.scale_embedding and model.layernorm_embedding.
void declare(OptionTable& table, InputOptions& options);
// The key model.type_vocab_size.
void declare_token_types(OptionTable& table, InputOptions& options);

// A value.
class TokenInput {
 public:
  // Makes what Positions makes and, where they are asked for, "token_types/weight" [types, width]
  // and an "embedding_norm".
  TokenInput(const Scope& scope,
             const InputOptions& options,
             const PositionOptions& positions,
             const ModelOptions& common,
             const ModelBuildOptions& setting);

  // The embeddings of `tokens` [batch, time] with their positions and what else the options add,
  // dropped: [batch, time, width] of the positions that `pass` gives this rank. Every token is of
  // the first type. `beside` [batch, time, width] is added to the embeddings; it may be undefined.
  // `length`: as Norm has it. Throws Failure as Positions::embed does.
  Variable operator()(const TokenEmbedding& embedding,
                      const Tensor& tokens,
                      const ForwardContext& pass,
                      const Tensor& length,
                      const Variable& beside = {}) const;
  // As Positions::longest.
  std::int64_t longest() const { return positions_.longest(); }

 private:
  double scale_;
  double dropout_;
  PositionEmbedding positions_;
  Weight types_;
  std::optional<Norm> norm_;
};

}  // namespace longspan
