// What has been asked of the emulated device so far, by number.
#pragma once

namespace emulated_cuda {

struct Counts {
  int blocks = 0;  // of memory, the device's or pinned, taken or given back
  int waits = 0;   // of the host: those asked for, and copies of memory that is not pinned
  int copies_to_host = 0;
  int copies_to_device = 0;
  int kernels = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
};

Counts counts();
void count(int Counts::*which);

}  // namespace emulated_cuda
