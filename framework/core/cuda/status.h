// Error handling of the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include "framework/core/error.h"

namespace longspan {

inline void require_success(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears the error, which the next query would report
  throw Failure("CUDA: {}: {}", what, cudaGetErrorString(status));
}

inline int attribute(cudaDeviceAttr which, int gpu) {
  int value = 0;
  require_success(cudaDeviceGetAttribute(&value, which, gpu), "querying a device attribute");
  return value;
}

}  // namespace longspan
