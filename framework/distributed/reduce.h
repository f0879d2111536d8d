// Element-wise reduction of several ranks' elements. Private to framework/distributed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "framework/distributed/communicator.h"

namespace longspan {

// outputs[j][i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ...; the accumulator of bf16
// and f16 is f32, rounded once. An output may be one of the sources, element for element. Sums of
// integers wrap around.
void reduce_in_order(DType dtype,
                     Reduction reduction,
                     std::span<const std::byte* const> sources,
                     std::span<std::byte* const> outputs,
                     std::int64_t elements);

}  // namespace longspan
