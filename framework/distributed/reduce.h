// Element-wise reduction over ranks. Private to framework/distributed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "framework/distributed/communicator.h"

namespace longspan {

// Computes outputs[j][i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ...; bf16 and f16
// accumulate in f32 and are rounded once. An output may alias one of the sources exactly. Integer
// sums wrap around.
void reduce_in_order(DType dtype,
                     Reduction reduction,
                     std::span<const std::byte* const> sources,
                     std::span<std::byte* const> outputs,
                     std::int64_t elements);

}  // namespace longspan
