#include "framework/core/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/error.h"
#include "tests/support/process_bytes.h"
#include "tests/support/sanitizers.h"

namespace longspan::allocator_test {
namespace {

const MemoryCount& count_of(const MemoryReport& report, MemoryTag tag) {
  return report.by_tag[static_cast<std::size_t>(tag)];
}

TEST(Allocator, CountsLiveAndPeakByTag) {
  Allocator allocator;
  void* weights = allocator.allocate(1024, MemoryTag::weights);
  void* scratch = allocator.allocate(4096, MemoryTag::workspace);
  allocator.free(scratch, 4096, MemoryTag::workspace);
  void* gradients = allocator.allocate(2048, MemoryTag::gradients);
  const auto report = allocator.report();
  EXPECT_EQ(count_of(report, MemoryTag::weights).live, 1024);
  EXPECT_EQ(count_of(report, MemoryTag::workspace).live, 0);
  EXPECT_EQ(count_of(report, MemoryTag::workspace).peak, 4096);
  EXPECT_EQ(report.total.live, 1024 + 2048);
  // Not the sum of the peaks: scratch and gradients were never live at the same time.
  EXPECT_EQ(report.total.peak, 1024 + 4096);
  EXPECT_EQ(report.reserved, 1024 + 4096 + 2048);
  allocator.reset_peak();
  EXPECT_EQ(allocator.report().total.peak, 1024 + 2048);
  EXPECT_EQ(count_of(allocator.report(), MemoryTag::workspace).peak, 0);
  allocator.free(weights, 1024, MemoryTag::weights);
  allocator.free(gradients, 2048, MemoryTag::gradients);
  EXPECT_EQ(allocator.report().total.live, 0);
}

TEST(Allocator, ReusesFreedBlocksAndTrimReleasesThem) {
  Allocator allocator;
  void* first = allocator.allocate(1000, MemoryTag::activations);
  allocator.free(first, 1000, MemoryTag::activations);
  // Another size of the same class.
  void* second = allocator.allocate(1001, MemoryTag::weights);
  EXPECT_EQ(second, first);
  allocator.free(second, 1001, MemoryTag::weights);
  EXPECT_GT(allocator.report().reserved, 0);
  allocator.trim();
  EXPECT_EQ(allocator.report().reserved, 0);
}

TEST(Allocator, CountsExactSizesForWeightsAndTheirState) {
  Allocator allocator;
  // Just above a size class, and just above a multiple of the huge page size.
  for (const std::size_t bytes : {std::size_t{1024 + 64}, (std::size_t{6} << 20) + 64})
    for (const MemoryTag tag : {MemoryTag::weights, MemoryTag::gradients, MemoryTag::optimizer}) {
      void* block = allocator.allocate(bytes, tag);
      std::memset(block, 1, bytes);
      EXPECT_EQ(count_of(allocator.report(), tag).live, static_cast<std::int64_t>(bytes));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
      allocator.free(block, bytes, tag);
      EXPECT_EQ(allocator.allocate(bytes, tag), block);
      allocator.free(block, bytes, tag);
      EXPECT_EQ(count_of(allocator.report(), tag).live, 0);
      allocator.trim();
      allocator.reset_peak();
    }
}

TEST(Allocator, ReusesCachedBlockForAtLeastHalfItsSize) {
  Allocator allocator;
  // Large enough that no block must be released.
  void* other = allocator.allocate(std::size_t{1} << 16, MemoryTag::weights);
  void* large = allocator.allocate(8192, MemoryTag::activations);
  allocator.free(large, 8192, MemoryTag::activations);
  const MemoryReport before = allocator.report();
  // A freed block keeps its full size after a smaller request.
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{5000}, std::size_t{8192}}) {
    void* block = allocator.allocate(bytes, MemoryTag::workspace);
    EXPECT_EQ(block, large) << bytes;
    const auto most = static_cast<std::int64_t>(bytes + bytes / 8);
    EXPECT_LE(count_of(allocator.report(), MemoryTag::workspace).live, most);
    allocator.free(block, bytes, MemoryTag::workspace);
    EXPECT_EQ(allocator.report().total.live, before.total.live);
    EXPECT_EQ(allocator.report().reserved, before.reserved);
  }
  void* weights = allocator.allocate(4096, MemoryTag::weights);
  void* little = allocator.allocate(3840, MemoryTag::workspace);
  EXPECT_NE(weights, large);
  EXPECT_NE(little, large);
  allocator.free(other, std::size_t{1} << 16, MemoryTag::weights);
  allocator.free(weights, 4096, MemoryTag::weights);
  allocator.free(little, 3840, MemoryTag::workspace);
}

