// What tests have the emulated NCCL do.
#pragma once

#include <cstddef>
#include <vector>

namespace emulated_nccl {

// From now on every communicator of this rank reports an error that came about by itself.
void break_links();
// This rank stops for good when it makes its next communicator.
void stop_when_made();
// The next call of this rank that queues something comes back when its communicator is ended.
void block_next_call();
// The next call of this rank is queued after so many questions for its state.
void delay_next_call(int polls);
// The numbers of elements of what this rank has called so far, in order.
const std::vector<std::size_t>& called();

}  // namespace emulated_nccl
