// Number of query-key pairs that a mask allows, the basis of FLOP counts. Stores no tile lists, so
// sequences may be arbitrarily long.
#pragma once

#include <cstdint>

#include "framework/core/device.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan {

// Takes time proportional to the key ranges visible to a tile of queries within one period of the
// mask. Lists of positions, block maps and images have no period; for them the time is proportional
// to all key ranges.
std::int64_t count_pairs(const Mask& mask, const PlanShape& shape);

// Counts on first use and caches the result in the device state.
std::int64_t count_pairs(DeviceState& device, const Mask& mask, const PlanShape& shape);

}  // namespace longspan
