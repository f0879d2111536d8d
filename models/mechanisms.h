// The attention of each layer of a stack whose positions are absolute or relative by Shaw et al.
#pragma once

#include "models/positions.h"
#include "models/stack.h"

namespace longspan {

// By model.attention: a mechanism of its own, or else a masked softmax over the keys of a pattern.
// segment: as in ModelSetting. Throws ConfigurationError where the options cannot be.
MechanismFactory mechanisms(const ModelOptions& options,
                            const PositionOptions& positions,
                            const FamilyTraits& traits,
                            std::int64_t segment);

}  // namespace longspan
