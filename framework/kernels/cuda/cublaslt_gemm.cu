#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "framework/kernels/cuda/cublaslt.h"
#include "framework/kernels/cuda/cublaslt_gemm.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan {
namespace {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw Failure("matmul does not support {}", name_of(dtype));
  }
}

// Alignment of an address, up to the largest relevant value.
std::uint32_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(value & (~value + 1));
}

// The vector argument of the epilogue: a bias, or the sums of rows.
const void* vector_of(const GemmArguments& product) {
  return product.epilogue == Epilogue::sums_of_a ? product.a_sums : product.bias;
}

// Cache key of an algorithm.
using Case = std::tuple<std::int64_t,
                        std::int64_t,
                        std::int64_t,
                        bool,
                        bool,
                        bool,
                        DType,
                        DType,
                        bool,
                        bool,
                        Epilogue,
                        std::uint32_t,
                        std::uint32_t,
                        std::uint32_t,
                        std::uint32_t,
                        std::uint32_t>;

Case case_of(const GemmArguments& product, bool tf32) {
  return {product.m,
          product.k,
          product.n,
          product.transpose_a,
          product.transpose_b,
          product.accumulate,
          product.dtype,
          product.c_dtype,
          product.bias != nullptr,
          tf32,
          product.epilogue,
          alignment_of(product.a),
          alignment_of(product.b),
          alignment_of(product.c),
          alignment_of(vector_of(product)),
          alignment_of(product.before)};
}

template <typename T>
using Owned = std::shared_ptr<std::remove_pointer_t<T>>;

// Wraps the library's algorithm type, which is an unnamed struct and cannot be a vector element.
struct Algorithm {
  cublasLtMatmulAlgo_t words;
};

// cuBLASLt is column-major: a row-major matrix is its transpose. The transposed product has the
// transposed factors in reverse order, so a is its B.
struct Chosen {
  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> a, b, c;
  std::vector<Algorithm> algorithms;  // best first, without rejected ones
};

