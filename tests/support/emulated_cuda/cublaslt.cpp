// cuBLASLt on the emulated device, for products that its documentation allows. Matrices are
// column-major. It reproduces two defects of the library. It does not add a bias to a single row or
// column. A Hopper algorithm that splits a sum into unequal parts omits the rest.
#include "framework/kernels/cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/activation.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
  cudaDataType_t vector_type = CUDA_R_32F;
  void* aux = nullptr;
  std::int64_t aux_step = 0;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, step;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = 7;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // A, B, C and D
};

namespace {

using longspan::Accumulator;

std::atomic<int> proposals_to_fail = 0, products_to_refuse = 0;
std::atomic<int> products = 0, epilogues = 0;

bool count_down(std::atomic<int>& count) {
  int left = count;
  while (left > 0 && !count.compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

// Contents of cublasLtMatmulAlgo_t.
struct Algorithm {
  std::int32_t id;
  std::int32_t parts;
  std::uint32_t alignment[4];
  std::uint64_t workspace_bytes;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Algorithm read(const cublasLtMatmulAlgo_t& words) {
  Algorithm algorithm;
  std::memcpy(&algorithm, &words, sizeof(algorithm));
  return algorithm;
}

template <typename T>
cublasStatus_t set(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool is_narrow(cudaDataType_t type) { return type == CUDA_R_16F || type == CUDA_R_16BF; }
bool is_aligned(const void* address, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

struct Extents {
  std::int64_t rows, terms, columns;
};

// Returns -1 rows if the shapes of the matrices do not match.
Extents extents_of(const cublasLtMatmulDescOpaque_t& desc,
                   const cublasLtMatrixLayoutOpaque_t& a,
                   const cublasLtMatrixLayoutOpaque_t& b,
                   const cublasLtMatrixLayoutOpaque_t& d) {
  const bool ta = desc.transpose_a == CUBLAS_OP_T, tb = desc.transpose_b == CUBLAS_OP_T;
  const Extents e = {d.rows, ta ? a.rows : a.columns, d.columns};
  const auto lies = [](const auto& layout, std::int64_t rows, std::int64_t columns) {
    return layout.rows == rows && layout.columns == columns && layout.step >= rows && rows > 0 &&
           columns > 0;
  };
  const bool fits = lies(a, ta ? e.terms : e.rows, ta ? e.rows : e.terms) &&
                    lies(b, tb ? e.columns : e.terms, tb ? e.terms : e.columns) &&
                    lies(d, e.rows, e.columns);
  return fits ? e : Extents{-1, -1, -1};
}

// Source: tables of types and rules of epilogues in the documentation of cuBLASLt.
bool is_supported(const cublasLtMatmulDescOpaque_t& desc,
                  cudaDataType_t factors,
                  cudaDataType_t result) {
  const bool wide = factors == CUDA_R_64F;
  if (wide != (desc.compute == CUBLAS_COMPUTE_64F) || wide != (desc.scale == CUDA_R_64F))
    return false;
  if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && factors != CUDA_R_32F) return false;
  if (result != factors && !(is_narrow(factors) && result == CUDA_R_32F)) return false;
  const bool has_vector = desc.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                          desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
                          desc.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  if (has_vector && (wide || desc.vector == nullptr || desc.vector_type != result)) return false;
  const bool has_aux = desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
                       desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
                       desc.epilogue == CUBLASLT_EPILOGUE_DGELU;
  return !has_aux || (desc.aux != nullptr && desc.aux_step % 8 == 0 && is_narrow(result));
}

template <typename T, typename C>
struct Run {
  using A = Accumulator<T>;
  cublasLtMatmulDescOpaque_t desc;
  Extents e;
  const T* a;
  std::int64_t a_step;
  const T* b;
  std::int64_t b_step;
  A alpha, beta;
  C* d;
  std::int64_t d_step;
  std::int64_t terms;  // number of summed terms

  A a_at(std::int64_t i, std::int64_t p) const {
    return longspan::wide(desc.transpose_a == CUBLAS_OP_T ? a[p + i * a_step] : a[i + p * a_step]);
  }
  A b_at(std::int64_t p, std::int64_t j) const {
    return longspan::wide(desc.transpose_b == CUBLAS_OP_T ? b[j + p * b_step] : b[p + j * b_step]);
  }

  C finish(std::int64_t i, std::int64_t j, A sum) const {
    C* const vector = static_cast<C*>(desc.vector);
    C* const aux = static_cast<C*>(desc.aux) + i + j * desc.aux_step;
    const bool has_bias =
        desc.epilogue == CUBLASLT_EPILOGUE_BIAS || desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    if (has_bias && e.rows > 1 && e.columns > 1) sum += static_cast<A>(longspan::wide(vector[i]));
    if (desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
        desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      longspan::put(*aux, sum);
      sum = longspan::value_of<longspan::Activation::gelu_tanh>(sum);
    }
    if (desc.epilogue == CUBLASLT_EPILOGUE_DGELU)
      sum *=
          longspan::slope_of<longspan::Activation::gelu_tanh>(static_cast<A>(longspan::wide(*aux)));
    C element;
    longspan::put(element, sum);
    return element;
  }

  void operator()() const {
    const emulated_cuda::Access access;
    for (std::int64_t j = 0; j < e.columns; ++j) {
      for (std::int64_t i = 0; i < e.rows; ++i) {
        A sum = 0;
        for (std::int64_t p = 0; p < terms; ++p) sum += a_at(i, p) * b_at(p, j);
        C& element = d[i + j * d_step];
        sum *= alpha;
        if (beta != 0) sum += beta * static_cast<A>(longspan::wide(element));
        element = finish(i, j, sum);
      }
      if (desc.epilogue != CUBLASLT_EPILOGUE_BGRADB) continue;
      A sum = 0;
      for (std::int64_t p = 0; p < terms; ++p) sum += b_at(p, j);
      longspan::put(static_cast<C*>(desc.vector)[j], sum);
    }
  }
};

template <typename F>
void with_type(cudaDataType_t type, const F& f) {
  switch (type) {
    case CUDA_R_64F:
      return f(longspan::TypeTag<double>());
    case CUDA_R_32F:
      return f(longspan::TypeTag<float>());
    case CUDA_R_16BF:
      return f(longspan::TypeTag<longspan::BFloat16>());
    case CUDA_R_16F:
      return f(longspan::TypeTag<longspan::Float16>());
  }
}

}  // namespace

void emulated_cublaslt::fail_proposals(int count) { proposals_to_fail = count; }
void emulated_cublaslt::refuse(int count) { products_to_refuse = count; }
emulated_cublaslt::Made emulated_cublaslt::made() { return {products, epilogues}; }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque_t{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value,
                                              std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(desc->vector, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(desc->aux_step, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(desc->vector_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                          cudaDataType_t type,
                                          std::uint64_t rows,
                                          std::uint64_t columns,
                                          std::int64_t step) {
  *layout = new cublasLtMatrixLayoutOpaque_t{
      type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), step};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value,
                                                    std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(
          preference->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

// If split sums are allowed, the first result is the algorithm that can omit terms.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t,
                                              cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference,
                                              int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = 0;
  if (count_down(proposals_to_fail)) return CUBLAS_STATUS_ALLOC_FAILED;
  if (extents_of(*desc, *a, *b, *d).rows < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (a->type != b->type || !is_supported(*desc, a->type, d->type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto propose = [&](std::int32_t id, std::int32_t parts) {
    if (*found == requested) return;
    Algorithm algorithm = {id, parts, {}, preference->workspace_bytes};
    std::ranges::copy(preference->alignment, algorithm.alignment);
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    result.workspaceSize = parts > 1 ? preference->workspace_bytes : 0;
    std::memcpy(&result.algo, &algorithm, sizeof(algorithm));
  };
  if ((preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0) propose(66, 2);
  propose(21, 1);
  propose(23, 1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void* value,
                                                    std::size_t bytes,
                                                    std::size_t* written) {
  const Algorithm known = read(*algorithm);
  const std::int32_t answer = name == CUBLASLT_ALGO_CONFIG_ID ? known.id : known.parts;
  *written = sizeof(answer);
  if (bytes < sizeof(answer)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &answer, sizeof(answer));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t,
                              cublasLtMatmulDesc_t desc,
                              const void* alpha,
                              const void* a,
                              cublasLtMatrixLayout_t a_layout,
                              const void* b,
                              cublasLtMatrixLayout_t b_layout,
                              const void* beta,
                              const void* c,
                              cublasLtMatrixLayout_t c_layout,
                              void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace,
                              std::size_t workspace_bytes,
                              cudaStream_t stream) {
  const Extents e = extents_of(*desc, *a_layout, *b_layout, *d_layout);
  const Algorithm known = read(*algorithm);
  const auto& alignment = known.alignment;
  if (e.rows < 0 || c != d || c_layout != d_layout || workspace == nullptr ||
      !is_aligned(workspace, 256) || workspace_bytes < known.workspace_bytes ||
      !is_aligned(a, alignment[0]) || !is_aligned(b, alignment[1]) ||
      !is_aligned(c, alignment[2]) || !is_aligned(d, alignment[3]) ||
      !is_aligned(desc->vector, 16) || !is_aligned(desc->aux, 16))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(*desc, a_layout->type, d_layout->type) || count_down(products_to_refuse))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  ++products;
  if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT) ++epilogues;
  const auto run = [&]<typename T, typename C>(longspan::TypeTag<T>, longspan::TypeTag<C>) {
    using A = Accumulator<T>;
    const bool leaves_out = known.id == 66 && known.parts > 1;
    emulated_cuda::queue(stream,
                         Run<T, C>{*desc,
                                   e,
                                   static_cast<const T*>(a),
                                   a_layout->step,
                                   static_cast<const T*>(b),
                                   b_layout->step,
                                   *static_cast<const A*>(alpha),
                                   *static_cast<const A*>(beta),
                                   static_cast<C*>(d),
                                   d_layout->step,
                                   leaves_out ? e.terms / known.parts * known.parts : e.terms});
  };
  with_type(a_layout->type, [&]<typename T>(longspan::TypeTag<T> type) {
    if (d_layout->type == a_layout->type)
      run(type, type);
    else
      run(type, longspan::TypeTag<Accumulator<T>>());
  });
  return CUBLAS_STATUS_SUCCESS;
}

namespace longspan {

CublasLt::CublasLt()
    : create(cublasLtCreate),
      destroy(cublasLtDestroy),
      matmul(cublasLtMatmul),
      choose(cublasLtMatmulAlgoGetHeuristic),
      ask_algorithm(cublasLtMatmulAlgoConfigGetAttribute),
      create_product(cublasLtMatmulDescCreate),
      destroy_product(cublasLtMatmulDescDestroy),
      set_product(cublasLtMatmulDescSetAttribute),
      create_layout(cublasLtMatrixLayoutCreate),
      destroy_layout(cublasLtMatrixLayoutDestroy),
      create_preference(cublasLtMatmulPreferenceCreate),
      destroy_preference(cublasLtMatmulPreferenceDestroy),
      set_preference(cublasLtMatmulPreferenceSetAttribute),
      library_(nullptr),
      status_text_(cublasLtGetStatusString) {}

}  // namespace longspan
