// An order by chance that takes no memory.
#pragma once

#include <cstdint>

#include "framework/core/random.h"

namespace longspan {

// What stands at place `at` when 0 .. count-1 are shuffled: each once. A Feistel network over as
// many bits as `count` needs, gone through again while its result is none of them (Black and
// Rogaway 2002, "cycle walking"). count: at least 1; at: below it.
std::int64_t shuffled_index(const Random& random, std::int64_t count, std::int64_t at);

}  // namespace longspan
