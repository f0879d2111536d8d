// Selection of the transport for collectives of GPU tensors, and the thread that watches them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "framework/distributed/process_mesh.h"

namespace longspan {

struct LaunchOrder;
class PeriodicThread;

// nccl: GPU to GPU; each rank needs its own GPU. mpi: through pinned host memory, with the host
// transport. automatic: NCCL where available.
enum class GpuTransport : std::uint8_t { automatic, nccl, mpi };

// Collective. Returns the number of ranks that use this rank's GPU.
int ranks_of_gpu(const Communicator& world, const Device& device);

// During its lifetime, NCCL, if chosen, executes the collectives of tensors on `device` within the
// groups of a mesh. A host that waits for the device then detects failed collectives.
class GpuCollectives {
 public:
  // Collective over the world: all ranks agree. Tests each group's links with a small sum. Throws
  // ConfigurationError on all ranks where NCCL is requested but unavailable.
  GpuCollectives(GpuTransport wanted, const ProcessMesh& mesh, const Device& device);
  GpuCollectives(const GpuCollectives&) = delete;
  GpuCollectives& operator=(const GpuCollectives&) = delete;
  // Waits for the other ranks' destructors; during stack unwinding it aborts pending GPU work
  // instead.
  ~GpuCollectives();

  bool nccl() const { return absence_.empty(); }
  // Returns, as a clause, why NCCL is not used; empty where it is.
  const std::string& unavailable_reason() const { return absence_; }

 private:
  void connect(const Communicator& communicator);
  // Throws RankError where the group's links compute a wrong sum. `moves_rows`: whether the group
  // uses exchange and all_to_all.
  void self_test(const Communicator& communicator, bool moves_rows) const;
  // Calls each kind of collective once, since NCCL allocates memory on the first call. The GPU
  // memory available to the model is measured after this.
  void warm_up(const Communicator& communicator, bool moves_rows) const;
  // Aborts collectives that no call has advanced for that long.
  void abort_if_stuck(std::chrono::duration<double> patience) const;

  Device device_;
  int exceptions_;
  std::string absence_;
  std::shared_ptr<LaunchOrder> turns_;
  mutable std::mutex groups_mutex_;   // held while groups are created
  std::vector<Communicator> groups_;  // groups with links
  std::unique_ptr<PeriodicThread> watch_;
};

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
