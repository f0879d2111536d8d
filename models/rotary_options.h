// The keys of rotary positions.
#pragma once

#include <string>

#include "models/positions.h"

namespace longspan {

// The keys model.rope.*, with what may not be.
void declare_rotary(OptionTable& table,
                    PositionOptions& options,
                    const ModelOptions& common,
                    Sequences sequences);

// What keeps rotary positions from the attention kinds, and from the heads of a stack, as a
// sentence; empty where nothing does or positions are others.
std::string validate_rotary_kinds(const AttentionOptions& attention);
std::string rotary_problem(const PositionOptions& options,
                           const ModelOptions& common,
                           Sequences sequences);

}  // namespace longspan
