// Whether the tensors of an attention call fit each other, and the plans that it visits.
#pragma once

#include <memory>
#include <vector>

#include "framework/kernels/attention/attention.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan::tile_attention {

// They throw Failure that names the tensor, what was found and what was wanted.
void check(const Attention& a);
void check(const AttentionGradient& g);

void check(const MergeAttention& m);

// Whether a dry device wants the call's operations and nothing else (FlopsOnlyMode).
bool counts_only(const Attention& a);
// What a dry device counts of a backward pass: all that is made, and what of it the forward pass
// has been counted for already.
void count_backward(DeviceState& device, const Attention& forward);

// The plan of each head of a call.
std::vector<std::shared_ptr<const TilePlan>> plans_of(const Attention& a);

}  // namespace longspan::tile_attention
