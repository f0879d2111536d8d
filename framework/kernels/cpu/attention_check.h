// Whether the tensors of an attention call fit each other.
#pragma once

#include "framework/kernels/attention.h"

namespace longspan::tile_attention {

// Both throw Failure that names the tensor, what was found and what was wanted.
void check(const Attention& a);
void check(const AttentionGradient& g);

}  // namespace longspan::tile_attention
