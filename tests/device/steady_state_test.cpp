// Allocations, waits and copies of a training step, after all buffers have been used.
#include <atomic>

#include "framework/core/async_copy.h"
#include "tests/device/device_training.h"
#include "tests/support/emulated_cuda/counts.h"
#include "tests/support/emulated_cuda/cuda_runtime.h"

namespace longspan::steady_state_test {
namespace {

using emulated_cuda::Counts;
using namespace longspan::testing;

Counts counts_of_step(Trainer& trainer) {
  const Counts before = emulated_cuda::counts();
  trainer.step(batch_of(trainer));
  const Counts after = emulated_cuda::counts();
  return {.blocks = after.blocks - before.blocks,
          .waits = after.waits - before.waits,
          .copies_to_host = after.copies_to_host - before.copies_to_host,
          .copies_to_device = after.copies_to_device - before.copies_to_device,
          .kernels = after.kernels - before.kernels};
}

// The counts do not depend on the number of layers.
void expect_steady_step(const std::function<DeviceModel(std::int64_t layers)>& make,
                        int rotations = 0) {
  for (const std::int64_t layers : {1, 2}) {
    SCOPED_TRACE(layers);
    const auto trainer = trainer_on(Device::cuda(), make(layers), 1);
    // A memory is full in the second step, and both of its buffers have been used after the third.
    constexpr int until_steady = 3;
    for (int i = 0; i < until_steady; ++i) counts_of_step(*trainer);
    const Counts found = counts_of_step(*trainer);
    EXPECT_EQ(found.blocks, 0);
    EXPECT_EQ(found.waits, 1) << "for loss and norm together";
    EXPECT_EQ(found.copies_to_host, 1);
    EXPECT_EQ(found.copies_to_device, 2 + rotations) << "tokens and targets";
  }
}

// The stream waits for the flag before the copy.
TEST(CudaSteadyState, AsyncCopyReadsSourceAtCallTime) {
  const Device gpu = Device::cuda();
  const auto pinned = [&](double value) { return Tensor::scalar(value, DType::f64, gpu.host()); };
  const Counts before = emulated_cuda::counts();
  std::atomic<bool> free = false;
  emulated_cuda::queue_lasting(gpu.state().stream(), [&] { return free.load(); });
  const Tensor copy = copy_async(pinned(1), gpu);
  const Tensor other = pinned(2);  // same size, must not reuse the block
  EXPECT_EQ(emulated_cuda::counts().waits, before.waits);
  free = true;
  EXPECT_EQ(copy.item(), 1);
  EXPECT_EQ(other.item(), 2);
  const auto live = [&] { return gpu.host().allocator().report().total.live; };
  EXPECT_EQ(live(), 64) << "what was copied is let go of";
}

TEST(CudaSteadyState, DecoderStepsAreSteady) { expect_steady_step(plain_decoder); }

TEST(CudaSteadyState, TransformerXlStepsAreSteady) { expect_steady_step(transformer_xl); }

// One copy of LSH rotations: one layer has LSH attention.
TEST(CudaSteadyState, ReversibleLshStepsAreSteady) { expect_steady_step(reversible_decoder, 1); }

// One kernel per bucket: matrices, biases of linear layers, other vectors.
TEST(CudaSteadyState, UpdateKernelCountDoesNotDependOnLayers) {
  for (const std::int64_t layers : {1, 3}) {
    ModelBuildOptions setting = tiny_setting(segment);
    setting.device = Device::cuda();
    const auto model = plain_decoder(layers).make(setting);
    Optimizer optimizer({}, model->parameters());
    const Tensor norm = Tensor::empty({1}, DType::f64, setting.device);
    const int before = emulated_cuda::counts().kernels;
    sum_squared_gradients(model->parameters(), norm);
    const int between = emulated_cuda::counts().kernels;
    optimizer.update(0.1, 1);
    EXPECT_EQ(between - before, 3 + 1) << "one adds the sums of the blocks";
    EXPECT_EQ(emulated_cuda::counts().kernels - between, 3);
  }
}

}  // namespace
}  // namespace longspan::steady_state_test
