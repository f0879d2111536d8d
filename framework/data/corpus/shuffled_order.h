// A random permutation in constant memory.
#pragma once

#include <cstdint>

#include "framework/core/random.h"

namespace longspan {

// Returns element `at` of a random permutation of 0 .. count - 1. A Feistel network over the bits
// of `count`, iterated until the result is in range (cycle walking, Black and Rogaway 2002).
// Requires count >= 1 and at < count.
std::int64_t shuffled_index(const Random& random, std::int64_t count, std::int64_t at);

}  // namespace longspan
