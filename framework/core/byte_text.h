// Human-readable byte counts.
#pragma once

#include <string>

namespace longspan {

// Returns "1.25 GB", "12.3 MB", "4.1 kB" or "12 bytes": powers of ten.
std::string format_bytes(double bytes);

}  // namespace longspan
