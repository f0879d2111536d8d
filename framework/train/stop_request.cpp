#include "framework/train/stop_request.h"

#include <array>
#include <atomic>
#include <csignal>

#include "framework/core/error.h"

namespace longspan {
namespace {

// A signal handler can reach nothing else.
std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::array signals = {SIGUSR1, SIGUSR2, SIGTERM};

void ask(int) { stop_asked.store(true, std::memory_order_relaxed); }

void handle_with(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : signals) sigaction(signal, &action, nullptr);
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
