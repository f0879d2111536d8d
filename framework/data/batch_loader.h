// Prefetches batches on a background thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/span.h"
#include "framework/data/batch.h"

namespace longspan {

// Returns the batches of a source in order and prefetches up to `ahead` of them. With `ahead` 0,
// the caller's thread reads each batch on demand. Not thread-safe.
class BatchLoader {
 public:
  // `timeline`: receives the spans of the thread. It must outlive the loader.
  explicit BatchLoader(std::unique_ptr<BatchSource> source,
                       std::size_t ahead = 2,
                       Timeline* timeline = nullptr);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  // Stops the thread and drops prefetched batches.
  ~BatchLoader();

  // Returns the next batch. Rethrows an error of the source at the batch where it occurred, and on
  // every later call.
  Batch next();

  // As BatchSource::cursors, for the batches returned so far. Prefetched batches do not count.
  Tensor cursors() const;
  CursorRows cursor_rows() const { return source_->cursor_rows(); }
  // As in BatchSource. Requires `ahead` 0.
  void save_state(TrainingState& state) const { source_->save_state(state); }
  void load_state(const Checkpoint& checkpoint);
  std::vector<std::pair<std::string, double>> metric_values() const {
    return source_->metric_values();
  }
  void restore(const Tensor& cursors);
  const std::string& restore_warning() const { return restored_; }

 private:
  struct Ready {
    Batch batch;
    Tensor cursors;  // after it
    std::exception_ptr error;
  };

  void start();
  void stop();
  void run();
  Batch read();

  std::unique_ptr<BatchSource> source_;  // owned by the thread while it runs
  std::size_t ahead_;
  Timeline* timeline_;
  std::string restored_;
  Tensor taken_;  // cursors after the last batch taken
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ready> ready_;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace longspan
