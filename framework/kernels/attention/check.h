// Validation of attention calls, and the plans that they visit.
#pragma once

#include <memory>
#include <vector>

#include "framework/kernels/attention/attention.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan::tile_attention {

// Throw Failure that names the tensor, the expected shape or dtype, and the one found.
void check(const Attention& a);
void check(const AttentionGradient& g);

void check(const MergeAttention& m);

// Whether a dry device should only count the call's operations (FlopsOnlyMode).
bool counts_only(const Attention& a);
// Adds the backward pass to the operation count of a dry device: all operations performed, and how
// many of them recompute the forward pass.
void count_backward(DeviceState& device, const Attention& forward);

// Returns the plan of each head of a call.
std::vector<std::shared_ptr<const TilePlan>> plans_of(const Attention& a);

}  // namespace longspan::tile_attention