// The unused end of a reused block cannot be released, so its size is limited to peak / 8.
TEST(Allocator, LimitsWasteInReusedBlocks) {
  constexpr std::size_t kib = 1024;
  Allocator allocator;
  std::vector<std::pair<void*, std::size_t>> blocks;
  const auto take = [&](int count, std::size_t bytes) {
    for (int i = 0; i < count; ++i)
      blocks.emplace_back(allocator.allocate(bytes, MemoryTag::activations), bytes);
  };
  const auto free_all = [&] {
    for (const auto& [block, bytes] : blocks) allocator.free(block, bytes, MemoryTag::activations);
    blocks.clear();
  };
  const auto expect_little_lent = [&](std::int64_t peak) {
    const MemoryReport before = allocator.report();
    allocator.trim();
    const MemoryReport report = allocator.report();
    EXPECT_EQ(report.total.peak, peak);
    EXPECT_LE(before.reserved, peak + peak / 2);
    EXPECT_LE(report.reserved - report.total.live, peak / 8);
  };
  // Two blocks of half the size fit into one of the old blocks.
  take(10, 64 * kib);
  free_all();
  take(20, 32 * kib);
  expect_little_lent(640 * kib);
  free_all();

  allocator.trim();
  take(10, 96 * kib);
  free_all();
  take(30, 32 * kib);
  free_all();
  take(5, 48 * kib);
  take(30, 16 * kib);
  take(29, 8 * kib);
  expect_little_lent(960 * kib);
  free_all();
}

#if defined(__SANITIZE_ADDRESS__)
TEST(AllocatorDeathTest, SanitizerDetectsWritesOutsideBlocks) {
  Allocator allocator;
  const auto write = [](void* block, std::size_t at) { static_cast<char*>(block)[at] = 1; };
  void* other = allocator.allocate(std::size_t{8} << 20, MemoryTag::weights);
  void* large = allocator.allocate(std::size_t{2} << 20, MemoryTag::weights);
  EXPECT_DEATH(write(large, std::size_t{2} << 20), "heap-buffer-overflow");
  void* kept = allocator.allocate(8192, MemoryTag::activations);
  allocator.free(kept, 8192, MemoryTag::activations);
  EXPECT_DEATH(write(kept, 0), "use-after-poison");
  void* lent = allocator.allocate(4096, MemoryTag::activations);
  EXPECT_EQ(lent, kept);
  write(lent, 4095);
  EXPECT_DEATH(write(lent, 4096), "use-after-poison");
  allocator.free(lent, 4096, MemoryTag::activations);
  allocator.free(large, std::size_t{2} << 20, MemoryTag::weights);
  allocator.free(other, std::size_t{8} << 20, MemoryTag::weights);
}
#endif

