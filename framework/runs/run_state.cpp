#include "framework/runs/run_state.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <exception>

#include "checkpoints/files.h"
#include "framework/runs/metrics.h"

namespace longspan {

bool is_running(const std::filesystem::path& run) noexcept try {
  const Descriptor lock(::open((run / ".lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return lock.defined() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
} catch (const std::exception&) {
  return false;
}

std::int64_t last_logged_step(const std::filesystem::path& run) noexcept try {
  return end_of_metrics(run / "metrics.jsonl").step;
} catch (const std::exception&) {
  return 0;
}

}  // namespace longspan
