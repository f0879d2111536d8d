#include "framework/runs/stop_request.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "framework/core/error.h"

namespace longspan {
namespace {

// A signal handler can reach nothing else.
std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::array signals = {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT};

void ask(int signal) {
  stop_asked.store(true, std::memory_order_relaxed);
  if (signal != SIGINT) return;
  constexpr std::string_view answer =
      "\nsaves and stops after this step; once more stops at once\n";
  const int error = errno;
  // Whoever does not read it is asked nothing.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, answer.data(), answer.size());
  errno = error;
}

void handle_with(void (*handler)(int)) {
  // What nohup, or a shell for what it starts in the background, lets a process ignore remains so.
  static const auto ignored = [] {
    std::array<bool, signals.size()> all = {};
    for (std::size_t n = 0; n < signals.size(); ++n) {
      struct sigaction action = {};
      sigaction(signals[n], nullptr, &action);
      const bool is_terminals = signals[n] == SIGHUP || signals[n] == SIGINT;
      all[n] = is_terminals && action.sa_handler == SIG_IGN;
    }
    return all;
  }();
  for (std::size_t n = 0; n < signals.size(); ++n) {
    if (ignored[n]) continue;
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    if (signals[n] == SIGINT) {  // the second time it ends whatever hangs
      action.sa_flags |= static_cast<int>(SA_RESETHAND);
      if (handler == SIG_IGN) action.sa_handler = SIG_DFL;
    }
    sigemptyset(&action.sa_mask);
    sigaction(signals[n], &action, nullptr);
  }
}

}  // namespace

StopRequest::StopRequest() : stack_(std::size_t{1} << 16) {
  const stack_t own = {.ss_sp = stack_.data(), .ss_flags = 0, .ss_size = stack_.size()};
  require(sigaltstack(&own, &outer_) == 0, "there is no stack for signals");
  stop_asked = false;
  handle_with(ask);
}
// What was asked for is done: a second signal must not end the process before it has said how.
StopRequest::~StopRequest() {
  handle_with(SIG_IGN);
  sigaltstack(&outer_, nullptr);
}

bool StopRequest::asked() const { return stop_asked.load(std::memory_order_relaxed); }

}  // namespace longspan
