// NCCL transport between GPUs. Private to framework/distributed.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>

#include "framework/distributed/nccl_library.h"
#include "framework/distributed/transport.h"

namespace longspan {

// Global order of operations: all groups' operations are queued, and run by the GPU, in the order
// they were started (nccl::preserves_order).
struct LaunchOrder {
  std::uint64_t given = 0;
  std::uint64_t taken = 0;
  std::shared_ptr<const gpu::Event> last = nullptr;  // the end of the last queued operation
};

// Executes collectives of tensors on one GPU per rank, on a separate stream. Each waits there for
// the device's stream as of its start. For the host an operation is done once it is queued; its
// `end` marks completion on the GPU. Tensors are retained until then, or until the request was
// waited for.
//
// NCCL chooses its order of addition and checks no tags: ranks that call different collectives may
// hang or receive wrong bytes. So the group's other transport sends an empty message in parallel
// with each operation, by which the ranks detect mismatches.
class NcclTransport : public Transport {
 public:
  // The ranks of a group pass equal ids. Does not wait for them. `turns` is shared by all
  // transports of this rank.
  NcclTransport(const Device& device,
                const nccl::Id& id,
                int rank,
                int size,
                std::shared_ptr<LaunchOrder> turns);
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;
  // Aborts pending operations, without waiting for other ranks.
  ~NcclTransport() override;

  const Device& device() const { return device_; }

  void start(std::shared_ptr<PendingCollective> operation) override;
  bool progress() override;
  bool suspects_mismatch() override { return false; }
  const std::string& error() const override { return error_; }

  // Returns the operation that the GPU is executing, or null.
  const PendingCollective* under_way() const;
  // Stops the transport and aborts pending work in any state. Callable from any thread.
  void abort() noexcept;
  // Aborts if work is pending and no call has advanced it for that long. Run it on a dedicated
  // thread: a CUDA or NCCL call may block on a collective that never ends. Examples: a kernel
  // launch on a full queue, or freeing memory.
  void abort_if_left(std::chrono::duration<double> patience);
  // Polls the orderly shutdown, which all ranks of the group must reach. Returns whether it is
  // complete.
  bool finish();

 private:
  struct Flow {
    std::shared_ptr<PendingCollective> operation;
    std::unique_ptr<gpu::Event> begin;  // prior work on the device's stream
    std::uint64_t turn = 0;
    std::shared_ptr<const gpu::Event> before =
        nullptr;  // the end of the previous operation, to wait for
    std::shared_ptr<const gpu::Event> end = nullptr;
  };

  using Clock = std::chrono::steady_clock;

  bool progress_locked();
  // Queues the next operation, once NCCL has completed the last call and its ticket is due.
  bool queue_next(nccl::NcclComm& link);
  nccl::NcclStatus queue(nccl::NcclComm& link, const PendingCollective& operation);
  nccl::NcclStatus queue_parts(nccl::NcclComm& link, const PendingCollective& operation);
  // Returns false when the call has failed.
  bool accept(const nccl::NcclStatus& answer);

  Device device_;
  int rank_;
  int size_;
  std::shared_ptr<LaunchOrder> turns_;
  CUstream_st* stream_ = nullptr;
  std::atomic<Clock::time_point> moved_ = Clock::now();
  std::atomic<bool> left_ = false;  // abort_if_left has aborted
  // Set to null while a blocked call holds the mutex.
  std::atomic<nccl::NcclComm*> link_ = nullptr;
  mutable std::timed_mutex mutex_;  // guards the members below except error_, which only the host
                                    // thread reads
  bool calling_ = false;            // NCCL has not completed the last call
  bool finalizing_ = false;         // the link is being finalized
  std::deque<Flow> flows_;
  std::size_t queued_ = 0;  // number of queued flows, including the current NCCL call
  std::string error_;
};

}  // namespace longspan
