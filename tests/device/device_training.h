// Trainers of tiny models in float64, on any device.
#pragma once

#include <functional>

#include "framework/modeling/lm_head.h"
#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"

namespace longspan::testing {

inline constexpr std::int64_t streams = 2;
inline constexpr std::int64_t segment = 6;

// A language model with its memory modes.
struct DeviceModel {
  BackboneFactory body;
  MemoryOptions memory = {};

  std::unique_ptr<Model> make(ModelBuildOptions setting) const {
    setting.memory = memory;
    return std::make_unique<Model>(setting, body, lm_head());
  }
};

inline ModelOptions device_options(ResidualKind residual, std::int64_t layers = 2) {
  ModelOptions options = tiny_options(NormPosition::pre);
  options.layers = layers;
  options.activation = FeedForwardActivation::gelu;
  options.residual = residual;
  options.dropout = options.attention_dropout = 0.2;
  return options;
}

// Transformer-XL with a memory of 4 positions.
inline DeviceModel transformer_xl(std::int64_t layers = 2) {
  return {.body = transformer_xl_body(
              {.common = device_options(ResidualKind::plain, layers), .memory = 4})};
}

// A reversible, chunked decoder. LSH attention alternates with a sliding window.
inline DeviceModel reversible_decoder(std::int64_t layers = 2) {
  DecoderOptions options;
  options.common = device_options(ResidualKind::reversible, layers);
  options.common.attention.kinds = {"lsh"};
  if (layers > 1) options.common.attention.kinds = {"sliding_window", "lsh"};
  options.common.attention.sliding_window = {4};
  options.common.attention.lsh.chunk = 2;
  return {.body = decoder_body(options), .memory = {.feed_forward_chunks = 3, .loss_chunks = 2}};
}

inline DeviceModel plain_decoder(std::int64_t layers = 2) {
  DecoderOptions options;
  options.common = device_options(ResidualKind::plain, layers);
  return {.body = decoder_body(options)};
}

inline std::unique_ptr<Trainer> trainer_on(const Device& device,
                                           const DeviceModel& model,
                                           std::int64_t parts = 2) {
  ModelBuildOptions setting = tiny_setting(segment);
  setting.device = device;
  TrainingOptions training;
  training.learning_rate = 0.01;
  training.accumulation = parts;
  return std::make_unique<Trainer>(
      model.make(setting), training, Random(1), PrecisionOptions{.compute = DType::f64});
}

// The batch of the trainer's next step, in host memory.
inline Batch batch_of(const Trainer& trainer) {
  const auto step = static_cast<std::uint64_t>(trainer.steps());
  const Device host = trainer.model().parameters().device().host();
  Batch batch = batch_of_rows(random_ids(streams, segment + 1, step));
  for (auto& [name, field] : batch.fields) field = field.to(host);
  batch.resets_state = step == 0;
  return batch;
}

}  // namespace longspan::testing
