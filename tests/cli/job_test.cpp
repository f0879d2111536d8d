#include "launch/cli/job.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "framework/core/error.h"
#include "framework/distributed/launcher.h"

namespace longspan::job_test {
namespace {

// Jobs over machines, of a shell in place of mpirun, which are asked to stop as they begin.
class AskedJob : public ::testing::Test {
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

TEST_F(AskedJob, IsStoppedWhereMpirunEndsBeforeItHasStartedItsDaemons) {
  // What Open MPI 4.1 does with a signal in that time.
  const std::string dashes(74, '-');
  const std::string words = "ORTE does not know how to route a message to the specified daemon";
  const JobResult end = end_of("trap 'printf \"%s\\n\" " + dashes + " \"" + words + "\" " + dashes +
                                   " >&2; exit 0' USR1; while :; do sleep 0.1; done",
                               std::chrono::seconds(2));
  EXPECT_EQ(end.code, static_cast<int>(ExitCode::stopped));
  EXPECT_TRUE(end.was_asked);
}

TEST_F(AskedJob, IsStoppedWhereMpirunFailsBeforeARankIsHeard) {
  const JobResult end =
      end_of("trap 'exit 1' USR1; while :; do sleep 0.1; done", std::chrono::seconds(2));
  EXPECT_EQ(end.code, static_cast<int>(ExitCode::stopped));
}

TEST_F(AskedJob, HasItsOwnCodeWhereARankSaysItOrWhereNothingWasPassedOn) {
  EXPECT_EQ(end_of("trap 'echo longspan ends the job: 1 >&2; exit 1' USR1; "
                   "while :; do sleep 0.1; done",
                   std::chrono::seconds(2))
                .code,
            1);
  // The daemons may start for a minute: it fails before it is asked, though reminders are due.
  EXPECT_EQ(end_of("trap 'exit 0' USR1; sleep 12; exit 1", std::chrono::seconds(60)).code, 1);
}

// To the other ranks mpirun sends SIGTERM, which they take for a wish to stop.
TEST_F(AskedJob, IsNotStoppedWhereOnlyMpirunAskedItsRanks) {
  const std::string said = "echo longspan ends the job: 75 >&2; ";
  const std::chrono::seconds soon(2);
  EXPECT_EQ(end_of(said + "exit 137", soon, false).code, 137);
  const std::string dashes(74, '-');
  EXPECT_EQ(
      end_of(said + "printf '%s\\n' " + dashes +
                 " 'ORTE has lost communication with a remote daemon.' " + dashes + " >&2; exit 1",
             soon,
             false)
          .code,
      static_cast<int>(ExitCode::rank_failed));
  EXPECT_EQ(end_of(said + "exit 75", soon, false).code, 75);
}

TEST_F(AskedJob, ReportsTheSignalThatEndsARankAloneUnlessItsCallerDoes) {
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
