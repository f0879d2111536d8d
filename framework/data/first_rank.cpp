#include "framework/data/first_rank.h"

#include <omp.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

namespace {

constexpr std::chrono::milliseconds patience(200);
constexpr std::int64_t finished = std::numeric_limits<std::int64_t>::max();

struct Progress {
  std::atomic<std::int64_t> done = 0;
  std::atomic<bool> is_unwanted = false;
};

// What it tells is kept in `progress`, which it owns too.
std::future<std::string> start(std::function<std::string(const ScanListener&)> work,
                               const std::shared_ptr<Progress>& progress) {
  std::packaged_task<std::string()> task(
      [work = std::move(work), progress, threads = omp_get_max_threads()] {
        omp_set_num_threads(threads);
        return work([&progress](const ScanProgress& told) {
          if (progress->is_unwanted) throw Failure("{}: nobody waits for it", told.path);
          progress->done = told.done;
        });
      });
  std::future<std::string> result = task.get_future();
  // Signals are for the thread that trains; the new thread inherits the mask.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(std::move(task)).detach();
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

}  // namespace

std::string on_chosen_ranks(const Communicator& all,
                            bool is_chosen,
                            const std::string& path,
                            std::int64_t size,
                            const ScanListener& listener,
                            std::function<std::string(const ScanListener&)> work) {
  const auto progress = std::make_shared<Progress>();
  // Destroyed when the caller is told of a failure: the work is not to go on for nobody.
  const std::shared_ptr<void> wanted(nullptr, [progress](void*) { progress->is_unwanted = true; });
  std::future<std::string> future;
  if (is_chosen) future = start(std::move(work), progress);
  std::string result;
  while (true) {
    std::int64_t done = finished;
    if (future.valid()) {
      const bool is_ready = future.wait_for(patience) == std::future_status::ready;
      if (is_ready) result = future.get();
      done = is_ready ? finished : progress->done.load();
    }
    done = all.all_reduce(done, Reduction::minimum);
    if (done == finished) return result;
    if (listener) listener({path, done, size});
  }
}

std::string on_first_rank(const Communicator& all,
                          const std::string& path,
                          std::int64_t size,
                          const ScanListener& listener,
                          std::function<std::string(const ScanListener&)> work) {
  return all.broadcast(on_chosen_ranks(all, all.rank() == 0, path, size, listener, std::move(work)),
                       0);
}

}  // namespace longspan