// Batches of uneven lengths: no two have tensors of the same sizes.
TEST(Allocator, ProcessMemoryStaysNearPeakForManySizes) {
  Allocator allocator;
  std::mt19937 random(1);
  const std::int64_t before = process_bytes("VmRSS");
  for (int step = 0; step < 30; ++step) {
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (int i = 0; i < 24; ++i) {
      const std::size_t bytes = (std::size_t{1} << 16) + random() % (std::size_t{6} << 20);
      blocks.emplace_back(allocator.allocate(bytes, MemoryTag::activations), bytes);
      std::memset(blocks.back().first, 1, bytes);
    }
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (const auto& [block, bytes] : blocks) allocator.free(block, bytes, MemoryTag::activations);
  }
  const std::int64_t peak = allocator.report().total.peak;
  EXPECT_GT(peak, std::int64_t{64} << 20);
  if (testing::sanitized) GTEST_SKIP() << "sanitizers keep freed memory";
  EXPECT_LT(process_bytes("VmRSS") - before, peak + peak / 2 + (std::int64_t{16} << 20));
}

// A recurrent state that grows by one row per step and replaces the previous one.
TEST(Allocator, GrowingSizesReserveAtMostHalfMoreThanPeak) {
  Allocator allocator;
  void* block = allocator.allocate(4096, MemoryTag::recurrent_state);
  for (std::size_t row = 2; row <= 2000; ++row) {
    void* next = allocator.allocate(4096 * row, MemoryTag::recurrent_state);
    allocator.free(block, 4096 * (row - 1), MemoryTag::recurrent_state);
    block = next;
    const MemoryReport report = allocator.report();
    ASSERT_LE(2 * report.reserved, 3 * report.total.peak) << row;
  }
  allocator.free(block, 4096 * 2000, MemoryTag::recurrent_state);
}

TEST(Allocator, AlignsBlocksAndPadsAtMostAnEighth) {
  Allocator allocator;
  for (const std::size_t bytes : {0u, 1u, 64u, 65u, 1000u, 12345u, 1000000u, 5000000u, 40000000u}) {
    void* block = allocator.allocate(bytes, MemoryTag::workspace);
    const std::size_t alignment = bytes >= (4u << 20) ? 2u << 20 : 64u;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u) << bytes;
    const auto live = static_cast<std::size_t>(allocator.report().total.live);
    EXPECT_GE(live, bytes);
    EXPECT_LE(live, bytes + bytes / 8 + alignment) << bytes;
    std::memset(block, 1, bytes);
    allocator.free(block, bytes, MemoryTag::workspace);
  }
}

TEST(Allocator, ReportsFailedRequestAndCurrentUsage) {
  Allocator allocator;
  void* weights = allocator.allocate(1024, MemoryTag::weights);
  try {
    allocator.allocate(std::size_t{1} << 60, MemoryTag::activations);
    ADD_FAILURE() << "an exabyte was allocated";
  } catch (const Failure& failure) {
    const std::string message = failure.what();
    EXPECT_NE(message.find("1152921504.61 GB requested for activations"), std::string::npos)
        << message;
    EXPECT_NE(message.find("already allocated: weights 1.0 kB"), std::string::npos) << message;
  }
  EXPECT_EQ(allocator.report().total.live, 1024);
  allocator.free(weights, 1024, MemoryTag::weights);
}

TEST(Allocator, SupportsConcurrentThreads) {
  Allocator allocator;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&allocator] {
      for (std::size_t i = 1; i < 2000; ++i) {
        void* block = allocator.allocate(i * 7, MemoryTag::workspace);
        std::memset(block, 1, i * 7);
        allocator.free(block, i * 7, MemoryTag::workspace);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(allocator.report().total.live, 0);
}

TEST(Device, CopiesShareState) {
  struct Counter {
    int value = 0;
  };
  const Device device = Device::cpu(), copy = device;
  EXPECT_EQ(device, copy);
  EXPECT_NE(device, Device::cpu());
  device.state().get_or_create<Counter>().value = 7;
  EXPECT_EQ(copy.state().get_or_create<Counter>().value, 7);
  EXPECT_EQ(Device::cpu().state().get_or_create<Counter>().value, 0);
}

}  // namespace
}  // namespace longspan::allocator_test
