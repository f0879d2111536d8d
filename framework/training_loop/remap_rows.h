// A whole table of a checkpoint, row by row into what a rank has of a table of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoints/training_state.h"

namespace longspan {

// 0, 1, ..., count - 1.
std::vector<std::int64_t> same_rows(std::int64_t count);

// Row i of the model's table becomes row rows[i] of `table`, f32 or f64 on the host; where that is
// -1 it stays as it is. `piece`: what this rank has of the table, f32 or f64 on any device: a box
// of its rows and columns.
void gather_rows(const Tensor& table,
                 const std::vector<std::int64_t>& rows,
                 const StateTensor& piece);

}  // namespace longspan
