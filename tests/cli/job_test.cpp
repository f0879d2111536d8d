#include "launch/cli/job.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "framework/core/error.h"
#include "framework/distributed/session.h"

namespace longspan::job_test {
namespace {

// Multi-machine jobs that run a shell script instead of mpirun and receive SIGTERM at their start.
class RunJob : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_SETMASK, nullptr, &before_);
    block_signals();
  }
  void TearDown() override {
    ::unsetenv(launcher_variable);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  static JobResult end_of(const std::string& script,
                          std::chrono::seconds daemons_start,
                          bool is_asked = true) {
    if (is_asked) ::raise(SIGTERM);
    return run_job({.command = {"/bin/sh", "-c", script},
                    .by_mpirun = true,
                    .saves = true,
                    .is_local = false,
                    .daemons_start = daemons_start});
  }

  sigset_t before_ = {};
};

TEST_F(RunJob, ReturnsStoppedWhenMpirunEndsBeforeDaemonsStart) {
  // Open MPI 4.1 prints this message for a signal before its daemons run.
  const std::string dashes(74, '-');
  const std::string words = "ORTE does not know how to route a message to the specified daemon";
  const JobResult end = end_of("trap 'printf \"%s\\n\" " + dashes + " \"" + words + "\" " + dashes +
                                   " >&2; exit 0' USR1; while :; do sleep 0.1; done",
                               std::chrono::seconds(2));
  EXPECT_EQ(end.code, static_cast<int>(ExitCode::stopped));
  EXPECT_TRUE(end.was_asked);
}

TEST_F(RunJob, ReturnsStoppedWhenMpirunFailsBeforeAnyRankReports) {
  const JobResult end =
      end_of("trap 'exit 1' USR1; while :; do sleep 0.1; done", std::chrono::seconds(2));
  EXPECT_EQ(end.code, static_cast<int>(ExitCode::stopped));
}

TEST_F(RunJob, KeepsExitCodeWhenStopIsNotTheCause) {
  EXPECT_EQ(end_of("trap 'echo longspan ends the job: 1 >&2; exit 1' USR1; "
                   "while :; do sleep 0.1; done",
                   std::chrono::seconds(2))
                .code,
            1);
  // mpirun fails within the minute that daemons may take, before the stop request is forwarded.
  EXPECT_EQ(end_of("trap 'exit 0' USR1; sleep 12; exit 1", std::chrono::seconds(60)).code, 1);
}

// After a failure mpirun sends SIGTERM to the other ranks, which handle it as a stop request.
TEST_F(RunJob, PrefersFailureOverStopCodesFromRanks) {
  const std::string report = "echo longspan ends the job: 75 >&2; ";
  const std::chrono::seconds soon(2);
  EXPECT_EQ(end_of(report + "exit 137", soon, false).code, 137);
  const std::string dashes(74, '-');
  EXPECT_EQ(
      end_of(report + "printf '%s\\n' " + dashes +
                 " 'ORTE has lost communication with a remote daemon.' " + dashes + " >&2; exit 1",
             soon,
             false)
          .code,
      static_cast<int>(ExitCode::rank_failed));
  EXPECT_EQ(end_of(report + "exit 75", soon, false).code, 75);
}

TEST_F(RunJob, ReportsFatalSignalUnlessCallerReports) {
  for (const bool caller_reports : {false, true}) {
    ::testing::internal::CaptureStderr();
    const JobResult end = run_job({.command = {"/bin/sh", "-c", "kill -9 $$"},
                                   .saves = true,
                                   .caller_reports = caller_reports});
    const std::string errors = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(end.code, 137);
    EXPECT_EQ(errors.find("a rank was killed by signal 9 (Killed)") == errors.npos, caller_reports);
  }
}

}  // namespace
}  // namespace longspan::job_test
