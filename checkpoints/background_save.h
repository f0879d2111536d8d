// A save whose copying and writing run on a thread beside the training.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoints/checkpoint.h"
#include "framework/core/span.h"

namespace longspan {

class BackgroundSave {
 public:
  // Collective, throws SaveError on every rank as CheckpointSave does. Starts the thread, which
  // copies what this rank owns into memory of the host and then writes the copy. The elements of
  // `state` must not change before `wait_for_copy` has returned; of a GPU, what is queued on its
  // stream is done before they are read. `timeline`: where the thread's spans are written; it
  // outlives the save.
  BackgroundSave(const std::filesystem::path& directory,
                 const CheckpointInfo& info,
                 TrainingState state,
                 const Communicator& world,
                 Timeline* timeline = nullptr);
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;
  // Gives up what is not committed.
  ~BackgroundSave();

  // Returns when the state may change: it is copied or, where there is no memory for a copy,
  // written.
  void wait_for_copy();
  // Whether this rank has written its part.
  bool written() const;
  // Collective. Waits until all is written; then as CheckpointSave::commit.
  std::filesystem::path commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longspan
