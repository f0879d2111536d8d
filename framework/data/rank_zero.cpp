#include "framework/data/rank_zero.h"

#include <omp.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/corpus/corpus.h"
#include "framework/data/corpus/text_input.h"

namespace longspan {
namespace {

constexpr std::chrono::milliseconds patience(200);
constexpr double finished = 2;  // above the maximum fraction

// Progress of the work, which may read several files one after another.
class Progress {
 public:
  void set(const ScanProgress& told) {
    const std::lock_guard lock(mutex_);
    if (!told.note.empty()) {
      notes_.push_back({told.path, told.note});
      return;
    }
    path_ = told.path;
    done_ = told.done;
    size_ = told.size;
  }
  // Returns the fraction read of the current file.
  double share() const {
    const std::lock_guard lock(mutex_);
    return size_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(size_)) : 0;
  }
  // Returns false if nothing was reported yet.
  bool report(const ProgressCallback& listener) const {
    std::unique_lock lock(mutex_);
    const std::string path = path_;
    const ScanProgress progress = {path, std::min(done_, size_), size_};
    lock.unlock();
    if (progress.size > 0) listener(progress);
    return progress.size > 0;
  }

  // Reports each note once.
  void report_notes(const ProgressCallback& listener) {
    std::unique_lock lock(mutex_);
    const std::vector<Note> notes = std::exchange(notes_, {});
    lock.unlock();
    for (const Note& note : notes) listener({note.path, 0, 0, note.text});
  }

  std::atomic<bool> is_unwanted = false;

 private:
  struct Note {
    std::string path;
    std::string text;
  };

  mutable std::mutex mutex_;
  std::vector<Note> notes_;
  std::string path_;
  std::int64_t done_ = 0;
  std::int64_t size_ = 0;
};

// `progress` stores the reports of the work and is co-owned by it.
std::future<std::string> start(std::function<std::string(const ProgressCallback&)> work,
                               const std::shared_ptr<Progress>& progress) {
  std::packaged_task<std::string()> task(
      [work = std::move(work), progress, threads = omp_get_max_threads()] {
        omp_set_num_threads(threads);
        return work([&progress](const ScanProgress& told) {
          if (progress->is_unwanted) throw Failure("{}: canceled, no rank waits for it", told.path);
          progress->set(told);
        });
      });
  std::future<std::string> result = task.get_future();
  // The training thread handles signals. The new thread inherits this mask.
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

bool path_exists(const ConfigPath& path, const Communicator& all) {
  const bool found = all.rank() == 0 && !path.empty() && path_exists(path.text());
  return all.all_reduce(std::int64_t{found}, Reduction::maximum) == 1;
}

std::string run_on_selected_ranks(const Communicator& all,
                                  bool is_chosen,
                                  const std::string& path,
                                  std::int64_t size,
                                  const ProgressCallback& listener,
                                  std::function<std::string(const ProgressCallback&)> work) {
  const auto progress = std::make_shared<Progress>();
  // Destroyed when an error reaches the caller, to cancel the abandoned work.
  const std::shared_ptr<void> wanted(nullptr, [progress](void*) { progress->is_unwanted = true; });
  std::future<std::string> future;
  if (is_chosen) future = start(std::move(work), progress);
  std::string result;
  while (true) {
    double share = finished;
    if (future.valid()) {
      const bool is_ready = future.wait_for(patience) == std::future_status::ready;
      if (is_ready) result = future.get();
      share = is_ready ? finished : progress->share();
    }
    const double least = all.all_reduce(share, Reduction::minimum);
    if (listener) progress->report_notes(listener);
    if (least == finished) return result;
    if (!listener || (share == least && progress->report(listener))) continue;
    listener({path, std::llround(least * static_cast<double>(size)), size});
  }
}

std::string run_on_rank_zero(const Communicator& all,
                             const std::string& path,
                             std::int64_t size,
                             const ProgressCallback& listener,
                             std::function<std::string(const ProgressCallback&)> work) {
  return all.broadcast(
      run_on_selected_ranks(all, all.rank() == 0, path, size, listener, std::move(work)), 0);
}

SharedFile open_shared(const ConfigPath& path, const Communicator& all) {
  return share(open_plain_text(path), all);
}

SharedFile share(SharedFile file, const Communicator& all) {
  require_same_corpus(Corpus(file, Tokenizer()), all);
  return file;
}

std::string scan_shared(
    const SharedFile& file,
    const Communicator& all,
    const ProgressCallback& listener,
    std::function<std::string(const InputFile&, const ProgressCallback&)> work) {
  return run_on_rank_zero(
      all,
      file->path(),
      file->size(),
      listener,
      [file, work = std::move(work)](const ProgressCallback& heard) { return work(*file, heard); });
}

std::uint64_t hash_of_file(const InputFile& file, const ProgressCallback& listener) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                             XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  std::vector<char> buffer(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < file.size();) {
    const auto length = std::min<std::int64_t>(std::ssize(buffer), file.size() - at);
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(length));
    file.copy(at, bytes);
    XXH3_64bits_update(hash.get(), bytes.data(), bytes.size());
    at += length;
    if (listener) listener({file.path(), at, file.size()});
  }
  return XXH3_64bits_digest(hash.get());
}

}  // namespace longspan
