#include "framework/runs/threads.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstdlib>
#include <optional>
#include <string>

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

TEST_F(Threads, AreAnEvenShareOfTheCores) {
  set_threads(0, 1);
  EXPECT_EQ(omp_get_max_threads(), omp_get_num_procs());
  set_threads(0, 1000000);
  EXPECT_EQ(omp_get_max_threads(), 1);
}

TEST_F(Threads, AreWhatTheEnvironmentSays) {
  omp_set_num_threads(3);  // as the library has read it
  setenv("OMP_NUM_THREADS", "3", 1);
  set_threads(0, 1);
  EXPECT_EQ(omp_get_max_threads(), 3);
  unsetenv("OMP_NUM_THREADS");
}

TEST_F(Threads, AreAsManyAsWanted) {
  set_threads(2, 1);
  EXPECT_EQ(omp_get_max_threads(), 2);
  set_threads(5, 1000);
  EXPECT_EQ(omp_get_max_threads(), 5);
}

}  // namespace
}  // namespace longspan::threads_test
