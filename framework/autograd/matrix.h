// Private to framework/autograd.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Returns [rows, width] with the leading axes flattened.
inline Tensor matrix(const Tensor& x) { return x.reshape({x.shape().rows(), x.shape().width()}); }

}  // namespace longspan
