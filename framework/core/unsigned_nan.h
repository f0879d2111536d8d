#pragma once

#include <cmath>

namespace longspan {

// The sign of a value that is no number says nothing, and is printed.
inline double clear_nan_sign(double value) { return std::isnan(value) ? std::abs(value) : value; }

}  // namespace longspan
