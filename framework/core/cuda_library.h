// CUDA's own libraries, opened when they are needed: a program that only ever sees CPUs does
// without them.
#pragma once

#include <string>

namespace longspan {

// dlopen() of a library, such as "libcublasLt.so.13": in the folders of the environment variable
// LONGSPAN_CUDA_LIBRARIES (separated by colons), where the system's loader looks, in
// `toolkit` (the folder it was in when this was built), and in the usual place of a toolkit.
// `purpose` begins the message of the Failure where it is in none: "matrix products on a GPU".
// It stays open, since the driver may hold kernels of it until the process ends.
void* open_cuda_library(const std::string& name,
                        const std::string& purpose,
                        const std::string& toolkit);

}  // namespace longspan
