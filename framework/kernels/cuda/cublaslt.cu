#include <dlfcn.h>

#include "framework/core/system.h"
#include "framework/kernels/cuda/cublaslt.h"

namespace longspan {

CublasLt::CublasLt() {
  library_ = open_cuda_library(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
                               "matrix multiplication on a GPU",
                               LONGSPAN_CUDA_LIBRARIES);
  find(create, "cublasLtCreate");
  find(destroy, "cublasLtDestroy");
  find(matmul, "cublasLtMatmul");
  find(choose, "cublasLtMatmulAlgoGetHeuristic");
  find(ask_algorithm, "cublasLtMatmulAlgoConfigGetAttribute");
  find(create_product, "cublasLtMatmulDescCreate");
  find(destroy_product, "cublasLtMatmulDescDestroy");
  find(set_product, "cublasLtMatmulDescSetAttribute");
  find(create_layout, "cublasLtMatrixLayoutCreate");
  find(destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(create_preference, "cublasLtMatmulPreferenceCreate");
  find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(status_text_, "cublasLtGetStatusString");
}

template <typename F>
void CublasLt::find(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(library_, name));
  if (function == nullptr) throw Failure("cuBLASLt has no function {}", name);
}

}  // namespace longspan
