// Products of all pairs of two rows' elements as a recorded op (kernels/outer_rows.h).
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"

namespace longspan {

// y[..., q a + p] = x[..., p] z[..., q], the first `count` of them. x: [..., a]; z: [..., c].
Variable outer_rows(const Variable& x, const Variable& z, std::int64_t count);

}  // namespace longspan
