// Copies rows of a checkpoint's full table into a rank's shard of a model's table.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoints/training_state.h"

namespace longspan {

// Returns 0, 1, ..., count - 1.
std::vector<std::int64_t> same_rows(std::int64_t count);

// Sets row i of the model's table to row rows[i] of `table`, or leaves it unchanged if rows[i] is
// -1. `table`: f32 or f64, on the host. `piece`: this rank's shard of the table, a box of its rows
// and columns (f32 or f64, on any device).
void gather_rows(const Tensor& table,
                 const std::vector<std::int64_t>& rows,
                 const StateTensor& piece);

}  // namespace longspan
