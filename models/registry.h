// Registry of model families, by name.
#pragma once

#include <span>

#include "framework/modeling/family.h"

namespace longspan {

// In the order of the help. Each family is one line of the list.
std::span<const Family> families();

}  // namespace longspan
