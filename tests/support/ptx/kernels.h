// Runs kernels as the compiler left them instead of their files as plain C++: where LONGSPAN_PTX
// names a folder, in whose libraries (*.a) the compiler's text of them is.
#pragma once

#include <span>

#include "tests/support/emulated_cuda/cuda_runtime.h"
#include "tests/support/ptx/program.h"

namespace ptx {

// Runs the blocks of a grid one after another; at `arguments` stands what the kernel is called
// with. Checked beyond what a GPU checks: memory is aligned, shared memory of the block, and full
// of NaN when a block starts; lanes that meet are at the same instruction; what copies bring is
// there when they have been waited for, and not before; products of warp groups likewise, whose
// factors do not change meanwhile and are shown what copies brought. Says what is wrong and ends
// the program.
void run(const cudaLaunchConfig_t& config,
         const Function& kernel,
         std::span<const void* const> arguments);

// Runs `kernel`, a function of this program, so; false where LONGSPAN_PTX is not set. A kernel that
// is in none of the libraries ends the program.
bool runs_compiled(const cudaLaunchConfig_t& config,
                   const void* kernel,
                   std::span<const void* const> arguments);

}  // namespace ptx
