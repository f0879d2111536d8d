#include "framework/distributed/session.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "framework/distributed/runtime.h"

namespace longspan {

Session::Session(const SessionOptions& options)
    : runtime_(std::make_shared<Runtime>(options)), exceptions_(std::uncaught_exceptions()) {
  notify_launcher("the start of the job");
  if (runtime_->size() > 1) world_ = Communicator(runtime_->make_world());
}

Session::~Session() {
  const bool in_order = std::uncaught_exceptions() == exceptions_ && !runtime_->is_over();
  if (in_order) {
    // MPI_Finalize waits for all ranks without a timeout, so it is called only once they are here.
    try {
      world_.barrier();
    } catch (const std::exception& error) {
      if (claim_error_report()) {
        std::fprintf(stderr, "longspan: %s\n", error.what());
        tell(error.what());
      }
      abort(static_cast<int>(ExitCode::rank_failed));
    }
  }
  runtime_->finish(in_order);
}

void Session::set_time_limit(std::chrono::duration<double> limit) {
  runtime_->set_time_limit(limit);
}

int Session::local_rank() const { return runtime_->local_rank(); }

int Session::local_size() const { return runtime_->local_size(); }

std::chrono::duration<double> Session::waited() const { return runtime_->waited(); }

bool Session::claim_error_report() const { return runtime_->claim_error_report(); }

void Session::set_listener(std::function<void(const char*)> listener) {
  listener_ = std::move(listener);
}

void Session::tell(const char* sentence) const {
  if (listener_) listener_(sentence);
}

void Session::abort(int exit_code) const { runtime_->abort(exit_code); }

void report_job_end(int exit_code) {
  if (std::getenv(end_variable) != nullptr)
    std::fprintf(stderr, "%s%d\n", std::string(end_words).c_str(), exit_code);
}

void notify_launcher(std::string_view doing) {
  const char* const variable = std::getenv(launcher_variable);
  if (variable == nullptr) return;
  const std::string_view name = variable;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // The leading 0 byte makes the address abstract instead of a path.
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.data(), length, address.sun_path + 1);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  [[maybe_unused]] const auto sent = ::sendto(socket,
                                              doing.data(),
                                              doing.size(),
                                              MSG_NOSIGNAL,
                                              reinterpret_cast<const sockaddr*>(&address),
                                              bytes);
  ::close(socket);
}

}  // namespace longspan
