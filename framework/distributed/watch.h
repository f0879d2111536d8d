// A periodic background thread. Private to framework/distributed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace longspan {

// Calls `look` periodically until it is destroyed.
class PeriodicThread {
 public:
  PeriodicThread(std::chrono::duration<double> every, std::function<void()> look)
      : every_(every), task_(std::move(look)), thread_([this] { run(); }) {}
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;
  ~PeriodicThread() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, every_, [this] { return over_; })) task_();
  }

  std::chrono::duration<double> every_;
  std::function<void()> task_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace longspan
