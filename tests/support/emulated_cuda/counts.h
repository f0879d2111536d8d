// Counts of calls to the emulated device.
#pragma once

namespace emulated_cuda {

struct Counts {
  int blocks = 0;  // device or pinned memory, allocated or freed
  int waits = 0;   // by the host: explicit, and copies of memory that is not pinned
  int copies_to_host = 0;
  int copies_to_device = 0;
  int kernels = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
};

Counts counts();
void count(int Counts::*which);

}  // namespace emulated_cuda
