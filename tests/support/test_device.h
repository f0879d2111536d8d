// What tests run on that any device can run: the CPU, or a GPU where the environment variable
// LONGSPAN_TEST_DEVICE is "cuda".
#pragma once

#include <cstdlib>
#include <string_view>

#include "framework/core/device.h"

namespace longspan::testing {

inline bool tests_run_on_gpu() {
  const char* const wanted = std::getenv("LONGSPAN_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

// A GPU whose memory the test's own loops may read and write: tests/support/visible_cuda then gives
// out memory of the host, and what is queued is done when the call returns.
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
