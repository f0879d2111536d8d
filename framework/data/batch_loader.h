// Reads batches ahead on a thread of its own.
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
#include "framework/data/source.h"

namespace longspan {

// Gives the batches of a source in their order, up to `ahead` of them read before they are
// asked for; where that is 0 each is made when it is asked for, by who asks. For one caller at a
// time.
class BatchLoader {
 public:
  // `timeline`: where the thread's spans are written; it outlives the loader.
  explicit BatchLoader(std::unique_ptr<BatchSource> source,
                       std::size_t ahead = 2,
                       Timeline* timeline = nullptr);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  // Stops the thread; batches read ahead are dropped.
  ~BatchLoader();

  // The next batch. What the source throws is thrown here, in its turn, and again by every later
  // call.
  Batch next();

  // As Source's, of the batches taken: what was only read ahead does not count.
  Tensor cursors() const;
  CursorRows cursor_rows() const { return source_->cursor_rows(); }
  // As Source's, where nothing is read ahead.
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

  std::unique_ptr<BatchSource> source_;  // belongs to the thread while it runs
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
