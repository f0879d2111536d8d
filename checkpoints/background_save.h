// A save that copies and writes on a background thread during training.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoints/checkpoint.h"
#include "framework/core/span.h"

namespace longspan {

class BackgroundSave {
 public:
  // Starts the thread, which copies the state owned by this rank into host memory and then writes
  // the copy. `state` must not change before `wait_for_copy` returns. Work queued on a GPU stream
  // finishes before the read. `timeline`: receives the spans of the thread; it must outlive the
  // save. Throws SaveError on every rank, as CheckpointSave. Collective.
  BackgroundSave(const std::filesystem::path& directory,
                 const CheckpointInfo& info,
                 TrainingState state,
                 const Communicator& world,
                 Timeline* timeline = nullptr);
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;
  // Abandons an uncommitted save.
  ~BackgroundSave();

  // Returns when the state may change: it is copied or, without memory for a copy, written.
  void wait_for_copy();
  // Returns whether this rank has written its part.
  bool written() const;
  // Waits for all writes, then commits as CheckpointSave::commit. Collective.
  std::filesystem::path commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longspan
