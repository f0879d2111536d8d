#include "framework/training_loop/stop_request.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "checkpoints/files.h"
#include "framework/core/crash_handler.h"
#include "framework/distributed/session.h"
#include "tests/support/temporary_directory.h"

namespace longspan::stop_request_test {
namespace {

// The parent process may have set these signals to be ignored.
void ignore_none() {
  for (const int number : {SIGHUP, SIGINT}) signal(number, SIG_DFL);
}

TEST(StopRequest, HandlesEachSignal) {
  ignore_none();
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT}) {
    const StopRequest stop;
    EXPECT_FALSE(stop.requested());
    raise(signal);
    EXPECT_TRUE(stop.requested());
  }
}

TEST(StopRequestDeathTest, SecondInterruptKillsProcess) {
  const auto interrupt = [] {
    ignore_none();
    const StopRequest stop;
    raise(SIGINT);
    if (!stop.requested()) return;
    raise(SIGINT);
  };
  EXPECT_EXIT(interrupt(), ::testing::KilledBySignal(SIGINT), "again to stop at once");
}

TEST(StopRequestDeathTest, RespectsInheritedIgnoreForHangupOnly) {
  const auto hang_up = [] {
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);  // job scripts ignore it for themselves only
    const StopRequest stop;
    raise(SIGHUP);
    if (stop.requested()) _exit(1);
    raise(SIGUSR1);
    _exit(stop.requested() ? 0 : 2);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process without earlier StopRequests
  EXPECT_EXIT(hang_up(), ::testing::ExitedWithCode(0), "");
}

void leave_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", launcher_variable, end_variable}) unsetenv(name);
}

TEST(StopRequest, ReportsThatMpirunEndsItsOnlyRank) {
  leave_mpirun();
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  ::testing::internal::CaptureStdout();
  {
    const StopRequest stop;
    stop.answer_signals();
    raise(SIGTERM);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout().find("SIGTERM: mpirun is ending the job"), 0u);
  leave_mpirun();
}

TEST(StopRequest, ReleasesTheLogAtItsEnd) {
  leave_mpirun();
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "log.txt";
  const Descriptor log(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  set_crash_log(path);
  {
    const StopRequest stop;
    stop.answer_signals();
    raise(SIGUSR1);
    EXPECT_NE(flock(log.get(), LOCK_EX | LOCK_NB), 0);
  }
  EXPECT_EQ(flock(log.get(), LOCK_EX | LOCK_NB), 0);
}

#if defined(__x86_64__)
// Number of bytes below this function's stack that a signal changes. Makes no calls, which would
// also write there.
[[gnu::noinline, gnu::no_sanitize("address", "undefined")]] int changed_below_the_stack() {
  constexpr int first = 1024, last = 16384;
  auto* const top = static_cast<volatile char*>(__builtin_frame_address(0));
  for (int i = first; i < last; ++i) top[-i] = 42;
  long result = SYS_getpid;
  asm volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
  const long process = result;
  result = SYS_kill;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(process), "S"(long{SIGUSR1})
               : "rcx", "r11", "memory");
  int changed = 0;
  for (int i = first; i < last; ++i) changed += top[-i] != 42;
  return changed;
}

TEST(StopRequest, DoesNotWriteBelowTheStack) {
  const StopRequest stop;
  EXPECT_EQ(changed_below_the_stack(), 0);
  EXPECT_TRUE(stop.requested());
}
#endif

}  // namespace
}  // namespace longspan::stop_request_test
