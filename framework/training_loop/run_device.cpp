#include "framework/training_loop/run_device.h"

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/gpu.h"
#include "framework/core/span.h"
#include "framework/planning/machine.h"

namespace longspan {

Device run_device(const RunOptions& run,
                  const PrecisionOptions& precision,
                  const Communicator& world,
                  int local_rank) {
  if (run.device == DeviceChoice::cpu) return Device::cpu();
  const std::vector<int> gpus = gpu::usable();
  if (gpus.empty() && run.device == DeviceChoice::cuda)
    throw ConfigurationError("run.device: cuda is not available: {}", gpu::unavailable_reason());
  if (world.all_reduce(std::int64_t{!gpus.empty()}, Reduction::minimum) == 0) return Device::cpu();
  const Device device = Device::cuda(gpus[static_cast<std::size_t>(local_rank) % gpus.size()]);
  device.state().set_tf32(precision.tf32);
  return device;
}

namespace {

// Time that threads of this process ran, and that they waited for a core.
class CoreTimes {
 public:
  struct Seconds {
    double running = 0;
    double delayed = 0;
  };

  // Returns the times since the previous call, without the threads `skipped`. Zero if the kernel
  // does not count them.
  Seconds read(const std::set<std::string>& skipped) {
    constexpr int max_threads_read = 32;  // each costs some microseconds
    Seconds sum;
    int count = 0;
    std::error_code error;
    std::filesystem::directory_iterator task("/proc/self/task", error);
    for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
      const std::string thread = task->path().filename().string();
      if (skipped.contains(thread)) continue;
      if (++count > max_threads_read) break;
      Seconds now;  // in nanoseconds
      std::ifstream file(task->path() / "schedstat");
      if (!(file >> now.running >> now.delayed)) continue;
      Seconds& before = last_[thread];
      sum.running += std::max(0.0, now.running - before.running) / 1e9;
      sum.delayed += std::max(0.0, now.delayed - before.delayed) / 1e9;
      before = now;
    }
    return sum;
  }

 private:
  std::map<std::string, Seconds> last_;  // by thread
};

// Creates a team of the calling thread and others, which sleep. Returns its thread IDs.
std::set<std::string> start_team(int threads) {
  std::vector<pid_t> ids(static_cast<std::size_t>(threads));
#pragma omp parallel num_threads(threads)
  ids[static_cast<std::size_t>(omp_get_thread_num())] = gettid();
  std::set<std::string> names;
  for (const pid_t id : ids) names.insert(fmt::format("{}", id));
  return names;
}

void release_team() { omp_pause_resource(omp_pause_soft, omp_get_initial_device()); }

// Keeps a team of `threads` while there is contention.
void monitor_contention(const std::stop_token& stop, int threads) try {
  const Stopwatch clock;
  CoreTimes times;
  Contention contention;
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  std::set<std::string> team = start_team(threads);
  times.read(team);
  for (bool found = true; !stop.stop_requested();) {
    // More frequent at first, since a run may be short.
    const auto pause = std::chrono::milliseconds(clock.seconds() < 2 ? 50 : 250);
    condition.wait_for(lock, stop, pause, [] { return false; });
    const CoreTimes::Seconds since = times.read(team);
    const bool before =
        std::exchange(found, contention.update(clock.seconds(), since.running, since.delayed));
    if (found == before) continue;
    if (found)
      team = start_team(threads);
    else
      release_team();
  }
} catch (const std::exception&) {
  // Falls back to libgomp's waiting, which is only slower on a busy machine.
}

// Whether `threads` may be started: a rank that cannot start a required thread ends.
bool may_hold(int threads) {
  constexpr int max_new_threads = 256;  // per machine
  const std::optional<double> left = threads_left();
  return threads <= max_new_threads && (!left || threads <= *left / 4);
}

}  // namespace

std::int64_t core_share(int local_ranks) { return std::max(1, omp_get_num_procs() / local_ranks); }

void set_threads(std::int64_t wanted, int local_ranks) {
  if (wanted == 0 && std::getenv("OMP_NUM_THREADS") == nullptr) wanted = core_share(local_ranks);
  if (wanted > 0) omp_set_num_threads(static_cast<int>(wanted));
}

bool Contention::update(double now, double running, double delayed) {
  running_ += running;
  delayed_ += delayed;
  if (running_ + delayed_ < 0.1) return found_;  // too little data to decide
  // An idle machine has some delays too: its other threads, and those of the system. A busy program
  // on each core makes it a half.
  const bool delays = delayed_ > 0.3 * (running_ + delayed_);
  running_ = delayed_ = 0;
  if (delays == found_ || (found_ && now - since_ < shortest_)) return found_;
  // Threads that sleep soon are delayed little where others compute, so spinning is retried at
  // increasing intervals.
  if (delays) shortest_ = now - since_ > 10 ? 1 : std::min(2 * std::max(shortest_, 0.5), 60.0);
  found_ = delays;
  since_ = now;
  return found_;
}

SpinControl::SpinControl(int local_ranks) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"})
    if (std::getenv(name) != nullptr) return;
  // All but the first thread of a team count, plus the process's own first thread.
  const int threads = std::max(2, omp_get_num_procs() - omp_get_max_threads() + 2);
  if (omp_get_max_threads() == 1 || !may_hold(threads * local_ranks)) return;
  try {
    watch_ = std::jthread(monitor_contention, threads);
  } catch (const std::system_error&) {  // a limit that `threads_left` does not read
  }
}

}  // namespace longspan
