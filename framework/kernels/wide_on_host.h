// Conversion of tensors for computation on the host.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Returns a copy of x, of any floating dtype and device, in f64 on the host.
Tensor to_host_f64(const Tensor& x);

}  // namespace longspan
