#include "framework/distributed/session.h"

#include <cstdio>
#include <exception>
#include <utility>

#include "framework/distributed/launcher.h"
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

}  // namespace longspan
