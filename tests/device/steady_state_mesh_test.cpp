// Allocations, waits and copies of a step with NCCL, after all buffers have been used.
// The counts equal those on one device.
#include <thread>

#include "framework/core/gpu.h"
#include "framework/distributed/gpu_collectives.h"
#include "tests/models/layouts_testing.h"
#include "tests/support/emulated_cuda/counts.h"

namespace longspan::steady_state_mesh_test {
namespace {

using emulated_cuda::Counts;
using namespace longspan::testing;

Case steady_case() {
  Case c;
  c.make = [](const ModelBuildOptions& setting) {
    DecoderOptions options;
    options.common = dropped_options(NormPosition::pre);
    options.common.layers = 1;
    return make_decoder(options, setting);
  };
  c.streams = 2;
  return c;
}

Batch pinned(Batch batch, const Device& gpu) {
  for (auto& [name, field] : batch.fields) field = field.to(gpu.host());
  return batch;
}

void expect_steady_steps(const Case& c, const MeshShape& layout) {
  for_each_layout({layout}, [&](const ProcessMesh& mesh) {
    const Device gpu = Device::cuda();
    const GpuCollectives collectives(GpuTransport::nccl, mesh, gpu);
    Case on_gpu = c;
    on_gpu.device = gpu;
    Trainer trainer(c.make(on_gpu.setting(mesh)), {}, Random(1));
    const StreamRange range =
        streams_of_rank(c.streams, mesh.data.rank(), mesh.data.size(), "data.global_batch_size");
    // The ranks wait in a hook that detects failed ranks.
    int waits = 0;
    gpu.state().set_wait_hook([&](CUstream_st* stream) {
      ++waits;
      while (!gpu::done(stream)) std::this_thread::yield();
    });
    const auto counts_of_step = [&](int step) {
      const Batch batch = pinned(batch_of(c, 2 + step, range), gpu);
      const Counts before = emulated_cuda::counts();
      waits = 0;
      trainer.step(batch);
      const Counts after = emulated_cuda::counts();
      waits += after.waits - before.waits;
      return Counts{.blocks = after.blocks - before.blocks,
                    .copies_to_host = after.copies_to_host - before.copies_to_host,
                    .copies_to_device = after.copies_to_device - before.copies_to_device};
    };
    constexpr int until_steady = 2;
    for (int step = 0; step < until_steady; ++step) counts_of_step(step);
    const Counts found = counts_of_step(until_steady);
    EXPECT_EQ(found.blocks, 0);
    EXPECT_EQ(waits, 1) << "for loss and norm together";
    EXPECT_EQ(found.copies_to_host, 1);
    EXPECT_EQ(found.copies_to_device, 2) << "tokens and targets";
  });
}

TEST(NcclSteadyState, DataParallelStepsAreSteady) {
  expect_steady_steps(steady_case(), {.data = 2});
}

TEST(NcclSteadyState, ShardedGradientStepsAreSteady) {
  Case c = steady_case();
  c.zero = 2;
  expect_steady_steps(c, {.data = 2});
}

TEST(NcclSteadyState, RingAttentionStepsAreSteady) {
  Case c = steady_case();
  c.streams = 1;
  expect_steady_steps(c, {.context = 2});
}

TEST(NcclSteadyState, SequenceParallelStepsAreSteady) {
  expect_steady_steps(steady_case(), {.tensor = 2, .sequence = true});
}

}  // namespace
}  // namespace longspan::steady_state_mesh_test
