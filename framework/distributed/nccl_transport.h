// The transport between GPUs: NCCL. Private to framework/distributed.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>

#include "framework/distributed/nccl_library.h"
#include "framework/distributed/transport.h"

namespace longspan {

// Operations of all groups are queued in the order in which they were started, and the GPU takes
// them in it (nccl::keeps_order).
struct LaunchOrder {
  std::uint64_t given = 0;
  std::uint64_t taken = 0;
  std::shared_ptr<const gpu::Event> last = nullptr;  // the end of the one before the next
};

// Carries the collectives of tensors on one GPU of each rank, on a stream of its own: each waits
// there for what the device's stream had to do when it was started. For the host an operation is
// done once it is queued; its `end` says where the GPU has done it. Tensors are held until then, or
// until the request was waited for.
//
// NCCL adds in an order of its own and looks at no tags: ranks that differ in what they call may
// hang or get each other's bytes. So the group's other transport carries an empty message beside
// each operation, by which the ranks notice.
class NcclTransport : public Transport {
 public:
  // The ranks of a group give the same id. Does not wait for them. `turns` is that of all
  // transports of this rank.
  NcclTransport(const Device& device,
                const nccl::Id& id,
                int rank,
                int size,
                std::shared_ptr<LaunchOrder> turns);
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;
  // Ends what is under way, and does not wait for other ranks.
  ~NcclTransport() override;

  const Device& device() const { return device_; }

  void start(std::shared_ptr<PendingCollective> operation) override;
  bool progress() override;
  bool suspects_mismatch() override { return false; }
  const std::string& error() const override { return error_; }

  // The operation that the GPU has come to and not done; null where there is none.
  const PendingCollective* under_way() const;
  // Nothing is carried any more. What is under way ends as it stands. Any thread may ask for it.
  void abort() noexcept;
  // Aborts if something is under way and no call has moved it on for that long. For a thread that
  // does nothing else: a call into CUDA or NCCL, such as the start of a kernel when too many are
  // queued or a release of memory, may wait for a collective that never ends.
  void abort_if_left(std::chrono::duration<double> patience);
  // The end in good order, which all ranks of the group come to: true when it is done. Called again
  // and again.
  bool finish();

 private:
  struct Flow {
    std::shared_ptr<PendingCollective> operation;
    std::unique_ptr<gpu::Event> begin;  // what the device's stream had to do before
    std::uint64_t turn = 0;
    std::shared_ptr<const gpu::Event> before =
        nullptr;  // the end of the one before it, to wait for
    std::shared_ptr<const gpu::Event> end = nullptr;
  };

  using Clock = std::chrono::steady_clock;

  bool progress_locked();
  // Queues the next operation, once NCCL has done with the last one and it is its turn.
  bool queue_next(nccl::NcclComm& link);
  nccl::NcclStatus queue(nccl::NcclComm& link, const PendingCollective& operation);
  nccl::NcclStatus queue_parts(nccl::NcclComm& link, const PendingCollective& operation);
  // False when the call has failed.
  bool accept(const nccl::NcclStatus& answer);

  Device device_;
  int rank_;
  int size_;
  std::shared_ptr<LaunchOrder> turns_;
  CUstream_st* stream_ = nullptr;
  std::atomic<Clock::time_point> moved_ = Clock::now();
  std::atomic<bool> left_ = false;  // abort_if_left has aborted
  // Becomes null while the mutex is held by a call that does not come back.
  std::atomic<nccl::NcclComm*> link_ = nullptr;
  mutable std::timed_mutex mutex_;  // guards what follows but error_, which the host alone reads
  bool calling_ = false;            // NCCL has not done with the last call
  bool finalising_ = false;         // that was the last
  std::deque<Flow> flows_;
  std::size_t queued_ = 0;  // how many of them, the one that NCCL is called with included
  std::string error_;
};

}  // namespace longspan
