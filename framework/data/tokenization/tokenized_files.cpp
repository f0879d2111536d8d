#include "framework/data/tokenization/tokenized_files.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/core/stopwatch.h"
#include "framework/data/corpus/text_input.h"

namespace longspan {
namespace {

// An earlier file has failed, so that this result is not used.
struct Abandoned {};

class Preparation {
 public:
  Preparation(std::span<const ConfigPath> files,
              const DocumentFormat& form,
              const Tokenizer& tokenizer,
              const std::filesystem::path& cache,
              const ProgressCallback& listener,
              const TokenizationOptions& making,
              const std::function<void(const PreparedFile&)>& told)
      : files_(files),
        form_(form),
        tokenizer_(tokenizer),
        cache_(cache),
        listener_(listener),
        making_(making),
        on_progress_(told),
        first_problem_(files.size()) {}

  void run() {
    const std::size_t workers = std::min(files_.size(), static_cast<std::size_t>(threads_));
    working_ = static_cast<int>(workers);
    std::vector<std::thread> others;
    for (std::size_t i = 0; i < workers; ++i) others.emplace_back([this] { work(); });
    for (std::thread& other : others) other.join();
    if (problem_) std::rethrow_exception(problem_);
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < first_problem_; i = next_++) {
      try {
        prepare(i);
      } catch (const Abandoned&) {
        break;
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (i > first_problem_) continue;
        first_problem_ = i;
        problem_ = std::current_exception();
      }
    }
    --working_;
  }

  void prepare(std::size_t index) {
    acquire_threads();
    const ConfigPath& file = files_[index];
    PreparedFile prepared{.file = file};
    const Stopwatch stopwatch;
    if (needs_token_file(*open_text(file), form_, tokenizer_))
      prepared.made = tokenize_file(
          file,
          form_,
          tokenizer_,
          cache_,
          [this, index](const ScanProgress& progress) { report(index, progress); },
          making_);
    prepared.seconds = stopwatch.seconds();
    const std::lock_guard lock(mutex_);
    on_progress_(prepared);
  }

  void report(std::size_t index, const ScanProgress& progress) {
    if (index > first_problem_) throw Abandoned();
    acquire_threads();
    const std::lock_guard lock(mutex_);
    if (listener_) listener_(progress);
  }

  // Sets this thread's number of OpenMP threads to an equal share per active file.
  void acquire_threads() const {
    omp_set_num_threads(std::max(1, threads_ / std::max(1, +working_)));
  }

  std::span<const ConfigPath> files_;
  const DocumentFormat& form_;
  const Tokenizer& tokenizer_;
  const std::filesystem::path& cache_;
  const ProgressCallback& listener_;
  const TokenizationOptions& making_;
  const std::function<void(const PreparedFile&)>& on_progress_;
  const int threads_ = omp_get_max_threads();
  std::atomic<std::size_t> next_ = 0;
  std::atomic<int> working_ = 0;
  std::mutex mutex_;
  // The earliest file that failed; without one, the number of files. Earlier files are still
  // encoded, so that the reported failure does not depend on timing.
  std::atomic<std::size_t> first_problem_;
  std::exception_ptr problem_;
};

}  // namespace

void tokenize_files(std::span<const ConfigPath> files,
                    const DocumentFormat& form,
                    const Tokenizer& tokenizer,
                    const std::filesystem::path& cache,
                    const ProgressCallback& listener,
                    const TokenizationOptions& making,
                    const std::function<void(const PreparedFile&)>& told) {
  Preparation(files, form, tokenizer, cache, listener, making, told).run();
}

}  // namespace longspan
