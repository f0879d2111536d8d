#pragma once

#include <cmath>

namespace longspan {

// Drops the sign of a NaN, which is meaningless but printed.
inline double clear_nan_sign(double value) { return std::isnan(value) ? std::abs(value) : value; }

}  // namespace longspan
