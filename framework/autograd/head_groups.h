// Key heads shared by several query heads.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// Repeats each head `times` times in succession. x: [batch, time, heads, dim]. Returns [batch,
// time, times * heads, dim], or x if times = 1.
Variable repeat_kv(const Variable& x, std::int64_t times);

}  // namespace longspan
