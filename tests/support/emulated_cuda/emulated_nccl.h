// What tests have the emulated NCCL do.
#pragma once

namespace emulated_nccl {

// From now on every communicator of this rank reports an error that came about by itself.
void break_links();
// This rank stops for good when it makes its next communicator.
void stop_when_made();

}  // namespace emulated_nccl
