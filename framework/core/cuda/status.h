// Errors of CUDA's runtime.
#pragma once

#include <cuda_runtime.h>

#include "framework/core/error.h"

namespace longspan {

inline void require_success(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // or the next that asks would hear of this one
  throw Failure("CUDA: {}: {}", what, cudaGetErrorString(status));
}

inline int attribute(cudaDeviceAttr which, int gpu) {
  int value = 0;
  require_success(cudaDeviceGetAttribute(&value, which, gpu), "asking what a GPU has");
  return value;
}

}  // namespace longspan
