// CUDA's libraries, opened on first use so that CPU-only programs run without them.
#pragma once

#include <string>

namespace longspan {

// Opens a library such as "libcublasLt.so.13" with dlopen(). Searches the directories of
// LONGSPAN_CUDA_LIBRARIES (separated by colons), the system loader's path, `toolkit` (its directory
// at build time), and the usual toolkit location. Throws Failure where none has it; `purpose`, such
// as "matrix products on a GPU", begins the message. The library stays open, since the driver may
// use its kernels until the process ends.
void* open_cuda_library(const std::string& name,
                        const std::string& purpose,
                        const std::string& toolkit);

}  // namespace longspan
