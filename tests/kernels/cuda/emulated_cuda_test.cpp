// Error detection of the emulated CUDA runtime, and features that only CUDA kernels have.
#include <gtest/gtest.h>

#include <vector>

#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/cublaslt_gemm.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/tensor_core.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::emulated_cuda_test {
namespace {

using namespace longspan::testing;

constexpr int threads = 128;

template <typename... Parameters, typename... Arguments>
void start(void (*kernel)(Parameters...), std::size_t shared_bytes, Arguments... arguments) {
  launch(backend(),
         {.blocks = 3, .threads = threads, .shared_bytes = shared_bytes},
         kernel,
         arguments...);
}

__global__ void turn(int* out) {
  int* const shared = shared_memory<int>();
  const auto i = static_cast<int>(threadIdx.x);
  shared[i] = i;
  __syncthreads();
  out[static_cast<int>(blockIdx.x) * threads + i] = shared[threads - 1 - i];
}

__global__ void meet_here_and_there(int*) {
  if (threadIdx.x % 2 == 0)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void meet_in_warps_and_blocks(int*) {
  if (threadIdx.x == 0)
    __syncthreads();
  else
    __syncwarp();
}

__global__ void write_beyond(int* out) {
  int* const shared = shared_memory<int>();
  if (threadIdx.x == 0) shared[threads] = 1;
  out[0] = 0;
}

__global__ void return_early(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  atomicAdd(out, 1);
}

__global__ void read_unwritten(float* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = shared_memory<float>()[0];
}

__global__ void vote(unsigned* out) {
  const unsigned votes = __ballot_sync(all_lanes, threadIdx.x % 3 == 0);
  if (threadIdx.x % 32 == 0) out[blockIdx.x * threads / 32 + threadIdx.x / 32] = votes;
}

__global__ void add_up(double* out) {
  const auto i = static_cast<double>(threadIdx.x);
  const double sum = block_reduce(i, shared_memory<double>(), Plus());
  const double most = block_reduce(i, shared_memory<double>(), Max());
  if (threadIdx.x == threads - 1) out[blockIdx.x] = sum + 1000000 * most;
}

__global__ void copy_and_look(const float* from, float* out) {
  if (threadIdx.x != 0) return;
  float* const shared = shared_memory<float>();
  tensor_core::start_copy(shared, from, true);
  tensor_core::start_copy(shared + 4, from, false);
  tensor_core::end_copy_group();
  out[0] = shared[0];
  tensor_core::wait_for_copies<0>();
  out[1] = shared[3];
  out[2] = shared[7];
}

TEST(EmulatedCuda, CopyArrivesAfterWait) {
  const std::vector<float> from = {1, 2, 3, 4};
  std::vector<float> out(3);
  start(copy_and_look, 8 * sizeof(float), from.data(), out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 4);
  EXPECT_EQ(out[2], 0);
}

// A kernel is loaded at its first use: when its shared memory is requested, or when it starts.
TEST(EmulatedCuda, KernelLoadReclaimsCachedMemory) {
  constexpr std::size_t shared_bytes = 64 * 1024;
  Allocator& allocator = backend_device().state().allocator();
  const auto kept = [&] {
    const MemoryReport report = allocator.report();
    return report.reserved - report.total.live;
  };
  allocator.trim();
  const std::int64_t lent = kept();  // unused parts of larger blocks
  for (const int refused : {0, 1}) {
    Tensor::empty({1000}, DType::f32, backend_device());
    ASSERT_GT(kept(), lent);
    emulated_cuda::refuse_memory(refused, refused + 1);
    std::vector<int> out(3 * threads);
    start(turn, shared_bytes, out.data());
    EXPECT_EQ(out[0], threads - 1);
    EXPECT_EQ(kept(), lent);
  }
  emulated_cuda::refuse_memory(0, 2);
  std::vector<int> out(3 * threads);
  EXPECT_THROW(start(turn, shared_bytes, out.data()), Failure);
}

TEST(EmulatedCuda, BarrierMakesWritesVisible) {
  std::vector<int> out(3 * threads);
  start(turn, threads * sizeof(int), out.data());
  for (int i = 0; i < 3 * threads; ++i)
    EXPECT_EQ(out[static_cast<std::size_t>(i)], threads - 1 - i % threads);
}

TEST(EmulatedCuda, BarrierIgnoresReturnedThreads) {
  int count = 0;
  start(return_early, 0, &count);
  EXPECT_EQ(count, 3 * 40);
}

TEST(EmulatedCuda, SharedMemoryStartsAsNan) {
  std::vector<float> out(3, 0.0f);
  start(read_unwritten, sizeof(float), out.data());
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

TEST(EmulatedCuda, BallotCollectsVotesOfLanes) {
  std::vector<unsigned> out(3 * threads / 32);
  start(vote, 0, out.data());
  for (std::size_t w = 0; w < out.size(); ++w)
    for (unsigned lane = 0; lane < 32; ++lane)
      EXPECT_EQ(out[w] >> lane & 1u, (w % 4 * 32 + lane) % 3 == 0 ? 1u : 0u);
}

TEST(EmulatedCuda, BlockReduceReturnsSumAndMax) {
  std::vector<double> out(3);
  start(add_up, threads / 32 * sizeof(double), out.data());
  for (const double value : out)
    EXPECT_EQ(value, threads * (threads - 1) / 2 + 1e6 * (threads - 1));
}

TEST(EmulatedCudaDeathTest, ReportsDivergentBarriers) {
  int out = 0;
  EXPECT_DEATH(start(meet_here_and_there, 0, &out), "wait for each other at different places");
  EXPECT_DEATH(start(meet_in_warps_and_blocks, 0, &out), "waits here for others that never come");
}

// Rows of 8 elements, the first `first` elements from the beginning of shared memory.
__global__ void read_rows(int first) {
  auto* const rows = shared_memory<std::uint16_t>();
  tensor_core::read_matrices(rows + first + threadIdx.x % 32 * 8);
}
__global__ void copy_rows(int first, const int* from) {
  tensor_core::start_copy(shared_memory<std::uint16_t>() + first, from, true);
  tensor_core::end_copy_group();
  tensor_core::wait_for_copies<0>();
}

TEST(EmulatedCudaDeathTest, ReportsInvalid16ByteAccesses) {
  constexpr std::size_t bytes = 32 * 16;
  alignas(16) const int from[8] = {};
  EXPECT_DEATH(start(read_rows, bytes, 4), "not aligned");
  EXPECT_DEATH(start(read_rows, bytes, 8), "beyond the block's shared memory");
  EXPECT_DEATH(start(copy_rows, bytes, 4, from), "not aligned");
  EXPECT_DEATH(start(copy_rows, bytes, 0, from + 1), "not aligned");
  EXPECT_DEATH(start(copy_rows, bytes, 256, from), "beyond the block's shared memory");
}

#if defined(__SANITIZE_ADDRESS__)
TEST(EmulatedCudaDeathTest, ReportsAccessBeyondSharedMemory) {
  int out = 0;
  EXPECT_DEATH(start(write_beyond, threads * sizeof(int), &out), "use-after-poison");
}
#endif

#if defined(__SANITIZE_THREAD__)
__global__ void turn_without_waiting(int* out) {
  int* const shared = shared_memory<int>();
  const auto i = static_cast<int>(threadIdx.x);
  shared[i] = i;
  out[static_cast<int>(blockIdx.x) * threads + i] = shared[threads - 1 - i];
}

// Each thread reads a value written before the last barrier, and overwrites a value that another
// thread may still read. The second barrier of each round is missing.
__global__ void turn_again_and_again(int* out) {
  int* const shared = shared_memory<int>();
  const auto i = static_cast<int>(threadIdx.x);
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    shared[i] = round;
    __syncthreads();
    sum += shared[(i + 1) % threads];
  }
  out[i] = sum;
}

// Shuffles exchange registers. They do not order the memory accesses of lanes.
__global__ void turn_by_shuffle(int* out) {
  int* const shared = shared_memory<int>();
  const auto i = static_cast<int>(threadIdx.x);
  shared[i] = __shfl_sync(all_lanes, i, i);
  out[i] = __shfl_xor_sync(all_lanes, shared[i ^ 1], 1);
}

TEST(EmulatedCudaDeathTest, ReportsMissingBarrier) {
  const auto run = [](void (*kernel)(int*)) {
    std::vector<int> out(3 * threads);
    start(kernel, threads * sizeof(int), out.data());
    std::exit(0);
  };
  EXPECT_EXIT(run(turn), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run(turn_without_waiting), ::testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(run(turn_again_and_again), ::testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(run(turn_by_shuffle), ::testing::ExitedWithCode(66), "data race");
}
#endif

template <typename T>
struct AddOne {
  const T* x;
  auto operator()(std::int64_t i) const { return wide(x[i]) + 1; }
};

template <typename T>
void expect_each_written_once(std::int64_t count) {
  std::vector<T> x(static_cast<std::size_t>(count) + 1), expected = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    put(x[i], static_cast<int>(i % 100));
    put(expected[i], static_cast<int>(i % 100) + (i + 1 < x.size()));
  }
  start(write_each_element<T, AddOne<T>>, 0, count, x.data(), AddOne<T>{x.data()});
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(wide(x[i]), wide(expected[i])) << i << " of " << count;
}

// 3 blocks: groups of 8, 4 and 4 elements that are 384 apart, and the remainder.
TEST(WriteElements, WritesEachElementOnce) {
  for (const std::int64_t count : {1, 384, 385, 1536, 3071, 3072, 3073, 7000}) {
    expect_each_written_once<BFloat16>(count);
    expect_each_written_once<float>(count);
    expect_each_written_once<double>(count);
  }
}

// a [7, 5], b [5, 3], a bias and the previous c, in every orientation of the factors.
template <typename T, typename C>
void expect_plain_product() {
  constexpr std::int64_t m = 7, k = 5, n = 3;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool accumulate : {false, true}) {
        std::vector<T> a(m * k), b(k * n);
        std::vector<C> bias(n), c(m * n);
        std::vector<double> expected(m * n);
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t l = 0; l < k; ++l)
            put(a[static_cast<std::size_t>(transpose_a ? l * m + i : i * k + l)], i - 2 * l);
        for (std::int64_t l = 0; l < k; ++l)
          for (std::int64_t j = 0; j < n; ++j)
            put(b[static_cast<std::size_t>(transpose_b ? j * k + l : l * n + j)], l + j);
        for (std::int64_t j = 0; j < n; ++j) put(bias[static_cast<std::size_t>(j)], 2 * j);
        for (std::int64_t i = 0; i < m * n; ++i) {
          put(c[static_cast<std::size_t>(i)], i);
          double sum = static_cast<double>(i % n * 2 + (accumulate ? i : 0));
          for (std::int64_t l = 0; l < k; ++l)
            sum += static_cast<double>((i / n - 2 * l) * (l + i % n));
          expected[static_cast<std::size_t>(i)] = sum;
        }
        reference_gemm(backend(),
                       {.m = m,
                        .k = k,
                        .n = n,
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .accumulate = accumulate,
                        .dtype = DTypeOf<T>::value,
                        .c_dtype = DTypeOf<C>::value,
                        .a = a.data(),
                        .b = b.data(),
                        .bias = bias.data(),
                        .c = c.data()});
        for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(wide(c[i]), expected[i]) << i;
      }
}

TEST(ReferenceGemm, SupportsTransposeBiasAndAccumulate) {
  expect_plain_product<double, double>();
  expect_plain_product<float, float>();
  expect_plain_product<BFloat16, BFloat16>();
  expect_plain_product<BFloat16, float>();
  expect_plain_product<Float16, float>();
}

TEST(EmulatedCuda, RejectsLaunchesThatNoGpuSupports) {
  int out = 0;
  EXPECT_THROW(start(write_beyond, 1 << 20, &out), Failure);
  EXPECT_THROW(launch(backend(), {.blocks = 1, .threads = 48}, write_beyond, &out), Failure);
  EXPECT_NO_THROW(launch(backend(), {.blocks = 0}, write_beyond, &out));
}

}  // namespace
}  // namespace longspan::emulated_cuda_test
