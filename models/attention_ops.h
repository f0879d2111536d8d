// Attention of each layer in stacks with absolute or relative positions.
#pragma once

#include "models/positions.h"
#include "models/stack.h"

namespace longspan {

// Creates the attention that model.attention.layer_types selects, by default masked softmax
// attention with a key pattern. segment: as in ModelBuildOptions. stack: scope of parameters that
// all layers share. Throws ConfigurationError for unsupported options.
AttentionOpFactory attention_ops(const Scope& stack,
                                 const ModelOptions& options,
                                 const PositionOptions& positions,
                                 const FamilyTraits& traits,
                                 std::int64_t segment);

}  // namespace longspan
