// Host-to-GPU copies that do not block the host.
#pragma once

#include <mutex>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// Returns the tensor on `device`, or the tensor itself where it is already there. A copy from
// memory pinned for that GPU is only queued; its source is retained. Nothing may write the source
// until the next synchronization with the GPU. From other memory it copies as `to` does.
Tensor copy_async(const Tensor& tensor, const Device& device, MemoryTag tag = MemoryTag::workspace);

// Retains the sources of one device's pending copies.
class PendingCopies {
 public:
  // Call once the copy is queued.
  void retain_source(const Tensor& source);
  // Returns the retained sources; release them once all work queued so far is done.
  std::vector<Tensor> take();

 private:
  std::mutex mutex_;
  std::vector<Tensor> sources_;
};

}  // namespace longspan
