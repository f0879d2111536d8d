// Private to framework/autograd.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// [rows, width], the leading axes flattened.
inline Tensor matrix(const Tensor& x) { return x.reshape({x.shape().rows(), x.shape().width()}); }

}  // namespace longspan
