// Numbers for the host to compute with.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// A copy of x, of any floating dtype and device, in f64 on the host.
Tensor to_host_f64(const Tensor& x);

}  // namespace longspan
