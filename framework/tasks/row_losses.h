// Losses of an evaluation pass on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/modeling/model.h"

namespace longspan {

// Returns the first term's losses of each row at this rank's positions.
std::vector<double> row_losses(const Losses& losses);

// Throws ConfigurationError if the model does not support `tokens` tokens per pass.
void check_segment(const Model& model, std::int64_t tokens);

}  // namespace longspan
