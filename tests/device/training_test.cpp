// Training on the emulated device matches training on the CPU.
#include <cmath>

#include "checkpoints/background_save.h"
#include "framework/decoding/generation.h"
#include "tests/checkpoints/checkpoint_testing.h"
#include "tests/device/device_training.h"

namespace longspan::training_test {
namespace {

using namespace longspan::testing;

void expect_same_weights(const Trainer& found, const Trainer& expected) {
  for (const auto& parameter : expected.model().parameters().all()) {
    SCOPED_TRACE(parameter->name);
    const Parameter& same = found.model().parameters().named(parameter->name);
    EXPECT_TRUE(same.master.device().on_gpu());
    expect_close(values_of(same.master), values_of(parameter->master), 1e-9);
  }
}

// The padding rows of the output layer must stay zero, or gradients of logits would leak.
void expect_empty_padding(const Trainer& trainer) {
  int padded = 0;
  for (const auto& parameter : trainer.model().parameters().all()) {
    if (parameter->padding == 0) continue;
    ++padded;
    const std::int64_t begin = parameter->shape[0], end = begin + parameter->padding;
    for (const Tensor& whole : {parameter->variable.value(), parameter->variable.gradient()}) {
      const Tensor behind = whole.slice(begin, end);
      EXPECT_EQ(values_of(behind), Values(static_cast<std::size_t>(behind.elements()), 0.0))
          << parameter->name;
    }
  }
  EXPECT_GT(padded, 0);
}

void expect_same_steps(const DeviceModel& model, int steps) {
  const auto gpu = trainer_on(Device::cuda(), model), cpu = trainer_on(Device::cpu(), model);
  for (int i = 0; i < steps; ++i) {
    const StepResult found = gpu->step(batch_of(*gpu)), expected = cpu->step(batch_of(*cpu));
    EXPECT_NEAR(found.loss, expected.loss, 1e-9);
    EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-9);
  }
  expect_same_weights(*gpu, *cpu);
  expect_empty_padding(*gpu);
}

TEST(CudaTraining, TransformerXlMatchesCpu) { expect_same_steps(transformer_xl(), 3); }

TEST(CudaTraining, ReversibleLshDecoderMatchesCpu) { expect_same_steps(reversible_decoder(), 2); }

TEST(CudaTraining, ResumesOnEitherDevice) {
  const TemporaryDirectory directory;
  const auto first = trainer_on(Device::cuda(), transformer_xl());
  for (int i = 0; i < 2; ++i) first->step(batch_of(*first));
  TrainingState state;
  first->save(state, {.total = streams});
  BackgroundSave save(directory.path(),
                      {.run_id = "run", .step = 2, .layout = {}, .configuration = ""},
                      std::move(state),
                      Communicator());
  const StepResult expected =
      first->step(batch_of(*first), {.before_update = [&] { save.wait_for_copy(); }});
  const auto path = save.commit();
  for (const Device& device : {Device::cuda(), Device::cpu()}) {
    const auto second = trainer_on(device, transformer_xl());
    second->restore(Checkpoint::open(path), {.total = streams}, streams);
    const StepResult found = second->step(batch_of(*second));
    EXPECT_NEAR(found.loss, expected.loss, device.on_gpu() ? 0 : 1e-9);
    EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, device.on_gpu() ? 0 : 1e-9);
  }
}

TEST(CudaTraining, GeneratesSameTextAsCpu) {
  const std::vector<std::int64_t> prompt = {1, 2, 3};
  const auto text_of = [&](const Device& device) {
    const auto trainer = trainer_on(device, transformer_xl());
    return generate(trainer->model(), prompt, {.tokens = 4, .samples = 2, .segment = segment});
  };
  EXPECT_EQ(text_of(Device::cuda()), text_of(Device::cpu()));
}

}  // namespace
}  // namespace longspan::training_test
