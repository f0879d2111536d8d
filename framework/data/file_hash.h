// Hash of every byte of a file.
#pragma once

#include <cstdint>

#include "framework/core/input_file.h"
#include "framework/data/progress.h"

namespace longspan {

// Returns XXH3 of the file, in one read. Throws what the listener throws.
std::uint64_t hash_of_file(const InputFile& file, const ProgressCallback& listener = {});

}  // namespace longspan
