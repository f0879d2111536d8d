#include "framework/data/batch_loader.h"

#include <csignal>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/span.h"

namespace longspan {

BatchLoader::BatchLoader(std::unique_ptr<BatchSource> source, std::size_t ahead, Timeline* timeline)
    : source_(std::move(source)), ahead_(ahead), timeline_(timeline), taken_(source_->cursors()) {
  start();
}

BatchLoader::~BatchLoader() { stop(); }

void BatchLoader::start() {
  if (ahead_ == 0) return;
  stopping_ = false;
  // The training thread handles signals. The new thread inherits this mask.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void BatchLoader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  ready_.clear();
}

Batch BatchLoader::read() {
  const Span span({.kind = ActivityKind::reading, .name = "reading a batch"});
  return source_->next();
}

void BatchLoader::run() {
  const TimelineScope here(timeline_);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || ready_.size() < ahead_; });
      if (stopping_) return;
    }
    Ready ready;
    try {
      ready.batch = read();
      ready.cursors = source_->cursors();
    } catch (...) {
      ready.error = std::current_exception();
    }
    const bool failed = ready.error != nullptr;
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(ready));
    }
    changed_.notify_all();
    if (failed) return;
  }
}

Batch BatchLoader::next() {
  if (error_) std::rethrow_exception(error_);
  if (ahead_ == 0) {
    try {
      Batch batch = read();
      taken_ = source_->cursors();
      return batch;
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }
  Ready ready;
  {
    const Span span({.kind = ActivityKind::idle, .name = "a batch"});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty(); });
    ready = std::move(ready_.front());
    ready_.pop_front();
  }
  changed_.notify_all();
  if (ready.error) {
    error_ = ready.error;
    std::rethrow_exception(error_);
  }
  taken_ = std::move(ready.cursors);
  return std::move(ready.batch);
}

Tensor BatchLoader::cursors() const { return taken_.clone(MemoryTag::workspace); }

void BatchLoader::load_state(const Checkpoint& checkpoint) {
  source_->load_state(checkpoint);
  if (ahead_ == 0) taken_ = source_->cursors();  // else the thread owns the source
}

void BatchLoader::restore(const Tensor& cursors) {
  stop();
  error_ = nullptr;
  source_->restore(cursors);
  restored_ = source_->restore_warning();
  taken_ = source_->cursors();
  start();
}

}  // namespace longspan
