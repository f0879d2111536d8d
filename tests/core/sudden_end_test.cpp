#include "framework/core/sudden_end.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "tests/support/sanitizers.h"

namespace longspan {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

// What throws as it ends.
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

TEST(SuddenEnd, OfAnExceptionThatCannotBePassedOnIsASentence) {
  EXPECT_EXIT((speak_at_sudden_end(), leave<std::bad_alloc>()),
              ExitedWithCode(1),
              "^longspan: the machine has no memory left\n$");
  EXPECT_EXIT((speak_at_sudden_end(), leave<std::runtime_error>()),
              ExitedWithCode(1),
              "^longspan: a folder cannot be left\n$");
  EXPECT_EXIT((speak_at_sudden_end(), std::terminate()),
              ExitedWithCode(1),
              "^longspan: the program has ended itself, which is a defect\n$");
}

TEST(SuddenEnd, ByALibraryIsASentence) {
  EXPECT_EXIT((speak_at_sudden_end(), std::exit(-1)),
              ExitedWithCode(1),
              "^longspan: the machine has no memory left, or a library has ended the program");
  EXPECT_EXIT((speak_at_sudden_end(), std::exit(3)), ExitedWithCode(3), "^$");
}

// More calls than any stack has room for.
[[gnu::noinline]] int fill_stack(std::int64_t calls) {
  volatile int here[256] = {};
  here[0] = calls == 0 ? 0 : fill_stack(calls - 1);
  return here[0] + here[1];
}

TEST(SuddenEnd, ByAFullStackIsASentence) {
  if (testing::sanitized) GTEST_SKIP() << "the sanitizer speaks itself";
  EXPECT_EXIT((speak_at_sudden_end(), std::exit(fill_stack(std::int64_t{1} << 40))),
              KilledBySignal(SIGSEGV),
              "^longspan: signal 11 \\(Segmentation fault\\) ends this process: [^\n]+\n$");
}

TEST(SuddenEnd, BySignalsIsASentenceAndTheSignal) {
  if (testing::sanitized) GTEST_SKIP() << "the sanitizer speaks itself";
  for (const int number : {SIGSEGV, SIGBUS})
    EXPECT_EXIT((speak_at_sudden_end(), std::raise(number)),
                KilledBySignal(number),
                "^longspan: signal [0-9]+ \\([A-Za-z ]+\\) ends this process: [^\n]+\n$");
}

}  // namespace
}  // namespace longspan
