// Device of device-independent tests: the CPU, or a GPU if the environment variable
// LONGSPAN_TEST_DEVICE is "cuda".
#pragma once

#include <cstdlib>
#include <string_view>

#include "framework/core/device.h"

namespace longspan::testing {

inline bool tests_run_on_gpu() {
  const char* const chosen = std::getenv("LONGSPAN_TEST_DEVICE");
  return chosen != nullptr && std::string_view(chosen) == "cuda";
}

// A GPU whose memory the host can read and write: tests/support/visible_cuda allocates host memory.
// Queued work is complete when the call returns.
inline Device visible_gpu() {
  setenv("LONGSPAN_TEST_DEVICE", "cuda", 1);
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  return Device::cuda();
}

inline const Device& cpu_device() {
  static const Device device = Device::cpu();
  return device;
}

}  // namespace longspan::testing
