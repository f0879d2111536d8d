// Trainers of tiny models in float64, on any device.
#pragma once

#include <functional>

#include "framework/train/trainer.h"
#include "tests/models/model_testing.h"

namespace longspan::testing {

inline constexpr std::int64_t streams = 2;
inline constexpr std::int64_t segment = 6;

using MakeModel = std::function<std::unique_ptr<Model>(const ModelSetting&)>;

inline ModelOptions device_options(ResidualKind residual, std::int64_t layers = 2) {
  ModelOptions options = tiny_options(NormPlacement::pre);
  options.layers = layers;
  options.activation = Activation::gelu;
  options.residual = residual;
  options.dropout = options.attention_dropout = 0.2;
  return options;
}

// Makes a TransformerXl with a memory.
inline MakeModel transformer_xl(std::int64_t layers = 2) {
  return [=](const ModelSetting& setting) {
    return make_transformer_xl({.common = device_options(ResidualKind::plain, layers), .memory = 4},
                               setting);
  };
}

// Makes a reversible decoder in pieces, with hash attention and, in every second layer, local.
inline MakeModel reversible_decoder(std::int64_t layers = 2) {
  return [=](const ModelSetting& setting) {
    DecoderOptions options;
    options.common = device_options(ResidualKind::reversible, layers);
    options.common.attention.kinds = {"lsh"};
    if (layers > 1) options.common.attention.kinds = {"local", "lsh"};
    options.common.attention.window = {3};
    options.common.attention.lsh.chunk = 2;
    ModelSetting in_pieces = setting;
    in_pieces.memory = {.feed_forward_chunks = 3, .loss_chunks = 2};
    return make_decoder(options, in_pieces);
  };
}

inline MakeModel plain_decoder(std::int64_t layers = 2) {
  return [=](const ModelSetting& setting) {
    DecoderOptions options;
    options.common = device_options(ResidualKind::plain, layers);
    return make_decoder(options, setting);
  };
}

inline std::unique_ptr<Trainer> trainer_on(const Device& device,
                                           const MakeModel& make,
                                           std::int64_t parts = 2) {
  ModelSetting setting = tiny_setting(segment);
  setting.device = device;
  TrainingOptions training;
  training.learning_rate = 0.01;
  training.accumulation = parts;
  return std::make_unique<Trainer>(
      make(setting), training, Random(1), PrecisionOptions{.compute = DType::f64});
}

// The batch of the trainer's next step, as a loader gives it.
inline Batch batch_of(const Trainer& trainer) {
  const auto step = static_cast<std::uint64_t>(trainer.steps());
  const Tensor text = random_ids(streams, segment + 1, step);
  const Device host = trainer.model().parameters().device().host();
  Batch batch;
  batch.tokens = columns(text, 0, segment).to(host);
  batch.targets = columns(text, 1, segment).to(host);
  batch.epoch_start = step == 0;
  batch.predicted_tokens = streams * segment;
  return batch;
}

}  // namespace longspan::testing
