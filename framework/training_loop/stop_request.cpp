#include "framework/training_loop/stop_request.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "framework/core/crash_handler.h"
#include "framework/core/error.h"
#include "framework/distributed/session.h"

namespace longspan {
namespace {

// A signal handler can access only globals.
std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::array signals = {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT};

std::atomic<bool> answers{false};       // StopRequest::answer_signals
std::atomic<bool> is_of_mpirun{false};  // a rank that mpirun started
std::atomic<bool> has_answered{false};
std::atomic<bool> has_warned{false};  // about mpirun's SIGTERM

constexpr std::string_view message_of(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM: saving and stopping after this step";
    case SIGHUP:
      return "SIGHUP: saving and stopping after this step";
    case SIGUSR1:
      return "SIGUSR1: saving and stopping after this step";
    default:
      return "SIGUSR2: saving and stopping after this step";
  }
}

void answer(int signal) {
  if (signal == SIGTERM && is_of_mpirun) {
    if (has_warned.exchange(true)) return;
    write_once_to_log(
        "warning",
        "SIGTERM: mpirun is ending the job, because a rank was killed (kill -9, out of memory) or "
        "mpirun was asked to end. It kills the ranks in about 2 s; a longer step is lost");
    return;
  }
  if (has_answered.exchange(true)) return;
  write_once_to_log("info", message_of(signal));
}

void ask(int signal) {
  stop_asked.store(true, std::memory_order_relaxed);
  if (signal != SIGINT) {
    const int error = errno;
    if (answers) answer(signal);
    errno = error;
    return;
  }
  constexpr std::string_view answer =
      "\nSaving and stopping after this step; press Ctrl-C again to stop at once\n";
  const int error = errno;
  // If standard error is not read, the message is lost.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, answer.data(), answer.size());
  errno = error;
}

void handle_with(void (*handler)(int)) {
  // Signals that nohup, or a shell for background processes, set to be ignored remain so.
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
    if (signals[n] == SIGINT) {  // a second one ends a process that hangs
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
  require(sigaltstack(&own, &outer_) == 0, "sigaltstack failed");
  stop_asked = false;
  handle_with(ask);
}
// The request is fulfilled: a second signal must not end the process before it has reported how.
StopRequest::~StopRequest() {
  answers = false;
  handle_with(SIG_IGN);
  close_log_for_signals();
  sigaltstack(&outer_, nullptr);
}

void StopRequest::answer_signals() const {
  if (std::getenv(launcher_variable) != nullptr || std::getenv(end_variable) != nullptr) return;
  answers = false;
  open_log_for_signals();
  has_answered = has_warned = false;
  is_of_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  answers = true;
}

bool StopRequest::requested() const { return stop_asked.load(std::memory_order_relaxed); }

}  // namespace longspan
