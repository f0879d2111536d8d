// The backend of a kernel with one body for both: each source in a folder `shared` is compiled for
// `Cpu`, and by the CUDA compiler for `Cuda` (longspan_kernel_files in CMake). Its functions take
// a `Backend`, and run over elements and rows by the functions that loops.h and launch.h share.
#pragma once

#ifdef LONGSPAN_BACKEND_CUDA
#include "framework/kernels/cuda/launch.h"
#else
#include "framework/kernels/cpu/loops.h"
#endif

namespace longspan {

#ifdef LONGSPAN_BACKEND_CUDA
using Backend = Cuda;
#else
using Backend = Cpu;
#endif

}  // namespace longspan
