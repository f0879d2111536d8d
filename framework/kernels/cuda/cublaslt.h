// cuBLASLt, loaded lazily: CPU-only programs do not need it, and loading it takes a tenth of a
// second.
#pragma once

#include <cublasLt.h>

#include "framework/core/error.h"

namespace longspan {

class CublasLt {
 public:
  // Throws Failure if the library cannot be loaded.
  CublasLt();

  // Throws Failure unless the call succeeded.
  void require(cublasStatus_t status, const char* what) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Failure("cuBLASLt: {}: {}", what, status_text_(status));
  }

  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) ask_algorithm;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;

 private:
  template <typename F>
  void find(F& function, const char* name);

  void* library_;  // never closed: the driver may use its kernels until the process ends
  decltype(&cublasLtGetStatusString) status_text_;
};

}  // namespace longspan
