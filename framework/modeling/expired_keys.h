// Which of what rows carry they do not see any more, and where several episodes follow one another.
#pragma once

#include <optional>

#include "framework/kernels/attention/attention.h"
#include "framework/modeling/model_input.h"

namespace longspan {

// 1 where a key is carried of before what its row is a part of now began, by the field `earlier`.
// u8 [rows, carried length + time], on the device, the same on all ranks that share the rows.
// Undefined where rows see all that they carry, or separate_episodes says it.
Tensor expired_keys(const ModelInput& reading, const Device& device);

// By the field `episodes` [rows, time], which counts those of a row from 0: positions see their own
// alone, what is carried belongs to episode 0, and of it no more than `earlier` positions. Of all
// positions and so many heads, on the device, the same on all ranks that share the rows. Nothing
// where there is no such field.
std::optional<SortedSequence> separate_episodes(const ModelInput& reading,
                                                std::int64_t heads,
                                                const Device& device);

}  // namespace longspan
