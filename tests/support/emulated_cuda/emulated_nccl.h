// Controls of the emulated NCCL, for tests.
#pragma once

#include <cstddef>
#include <vector>

namespace emulated_nccl {

// All communicators of this rank report an asynchronous error.
void break_links();
// This rank stops (SIGSTOP) when it creates its next communicator.
void stop_when_made();
// The next call of this rank that queues work returns when its communicator is aborted.
void block_next_call();
// The next call of this rank is queued after `polls` queries of its state.
void delay_next_call(int polls);
// Element counts of the calls of this rank so far, in order.
const std::vector<std::size_t>& called();

}  // namespace emulated_nccl
