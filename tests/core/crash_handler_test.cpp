#include "framework/core/crash_handler.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <regex>
#include <stdexcept>
#include <string>

#include "tests/support/sanitizers.h"
#include "tests/support/temporary_directory.h"

namespace longspan::crash_handler_test {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

// Throws in its destructor.
template <typename E>
struct Throwing {
  ~Throwing() { fail(); }
  static void fail() { throw E("a folder cannot be left"); }
};
template <>
void Throwing<std::bad_alloc>::fail() {
  throw std::bad_alloc();
}

template <typename E>
void leave() {
  const Throwing<E> throwing;
}

TEST(CrashHandler, ReportsUncaughtExceptions) {
  EXPECT_EXIT((install_crash_handlers(), leave<std::bad_alloc>()),
              ExitedWithCode(1),
              "^longspan: out of memory\n$");
  EXPECT_EXIT((install_crash_handlers(), leave<std::runtime_error>()),
              ExitedWithCode(1),
              "^longspan: a folder cannot be left\n$");
  EXPECT_EXIT((install_crash_handlers(), std::terminate()),
              ExitedWithCode(1),
              "^longspan: internal error: the program aborted\n$");
}

TEST(CrashHandler, ReportsExitsFromLibraries) {
  EXPECT_EXIT((install_crash_handlers(), std::exit(-1)),
              ExitedWithCode(1),
              "^longspan: out of memory, or a library aborted the program");
  EXPECT_EXIT((install_crash_handlers(), std::exit(3)), ExitedWithCode(3), "^$");
}

// More calls than a stack can hold.
[[gnu::noinline]] int fill_stack(std::int64_t calls) {
  volatile int here[256] = {};
  here[0] = calls == 0 ? 0 : fill_stack(calls - 1);
  return here[0] + here[1];
}

// Prevents an unlimited stack from using all memory.
void limit_stack() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_STACK, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, rlim_t{8} << 20);
  ::setrlimit(RLIMIT_STACK, &limit);
}

TEST(CrashHandler, ReportsStackOverflow) {
  if (testing::sanitized) GTEST_SKIP() << "the sanitizer speaks itself";
  EXPECT_EXIT(
      (limit_stack(), install_crash_handlers(), std::exit(fill_stack(std::int64_t{1} << 40))),
      KilledBySignal(SIGSEGV),
      "^longspan: signal 11 \\(Segmentation fault\\): [^\n]+\n$");
}

TEST(CrashHandler, ReportsAndReraisesSignals) {
  if (testing::sanitized) GTEST_SKIP() << "the sanitizer speaks itself";
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT})
    EXPECT_EXIT((install_crash_handlers(), std::raise(number)),
                KilledBySignal(number),
                "^longspan: signal [0-9]+ \\([A-Za-z ]+\\): [^\n]+\n$");
}

// The last line of the log, with a time stamp like the other lines.
TEST(CrashHandler, AppendsErrorToLog) {
  const testing::TemporaryDirectory folder;
  const std::filesystem::path log = folder.path() / "log.txt";
  std::ofstream(log) << "2026-01-31 12:00:00.000 info trains\n";
  EXPECT_EXIT((install_crash_handlers(), set_crash_log(log), std::terminate()),
              ExitedWithCode(1),
              "^longspan: internal error: the program aborted\n$");
  std::ifstream file(log);
  std::string first, last, none;
  std::getline(file, first);
  std::getline(file, last);
  EXPECT_EQ(first, "2026-01-31 12:00:00.000 info trains");
  EXPECT_TRUE(
      std::regex_match(last,
                       std::regex("20\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d\\.\\d{3} error "
                                  "internal error: the program aborted")))
      << last;
  EXPECT_FALSE(std::getline(file, none));

  // A missing log is not created.
  std::filesystem::remove(log);
  EXPECT_EXIT((install_crash_handlers(), set_crash_log(log), std::terminate()),
              ExitedWithCode(1),
              "^longspan: internal error: the program");
  EXPECT_FALSE(std::filesystem::exists(log));
}

}  // namespace
}  // namespace longspan::crash_handler_test
