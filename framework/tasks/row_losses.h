// The losses of a pass of a measurement, as numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/modeling/model.h"

namespace longspan {

// Of the first term: of each row, those of this rank's positions.
std::vector<double> row_losses(const Losses& losses);

// Throws ConfigurationError where the model cannot read so many tokens in one pass.
void check_segment(const Model& model, std::int64_t tokens);

}  // namespace longspan
