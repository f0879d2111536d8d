// The attention of each layer of a stack whose positions are absolute or by distance.
#pragma once

#include "models/positions.h"
#include "models/stack.h"

namespace longspan {

// By model.attention.layer_types: a mechanism of its own, or else a masked softmax over the keys of
// a pattern. segment: as in ModelBuildOptions. `stack`: where what all layers have together is
// made. Throws ConfigurationError where the options cannot be.
AttentionOpFactory attention_ops(const Scope& stack,
                                 const ModelOptions& options,
                                 const PositionOptions& positions,
                                 const FamilyTraits& traits,
                                 std::int64_t segment);

}  // namespace longspan
