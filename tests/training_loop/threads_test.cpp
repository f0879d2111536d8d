#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "framework/training_loop/run_device.h"

namespace longspan::threads_test {
namespace {

class Threads : public ::testing::Test {
 protected:
  Threads() {
    if (const char* set = std::getenv("OMP_NUM_THREADS")) variable_ = set;
    unsetenv("OMP_NUM_THREADS");
  }
  ~Threads() override {
    omp_set_num_threads(threads_);
    if (variable_) setenv("OMP_NUM_THREADS", variable_->c_str(), 1);
  }

 private:
  int threads_ = omp_get_max_threads();
  std::optional<std::string> variable_;
};

TEST_F(Threads, DividesCoresEvenlyAmongRanks) {
  set_threads(0, 1);
  EXPECT_EQ(omp_get_max_threads(), omp_get_num_procs());
  set_threads(0, 1000000);
  EXPECT_EQ(omp_get_max_threads(), 1);
}

TEST_F(Threads, UsesOmpNumThreads) {
  omp_set_num_threads(3);  // as libgomp reads it at startup
  setenv("OMP_NUM_THREADS", "3", 1);
  set_threads(0, 1);
  EXPECT_EQ(omp_get_max_threads(), 3);
  unsetenv("OMP_NUM_THREADS");
}

// CPU seconds while one thread of two sleeps for 5 milliseconds after a parallel loop.
double seconds_of_waiting() {
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
#pragma omp parallel num_threads(2)
  asm volatile("");  // keeps the compiler from removing the region
  const double before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return used() - before;
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_F(Threads, SpinControlSleepsSoonUnderContention) {
  omp_set_num_threads(2);
  const SpinControl control(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its thread starts
  double min_seconds = 1;
  for (int i = 0; i < 5; ++i) min_seconds = std::min(min_seconds, seconds_of_waiting());
  EXPECT_LT(min_seconds, 1e-3);
}

TEST_F(Threads, SpinControlRespectsEnvironment) {
  omp_set_num_threads(2);
  const std::ptrdiff_t before = threads_of_this_process();
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr) setenv(name, "active", 1);
    const SpinControl control(1);
    EXPECT_EQ(threads_of_this_process(), before) << name;
    if (value == nullptr) unsetenv(name);
  }
}

TEST_F(Threads, SpinControlIgnoresSingleThread) {
  omp_set_num_threads(1);
  const std::ptrdiff_t before = threads_of_this_process();
  const SpinControl control(1);
  EXPECT_EQ(threads_of_this_process(), before);
}

// Otherwise each rank would fail when the limit keeps libgomp from starting a thread.
TEST_F(Threads, SpinControlIsOffNearThreadLimit) {
  omp_set_num_threads(2);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NPROC, &limit), 0);
  const rlimit few = {.rlim_cur = 7, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NPROC, &few), 0);
  const std::ptrdiff_t before = threads_of_this_process();
  {
    const SpinControl control(1);  // requires at least 2
    EXPECT_EQ(threads_of_this_process(), before);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NPROC, &limit), 0);
  const SpinControl control(129);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(Contention, IsAssumedUntilThreadsRunWithoutDelay) {
  Contention contention;
  EXPECT_TRUE(contention.update(0.05, 0.1, 0.001));  // too soon
  EXPECT_TRUE(contention.update(0.15, 0.001, 0));    // too little to decide from
  EXPECT_FALSE(contention.update(0.2, 0.1, 0.001));
  EXPECT_FALSE(contention.update(5, 0.1, 0.01));
}

TEST(Contention, DetectsThreadsWaitingForCores) {
  Contention contention;
  EXPECT_TRUE(contention.update(0.2, 0.1, 0.1));
  EXPECT_FALSE(contention.update(0.3, 0.1, 0));
  EXPECT_TRUE(contention.update(0.4, 0.1, 0.05));
}

// Threads that sleep soon have little delay even under contention.
TEST(Contention, RetriesLessAndLessOften) {
  Contention contention;
  int trials = 0;
  bool found = true;
  for (int tick = 1; tick <= 1200; ++tick) {  // 0.05 seconds each
    const bool before = found;
    found = contention.update(0.05 * tick, 0.05, found ? 0 : 0.05);
    trials += before && !found ? 1 : 0;
  }
  EXPECT_GE(trials, 5);
  EXPECT_LE(trials, 8);
}

TEST_F(Threads, UsesRequestedNumber) {
  set_threads(2, 1);
  EXPECT_EQ(omp_get_max_threads(), 2);
  set_threads(5, 1000);
  EXPECT_EQ(omp_get_max_threads(), 5);
}

}  // namespace
}  // namespace longspan::threads_test
