// Runs compiled kernels instead of their sources as plain C++. LONGSPAN_PTX is the directory of the
// libraries (*.a) that contain their PTX.
#pragma once

#include <span>

#include "tests/support/emulated_cuda/cuda_runtime.h"
#include "tests/support/ptx/program.h"

namespace ptx {

// Runs the blocks of a grid one after another. arguments: addresses of the arguments. Checks that a
// GPU does not have: accesses are aligned, and shared memory is that of the block and initially
// contains NaN. Lanes meet at the same instruction. Copies and warp group products arrive at the
// wait, not before. Factors of products do not change before the wait, and arrived copies are
// visible to them. Reports a violation and aborts.
void run(const cudaLaunchConfig_t& config,
         const Function& kernel,
         std::span<const void* const> arguments);

// Runs the PTX of `kernel`, a function of this program; returns false if LONGSPAN_PTX is not set.
// Aborts if no library contains the kernel.
bool runs_compiled(const cudaLaunchConfig_t& config,
                   const void* kernel,
                   std::span<const void* const> arguments);

}  // namespace ptx
