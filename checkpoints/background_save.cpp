#include "checkpoints/background_save.h"

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "framework/core/gpu.h"
#include "framework/core/span.h"

namespace longspan {
namespace {

// Copies to the host. GPU copies use a separate stream, so that they do not wait for work that
// training queues later.
class HostCopies {
 public:
  HostCopies() = default;
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  ~HostCopies() {
    if (stream_ != nullptr) gpu::destroy_stream(gpu_, stream_);
  }

  // The copy is complete after `wait`.
  Tensor start(const Tensor& tensor) {
    const Device& device = tensor.device();
    const Tensor copy =
        Tensor::empty(tensor.shape(), tensor.dtype(), device.host(), MemoryTag::workspace);
    if (!device.on_gpu()) {
      copy.copy_from(tensor);
      return copy;
    }
    if (stream_ == nullptr) {
      gpu_ = device.state().gpu();
      stream_ = gpu::make_stream(gpu_);
    }
    if (tensor.elements() > 0) gpu::copy(copy.bytes(), tensor.bytes(), tensor.byte_size(), stream_);
    return copy;
  }
  void wait() {
    if (stream_ != nullptr) gpu::wait(stream_);
  }

 private:
  int gpu_ = 0;
  CUstream_st* stream_ = nullptr;
};

// Copies every owned piece. Only metadata of the others is saved.
TrainingState host_copy(const TrainingState& state) {
  TrainingState copy = state;
  HostCopies copies;
  for (StateTensor& piece : copy.tensors)
    if (piece.owned) piece.tensor = copies.start(piece.tensor);
  copies.wait();
  return copy;
}

}  // namespace

struct BackgroundSave::State {
  State(CheckpointSave begun, TrainingState state)
      : save(std::move(begun)), live(std::move(state)) {}

  CheckpointSave save;
  TrainingState live;
  std::promise<void> may_change;
  std::future<void> changeable = may_change.get_future();
  std::atomic<bool> written = false;
  std::jthread thread;  // last: joins before its data is destroyed

  void copy_and_write(const std::stop_token& stop) noexcept;
};

void BackgroundSave::State::copy_and_write(const std::stop_token& stop) noexcept {
  std::optional<TrainingState> copy;
  try {
    const Span span({.kind = ActivityKind::saving, .name = "copy state"});
    copy = host_copy(live);
  } catch (const std::exception&) {
    // Without memory for a copy, training waits until everything is written.
  }
  if (copy) may_change.set_value();
  {
    const Span span({.kind = ActivityKind::saving, .name = "write checkpoint"});
    save.write(copy ? *copy : live, stop);
  }
  written = true;
  if (!copy) may_change.set_value();
}

BackgroundSave::BackgroundSave(const std::filesystem::path& directory,
                               const CheckpointInfo& info,
                               TrainingState state,
                               const Communicator& world,
                               Timeline* timeline)
    : state_(std::make_unique<State>(CheckpointSave(directory, info, world), std::move(state))) {
  for (const StateTensor& piece : state_->live.tensors) piece.tensor.device().synchronize();
  state_->thread = std::jthread([state = state_.get(), timeline](const std::stop_token& stop) {
    const TimelineScope here(timeline);
    state->copy_and_write(stop);
  });
}

BackgroundSave::~BackgroundSave() = default;

void BackgroundSave::wait_for_copy() {
  if (!state_->changeable.valid()) return;
  const Span span({.kind = ActivityKind::idle, .name = "wait for the state copy"});
  state_->changeable.get();
  // Not on the thread, because the sole owner of a tensor may modify it.
  state_->live = {};
}

bool BackgroundSave::written() const { return state_->written; }

std::filesystem::path BackgroundSave::commit() {
  wait_for_copy();
  {
    const Span span({.kind = ActivityKind::idle, .name = "wait for the checkpoint write"});
    state_->thread.join();
  }
  return state_->save.commit();
}

}  // namespace longspan
