#include "framework/train/stop_request.h"

#include <array>
#include <atomic>
#include <csignal>

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
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : signals) sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  stop_asked = false;
  handle_with(ask);
}
// What was asked for is done: a second signal must not end the process before it has said how.
StopRequest::~StopRequest() { handle_with(SIG_IGN); }

bool StopRequest::asked() const { return stop_asked.load(std::memory_order_relaxed); }

}  // namespace longspan
