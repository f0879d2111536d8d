// Key heads that several query heads share.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// x: [batch, time, heads, dim]; result: [batch, time, times heads, dim], each head so many times in
// a row. With times = 1 it is x.
Variable repeat_kv(const Variable& x, std::int64_t times);

}  // namespace longspan
