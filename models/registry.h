// The families, by name.
#pragma once

#include <span>

#include "framework/modeling/family.h"

namespace longspan {

// In the order of the help. A new family is a line here.
std::span<const Family> families();

}  // namespace longspan
