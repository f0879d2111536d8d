// Numbers of bytes as people read them.
#pragma once

#include <string>

namespace longspan {

// "1.25 GB", "12.3 MB", "4.1 kB", "12 bytes": powers of ten.
std::string format_bytes(double bytes);

}  // namespace longspan
