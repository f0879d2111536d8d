// Copies to a GPU that the host does not wait for.
#pragma once

#include <mutex>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// The tensor on `device`; itself where it lies there. From memory that is pinned for that GPU the
// copy is only queued: nobody may write the tensor until the GPU is next waited for, and until then
// it is kept. From other memory as by `to`.
Tensor copy_async(const Tensor& tensor, const Device& device, MemoryTag tag = MemoryTag::workspace);

// What such copies read, of one device.
class PendingCopies {
 public:
  // Once the copy is queued.
  void retain_source(const Tensor& source);
  // To let go of when all that is queued by now is done.
  std::vector<Tensor> take();

 private:
  std::mutex mutex_;
  std::vector<Tensor> sources_;
};

}  // namespace longspan
