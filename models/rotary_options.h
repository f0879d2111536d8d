// Configuration keys of rotary position embeddings (RoPE).
#pragma once

#include <string>

#include "models/positions.h"

namespace longspan {

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
