// Masks recurrent state that a row can no longer attend to, and rows with several episodes.
#pragma once

#include <optional>

#include "framework/kernels/attention/attention.h"
#include "framework/modeling/model_input.h"

namespace longspan {

// Returns 1 for keys of the recurrent state from before the start of the row's current sequence,
// given by the field `earlier`. u8 [rows, state length + time], on the device, equal on all ranks
// that share the rows. Undefined where rows attend to the whole state, or where separate_episodes
// applies.
Tensor expired_keys(const ModelInput& reading, const Device& device);

// Returns the episode mask of all positions for `heads` heads, on the device, equal on all ranks
// that share the rows. The field `episodes` [rows, time] counts the episodes of a row from 0;
// positions attend only to their own episode. Recurrent state belongs to episode 0, which attends
// to at most `earlier` of its positions. nullopt where the field is absent.
std::optional<SortedSequence> separate_episodes(const ModelInput& reading,
                                                std::int64_t heads,
                                                const Device& device);

}  // namespace longspan
