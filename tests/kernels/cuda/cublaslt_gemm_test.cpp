// Products with cuBLASLt: fallbacks if it rejects an algorithm, and workarounds for its errors.
#include <cublasLt.h>

#include "framework/kernels/matmul.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::cublaslt_gemm_test {
namespace {

using namespace longspan::testing;

// a b + bias of small integers, so that every summation order gives the same result.
struct Sums {
  Values a, b, bias, c, activated;
  Matmul matmul;
};

template <typename T>
Sums sums_of(std::int64_t m, std::int64_t k, std::int64_t n) {
  const auto whole = [](std::int64_t count, std::int64_t step) {
    Values values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<double>(i * step % 3) - 1);
    return values;
  };
  Sums sums = {whole(m * k, 5), whole(k * n, 7), whole(n, 2), {}, {}, {}};
  const auto at = [](const Values& x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = at(sums.bias, j);
      for (std::int64_t p = 0; p < k; ++p) sum += at(sums.a, i * k + p) * at(sums.b, p * n + j);
      sums.c.push_back(sum);
      const double t = std::sqrt(2 / std::numbers::pi) * (sum + 0.044715 * sum * sum * sum);
      sums.activated.push_back(0.5 * sum * (1 + std::tanh(t)));
    }
  sums.matmul = {.a = tensor_of<T>(sums.a, {m, k}),
                 .b = tensor_of<T>(sums.b, {k, n}),
                 .c = poisoned<T>({m, n}),
                 .bias = tensor_of<T>(sums.bias, {n})};
  return sums;
}

emulated_cublaslt::Made made_by(const Matmul& product) {
  const auto before = emulated_cublaslt::made();
  matmul(backend(), product);
  const auto after = emulated_cublaslt::made();
  return {after.all - before.all, after.with_epilogue - before.with_epilogue};
}

TEST(CublasLtGemm, UsesAnotherAlgorithmAfterRejection) {
  const Sums sums = sums_of<BFloat16>(6, 4, 10);
  emulated_cublaslt::refuse(2);
  const auto made = made_by(sums.matmul);
  EXPECT_EQ(made.all, 1);
  EXPECT_EQ(made.with_epilogue, 1);
  EXPECT_EQ(values_of(sums.matmul.c), sums.c);
}

TEST(CublasLtGemm, RetriesWithoutEpilogueAfterRejection) {
  Sums sums = sums_of<BFloat16>(6, 4, 16);
  sums.matmul.activation = Activation::gelu_tanh;
  sums.matmul.before = poisoned<BFloat16>({6, 16});
  EXPECT_EQ(made_by(sums.matmul).with_epilogue, 1);
  expect_close(values_of(sums.matmul.c), sums.activated, tolerance<BFloat16>(), 1);
  emulated_cublaslt::refuse(6);  // three algorithms with the activation and three with the bias
  for (int again = 0; again < 2; ++again) {
    sums.matmul.c = poisoned<BFloat16>({6, 16});
    const auto made = made_by(sums.matmul);
    EXPECT_EQ(made.all, 1);
    EXPECT_EQ(made.with_epilogue, 0);
    EXPECT_EQ(values_of(sums.matmul.before), sums.c);
    expect_close(values_of(sums.matmul.c), sums.activated, tolerance<BFloat16>(), 1);
  }
}

TEST(CublasLtGemm, FallsBackToReferenceKernel) {
  const auto run = [](const Sums& sums) {
    emulated_cublaslt::refuse(6);
    EXPECT_EQ(made_by(sums.matmul).all, 0);
    EXPECT_EQ(values_of(sums.matmul.c), sums.c);
    emulated_cublaslt::refuse(0);
    EXPECT_EQ(made_by(sums.matmul).all, 0);  // cuBLASLt is not called again
  };
  run(sums_of<float>(5, 6, 7));
  run(sums_of<BFloat16>(5, 6, 7));
}

TEST(CublasLtGemm, RetriesFailedHeuristicOnce) {
  const Sums sums = sums_of<float>(3, 8, 5);
  emulated_cublaslt::fail_proposals(1);
  EXPECT_EQ(made_by(sums.matmul).all, 1);
  EXPECT_EQ(values_of(sums.matmul.c), sums.c);
  const Sums others = sums_of<float>(3, 8, 6);
  emulated_cublaslt::fail_proposals(2);
  try {
    matmul(backend(), others.matmul);
    ADD_FAILURE() << "no failure";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "cuBLASLt: choosing an algorithm: CUBLAS_STATUS_ALLOC_FAILED");
  }
  EXPECT_EQ(made_by(others.matmul).all, 1);
  EXPECT_EQ(values_of(others.matmul.c), others.c);
}

}  // namespace
}  // namespace longspan::cublaslt_gemm_test