cublasLtEpilogue_t epilogue_of(const GemmArguments& product) {
  switch (product.epilogue) {
    case Epilogue::gelu:
      return product.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_derivative:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::sums_of_a:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::none:
      break;
  }
  return product.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// The library requires a row stride of 8 elements for its auxiliary output. Its fused algorithms
// may use as much memory, or be slower than a separate kernel. Others measured this before Hopper
// (GeForce) and on compute capability 12, but a gain on Hopper (github.com/karpathy/llm.c/pull/338,
// 591 and 653; sgl-project/sglang/pull/34350). There are no reports for other GPUs, so fusion is
// limited to Hopper. For fused sums, reports include a gain and a loss
// (github.com/NVIDIA/CUDALibrarySamples/issues/90, on Ampere). benchmark_kernels measures both
// variants. Before CUDA 12.8 Update 1, a bias could be wrong with one row or column (its release
// notes, 5104822).
bool may_be_fused(Cuda cuda, const GemmArguments& product) {
  if (vector_of(product) != nullptr && (product.m == 1 || product.n == 1)) return false;
  return product.epilogue == Epilogue::none || (product.n % 8 == 0 && is_hopper(cuda));
}

// Whether another algorithm may succeed: the library proposes algorithms that it then rejects.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

// The library handle of a device, and the algorithms chosen so far.
class Products {
 public:
  Products() { library_.require(library_.create(&handle_), "starting"); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products() { library_.destroy(handle_); }

  bool multiply(Cuda cuda, const GemmArguments& product) {
    const std::lock_guard lock(mutex_);
    Chosen& chosen = chosen_for(cuda, product);
    set_pointers(chosen.product.get(), product);
    const double one = 1, sum = product.accumulate ? 1 : 0;
    const float narrow_one = 1, narrow_sum = product.accumulate ? 1 : 0;
    const bool wide = product.dtype == DType::f64;
    while (!chosen.algorithms.empty()) {
      const cublasStatus_t status =
          library_.matmul(handle_,
                          chosen.product.get(),
                          wide ? static_cast<const void*>(&one) : &narrow_one,
                          product.b,
                          chosen.a.get(),
                          product.a,
                          chosen.b.get(),
                          wide ? static_cast<const void*>(&sum) : &narrow_sum,
                          product.c,
                          chosen.c.get(),
                          product.c,
                          chosen.c.get(),
                          &chosen.algorithms.front().words,
                          product.workspace,
                          product_workspace_bytes,
                          cuda.stream);
      if (!is_refusal(status)) {
        library_.require(status, "matrix multiplication");
        return true;
      }
      chosen.algorithms.erase(chosen.algorithms.begin());
    }
    return false;
  }

 private:
  template <typename T>
  void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const T& value) {
    library_.require(library_.set_product(desc, name, &value, sizeof(value)),
                     "matrix "
                     "multiplication");
  }
  template <typename T>
  void set(cublasLtMatmulPreference_t preference,
           cublasLtMatmulPreferenceAttributes_t name,
           const T& value) {
    library_.require(library_.set_preference(preference, name, &value, sizeof(value)),
                     "choosing an algorithm");
  }

  Owned<cublasLtMatmulDesc_t> make_product(const GemmArguments& product, bool tf32) {
    const bool wide = product.dtype == DType::f64;
    const bool rounds = tf32 && product.dtype == DType::f32;
    cublasLtMatmulDesc_t desc = nullptr;
    library_.require(library_.create_product(&desc,
                                             wide     ? CUBLAS_COMPUTE_64F
                                             : rounds ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                      : CUBLAS_COMPUTE_32F,
                                             wide ? CUDA_R_64F : CUDA_R_32F),
                     "creating a matmul descriptor");
    Owned<cublasLtMatmulDesc_t> owned(desc, library_.destroy_product);
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(product.transpose_b));
    set(desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(product.transpose_a));
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
    if (vector_of(product) != nullptr)
      set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(product.c_dtype));
    // The pre-activations have c's dtype by default.
    if (product.before != nullptr) set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.n);
    set_pointers(desc, product);
    return owned;
  }

  // Also needed before choosing an algorithm, because the choice depends on alignment.
  void set_pointers(cublasLtMatmulDesc_t desc, const GemmArguments& product) {
    if (const void* const vector = vector_of(product); vector != nullptr)
      set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    if (product.before != nullptr)
      set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.before);
  }

  // Layout of a row-major matrix [rows, columns].
  Owned<cublasLtMatrixLayout_t> make_layout(DType dtype, std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t layout = nullptr;
    library_.require(library_.create_layout(&layout,
                                            type_of(dtype),
                                            static_cast<std::uint64_t>(columns),
                                            static_cast<std::uint64_t>(rows),
                                            columns),
                     "creating a matrix layout");
    return Owned<cublasLtMatrixLayout_t>(layout, library_.destroy_layout);
  }

  Chosen& chosen_for(Cuda cuda, const GemmArguments& product) {
    const bool tf32 = cuda.state->tf32();
    const Case wanted = case_of(product, tf32);
    if (const auto found = chosen_.find(wanted); found != chosen_.end()) return found->second;
    const auto [m, k, n] = std::tuple(product.m, product.k, product.n);
    Chosen chosen;
    chosen.product = make_product(product, tf32);
    chosen.a =
        product.transpose_b ? make_layout(product.dtype, n, k) : make_layout(product.dtype, k, n);
    chosen.b =
        product.transpose_a ? make_layout(product.dtype, k, m) : make_layout(product.dtype, m, k);
    chosen.c = make_layout(product.c_dtype, m, n);
    if (may_be_fused(cuda, product)) {
      // Partial sums must not be rounded to 16 bits before they are added.
      chosen.algorithms =
          algorithms_for(cuda, product, chosen, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
      if (chosen.algorithms.empty())
        chosen.algorithms = algorithms_for(cuda, product, chosen, CUBLASLT_REDUCTION_SCHEME_NONE);
    }
    return chosen_.emplace(wanted, std::move(chosen)).first->second;
  }

  std::vector<Algorithm> algorithms_for(Cuda cuda,
                                        const GemmArguments& product,
                                        const Chosen& chosen,
                                        std::uint32_t reductions) {
    cublasLtMatmulPreference_t made = nullptr;
    library_.require(library_.create_preference(&made), "choosing an algorithm");
    const Owned<cublasLtMatmulPreference_t> preference(made, library_.destroy_preference);
    set(made,
        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(product_workspace_bytes));
    set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.c));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.c));
    std::array<cublasLtMatmulHeuristicResult_t, 8> proposed = {};
    int found = 0;
    const auto propose = [&] {
      return library_.choose(handle_,
                             chosen.product.get(),
                             chosen.a.get(),
                             chosen.b.get(),
                             chosen.c.get(),
                             chosen.c.get(),
                             made,
                             static_cast<int>(proposed.size()),
                             proposed.data(),
                             &found);
    };
    cublasStatus_t status = propose();
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) {
      // The call loads kernels, and the caching allocator may leave no memory for them.
      cuda.state->allocator().trim();
      status = propose();
    }
    std::vector<Algorithm> result;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return result;  // no algorithm available
    library_.require(status, "choosing an algorithm");
    for (int i = 0; i < found; ++i) {
      const cublasLtMatmulHeuristicResult_t& proposal = proposed[static_cast<std::size_t>(i)];
      if (proposal.state == CUBLAS_STATUS_SUCCESS && sums_all(proposal.algo, product.k))
        result.push_back({proposal.algo});
    }
    return result;
  }

  int asked(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name) {
    int value = 0;
    std::size_t written = 0;
    library_.require(library_.ask_algorithm(&algorithm, name, &value, sizeof(value), &written),
                     "querying an algorithm");
    return value;
  }

  // From CUDA 12.6 Update 2 to 13.4, one Hopper algorithm may omit terms of unevenly split sums
  // (release notes of 13.4 Update 1, 6580689).
  bool sums_all(const cublasLtMatmulAlgo_t& algorithm, std::int64_t terms) {
    constexpr int algorithm_with_the_defect = 66;
    if (asked(algorithm, CUBLASLT_ALGO_CONFIG_ID) != algorithm_with_the_defect) return true;
    const int parts = asked(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    return parts <= 1 || terms % parts == 0;
  }

  CublasLt library_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Case, Chosen> chosen_;  // must be destroyed before the library
};

}  // namespace

bool multiply(Cuda cuda, const GemmArguments& product) {
  return cuda.state->get_or_create<Products>().multiply(cuda, product);
}

}  // namespace longspan
