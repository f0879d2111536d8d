#pragma once

#include <cmath>

#include "framework/core/host_device.h"

namespace longspan {

// Returns log(1 + e^x) without overflow.
template <typename A>
LONGSPAN_HOST_DEVICE A soft_plus(A x) {
  return (x > 0 ? x : A{0}) + std::log1p(std::exp(x > 0 ? -x : x));
}

}  // namespace longspan
