#include "framework/core/sudden_end.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <string_view>

#include "framework/core/error.h"

namespace longspan {
namespace {

constexpr std::string_view no_memory = "the machine has no memory left";
constexpr int code_of_libraries = -1;

// In one call, so that what other ranks say does not come in between.
void say(std::initializer_list<std::string_view> parts) noexcept {
  constexpr std::string_view begin = "longspan: ", end = "\n";
  std::array<iovec, 5> pieces = {};
  int count = 0;
  const auto add = [&](std::string_view part) {
    pieces[static_cast<std::size_t>(count++)] = {const_cast<char*>(part.data()), part.size()};
  };
  add(begin);
  for (const std::string_view part : parts) add(part);
  add(end);
  // Where it cannot be written there is nobody to tell.
  [[maybe_unused]] const ssize_t written = ::writev(STDERR_FILENO, pieces.data(), count);
}

[[noreturn]] void end_with_failure() noexcept { std::_Exit(static_cast<int>(ExitCode::failure)); }

[[noreturn]] void end_by_exception() noexcept {
  try {
    if (std::current_exception()) throw;
    say({"the program has ended itself, which is a defect"});
  } catch (const std::bad_alloc&) {
    say({no_memory});
  } catch (const std::exception& error) {
    say({error.what()});
  } catch (...) {
    say({"an unknown error has ended the program"});
  }
  end_with_failure();
}

void end_by_library(int code, void*) {
  if (code != code_of_libraries) return;
  say({no_memory, ", or a library has ended the program for another reason"});
  end_with_failure();
}

// A full stack has no room for what the signal calls: it runs on this one, in the main thread.
void set_stack_of_signals() {
  alignas(64) static std::array<std::byte, std::size_t{1} << 16> memory;
  const stack_t stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  ::sigaltstack(&stack, nullptr);
}

// The signal is sent again, for which nothing is set any more (SA_RESETHAND).
void end_by_signal(int number) {
  say({number == SIGSEGV ? "signal 11 (Segmentation fault)" : "signal 7 (Bus error)",
       " ends this process: a disk or ",
       "the memory is full, or it is a defect of the program or of a library"});
  ::raise(number);
}

}  // namespace

void speak_at_sudden_end() {
  std::set_terminate(end_by_exception);
  ::on_exit(end_by_library, nullptr);
  set_stack_of_signals();
  for (const int number : {SIGSEGV, SIGBUS}) {
    struct sigaction before = {}, handler = {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    handler.sa_handler = end_by_signal;
    handler.sa_flags = SA_RESETHAND | SA_ONSTACK;
    ::sigaction(number, &handler, nullptr);
  }
}

}  // namespace longspan
