// How many pairs of a query and a key a mask lets through: what the work of a model is counted by.
// No lists are kept, so a sequence may be of any length.
#pragma once

#include <cstdint>

#include "framework/core/device.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan {

// Takes time in proportion to the stretches of keys that a tile of queries sees within one period
// of the mask, where it has one (all rules but lists of positions, block maps and images have), and
// otherwise to all stretches.
std::int64_t count_pairs(const Mask& mask, const PlanShape& shape);

// The same, kept with the device: counted on first use.
std::int64_t count_pairs(DeviceState& device, const Mask& mask, const PlanShape& shape);

}  // namespace longspan
