#include "framework/distributed/nccl_transport.h"

#include <exception>
#include <future>
#include <thread>

#include "framework/core/gpu.h"

namespace longspan {
namespace {

constexpr const char* ended_while_left = "aborted: this rank did not return from a CUDA call";

// Returns whether the GPU passes the event within `time`. The query runs on another thread, since
// it may block on a CUDA call that never returns.
bool passes_within(std::chrono::duration<double> time,
                   int gpu,
                   const std::shared_ptr<const gpu::Event>& event) {
  const auto asked = std::make_shared<std::promise<bool>>();
  std::future<bool> answer = asked->get_future();
  std::thread([=] {
    try {
      gpu::select(gpu);
      asked->set_value(event->is_complete());
    } catch (...) {
      asked->set_exception(std::current_exception());
    }
  }).detach();
  return answer.wait_for(time) == std::future_status::ready && answer.get();
}

}  // namespace

NcclTransport::NcclTransport(const Device& device,
                             const nccl::Id& id,
                             int rank,
                             int size,
                             std::shared_ptr<LaunchOrder> turns)
    : device_(device), rank_(rank), size_(size), turns_(std::move(turns)) {
  gpu::select(device_.state().gpu());
  stream_ = gpu::make_stream(device_.state().gpu(), true);
  nccl::NcclComm* link = nullptr;
  accept(nccl::make(link, id, rank, size));
  link_ = link;
}

NcclTransport::~NcclTransport() {
  abort();
  gpu::destroy_stream(device_.state().gpu(), stream_);
}

void NcclTransport::abort() noexcept {
  if (nccl::NcclComm* const link = link_.exchange(nullptr))
    nccl::abort(link, device_.state().gpu());
}

void NcclTransport::abort_if_left(std::chrono::duration<double> patience) {
  const auto left = [&] { return Clock::now() - moved_.load() >= patience; };
  const auto moment = patience / 8;
  if (!left()) return;
  std::shared_ptr<const gpu::Event> last;
  if (const std::unique_lock lock(mutex_, moment); lock) {
    if (link_ == nullptr || flows_.empty()) return;
    last = flows_.back().end;
  }
  if (last && passes_within(moment, device_.state().gpu(), last)) return;
  const std::unique_lock lock(mutex_, moment);  // fails where a blocked host thread holds it
  if (!left()) return;
  left_ = true;
  abort();
}

bool NcclTransport::accept(const nccl::NcclStatus& answer) {
  if (!answer.error.empty() && error_.empty()) error_ = left_ ? ended_while_left : answer.error;
  calling_ = answer.under_way && error_.empty();
  return error_.empty();
}

void NcclTransport::start(std::shared_ptr<PendingCollective> operation) {
  if (operation->part == 0) {
    operation->done = true;
    return;
  }
  // Outside the lock: this too may wait for queued work.
  auto begin = std::make_unique<gpu::Event>(device_.state().cuda().stream);
  const std::lock_guard lock(mutex_);
  moved_ = Clock::now();
  flows_.push_back({std::move(operation), std::move(begin), turns_->given++});
}

bool NcclTransport::progress() {
  const std::lock_guard lock(mutex_);
  return progress_locked();
}

bool NcclTransport::progress_locked() {
  moved_ = Clock::now();
  if (left_) accept({.under_way = false, .error = ended_while_left});
  if (!error_.empty() || (flows_.empty() && !calling_)) return false;
  bool moved = false;
  // Asynchronous errors surface here, long after the call that caused them.
  while (nccl::NcclComm* const link = link_) {
    if (!accept(nccl::state(*link)) || calling_ || !queue_next(*link)) break;
    moved = true;
  }
  while (!flows_.empty() && flows_.front().end && flows_.front().end->is_complete()) {
    flows_.pop_front();
    --queued_;
    moved = true;
  }
  return moved;
}

bool NcclTransport::queue_next(nccl::NcclComm& link) {
  if (queued_ > 0 && !flows_[queued_ - 1].end) {
    Flow& last = flows_[queued_ - 1];
    gpu::select(device_.state().gpu());
    last.end = std::make_shared<gpu::Event>(stream_);
    last.operation->end = last.end;
    last.operation->done = true;
    ++turns_->taken;
    turns_->last = last.end;
  }
  if (queued_ == flows_.size() || flows_[queued_].turn != turns_->taken) return false;
  Flow& next = flows_[queued_++];
  gpu::select(device_.state().gpu());
  next.begin->make_stream_wait(stream_);
  if (turns_->last && !nccl::preserves_order(link)) {
    next.before = turns_->last;
    next.before->make_stream_wait(stream_);
  }
  return accept(queue(link, *next.operation));
}

nccl::NcclStatus NcclTransport::queue(nccl::NcclComm& link, const PendingCollective& operation) {
  const CollectiveSignature& signature = operation.signature;
  const auto count = static_cast<std::size_t>(operation.part);
  const std::byte* const from = operation.send;
  std::byte* const to = operation.receive;
  switch (signature.kind) {
    case CollectiveKind::all_reduce:
      return nccl::all_reduce(link, from, to, count, signature.dtype, signature.reduction, stream_);
    case CollectiveKind::all_gather:
      return nccl::all_gather(link, from, to, count, signature.dtype, stream_);
    case CollectiveKind::reduce_scatter:
      return nccl::reduce_scatter(link, from, to, count, signature.dtype, stream_);
    case CollectiveKind::broadcast:
      return nccl::broadcast(link, to, count, signature.dtype, operation.root, stream_);
    case CollectiveKind::all_to_all:
    case CollectiveKind::exchange:
      return queue_parts(link, operation);
    case CollectiveKind::barrier:  // has no tensors
      break;
  }
  return {};
}

nccl::NcclStatus NcclTransport::queue_parts(nccl::NcclComm& link,
                                            const PendingCollective& operation) {
  const auto count = static_cast<std::size_t>(operation.part);
  const std::size_t bytes = count * operation.element_size();
  const DType dtype = operation.signature.dtype;
  // The first error is returned; the group is ended nevertheless.
  nccl::NcclStatus failed;
  const auto note = [&](const nccl::NcclStatus& answer) {
    if (failed.error.empty()) failed.error = answer.error;
  };
  note(nccl::start_group(link));
  if (operation.signature.kind == CollectiveKind::exchange) {
    note(nccl::send(link, operation.send, count, dtype, operation.to, stream_));
    note(nccl::receive(link, operation.receive, count, dtype, operation.from, stream_));
  } else {
    for (int rank = 0; rank < size_; ++rank) {
      const std::size_t place = static_cast<std::size_t>(rank) * bytes;
      note(nccl::send(link, operation.send + place, count, dtype, rank, stream_));
      note(nccl::receive(link, operation.receive + place, count, dtype, rank, stream_));
    }
  }
  const nccl::NcclStatus ended = nccl::end_group(link);
  return failed.error.empty() ? ended : failed;
}

const PendingCollective* NcclTransport::under_way() const {
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) return flows_.empty() ? nullptr : flows_.front().operation.get();
  for (const Flow& flow : flows_)
    if (!flow.end || !flow.end->is_complete()) {
      // The GPU does not wait for operations that wait for another group's ticket.
      const bool comes = flow.turn <= turns_->taken && flow.begin->is_complete() &&
                         (!flow.before || flow.before->is_complete());
      return comes ? flow.operation.get() : nullptr;
    }
  return nullptr;
}

bool NcclTransport::finish() {
  const std::lock_guard lock(mutex_);
  if (link_ == nullptr) return true;
  progress_locked();
  if (!error_.empty() || calling_ || !flows_.empty()) return !error_.empty();
  if (!finalizing_) {
    finalizing_ = true;
    return !accept(nccl::finalize(*link_));
  }
  if (accept(nccl::state(*link_)) && calling_) return false;
  if (error_.empty()) nccl::destroy(link_.exchange(nullptr));
  return true;
}

}  // namespace longspan
