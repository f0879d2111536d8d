// Tiny models in float64 for tests of model families.
#pragma once

#include "models/decoder.h"
#include "models/transformer_xl.h"
#include "tests/nn/layer_testing.h"

namespace longspan::testing {

inline constexpr std::int64_t vocabulary = 11;

// heads * head_width differs from the width, so that swapped sizes fail.
inline ModelOptions tiny_options(NormPosition norm = NormPosition::post) {
  return {.layers = 2,
          .width = 8,
          .heads = 2,
          .head_width = 3,
          .feed_forward = 12,
          .norm = norm,
          .dropout = 0,
          .initial_deviation = 0.2};
}

inline ModelBuildOptions tiny_setting(std::int64_t segment = 5) {
  return {.vocabulary = vocabulary,
          .segment = segment,
          .compute = DType::f64,
          .device = backend_device(),
          .random = Random(1)};
}

// Token ids [streams, time].
inline Tensor random_ids(std::int64_t streams, std::int64_t time, std::uint64_t seed) {
  const Tensor ids = Tensor::empty({streams, time}, DType::i64, backend_device());
  const Random random(seed);
  for (std::int64_t i = 0; i < ids.elements(); ++i)
    ids.data<std::int64_t>()[i] =
        static_cast<std::int64_t>(random.word(static_cast<std::uint64_t>(i)) % vocabulary);
  return ids;
}

// The columns [begin, begin + count) of ids [streams, time].
inline Tensor columns(const Tensor& ids, std::int64_t begin, std::int64_t count) {
  const Tensor result = Tensor::empty({ids.shape()[0], count}, DType::i64, backend_device());
  for (std::int64_t row = 0; row < ids.shape()[0]; ++row)
    std::copy_n(ids.data<std::int64_t>() + row * ids.shape()[1] + begin,
                count,
                result.data<std::int64_t>() + row * count);
  return result;
}

// One segment of tokens [streams, time]; the targets are the next tokens.
inline Fields segment_fields(const Tensor& text, std::int64_t begin, std::int64_t time) {
  return {{"tokens", columns(text, begin, time)}, {"targets", columns(text, begin + 1, time)}};
}

inline ModelInput segment_of(const Tensor& text,
                             std::int64_t begin,
                             std::int64_t time,
                             const RecurrentState& carried = {},
                             std::int64_t max_mem_len = 0) {
  return {
      .fields = segment_fields(text, begin, time), .carried = carried, .max_mem_len = max_mem_len};
}

// Rows of tokens [streams, time + 1] as the one segment of a step.
inline Batch batch_of_rows(const Tensor& text, const StreamRange& rows) {
  return {.fields = rows_of(segment_fields(text, 0, text.shape()[1] - 1), rows.begin, rows.end),
          .counts = {{"tokens", rows.count() * (text.shape()[1] - 1)}},
          .first_row = rows.begin,
          .place = "in a test"};
}

inline Batch batch_of_rows(const Tensor& text) {
  return batch_of_rows(text, {.begin = 0, .end = text.shape()[0]});
}

// The Transformer-XL memory of each layer, from the first on.
inline RecurrentState memory_of(const std::vector<Tensor>& layers) {
  RecurrentState carried;
  for (const Tensor& layer : layers)
    carried.tensors.push_back({"mems/" + std::to_string(carried.tensors.size()), layer});
  return carried;
}

// Losses of a language model, the only term.
inline Variable loss_values(const Losses& losses) {
  EXPECT_EQ(losses.terms.size(), 1u);
  return losses.terms.front().values;
}

inline Variable losses_of(const Model& model,
                          const ModelInput& reading,
                          const ForwardContext& pass = {}) {
  return loss_values(model.losses(reading, pass));
}

inline double mean(const Tensor& losses) {
  double total = 0;
  for (const double loss : losses.span<double>()) total += loss;
  return total / static_cast<double>(losses.elements());
}

// Compares the gradients of a model's losses with finite differences, for all weights.
inline void expect_model_gradients(Model& model,
                                   const ModelInput& segment,
                                   const ForwardContext& pass,
                                   double step = GradientCheck().step) {
  expect_layer_gradients(
      model.parameters(),
      [&](const std::vector<Variable>&) { return losses_of(model, segment, pass); },
      {},
      {.step = step, .directions = 1, .elements = 1});
}

// Gradient descent on one segment. Returns the mean loss before the first step and after the last.
inline std::pair<double, double> descend(Model& model,
                                         const ModelInput& segment,
                                         int steps,
                                         double rate) {
  double first = 0;
  for (int step = 0; step < steps; ++step) {
    model.parameters().clear_gradients();
    const Variable losses = losses_of(model, segment);
    if (step == 0) first = mean(losses.value());
    backward(sum(losses, 1.0 / static_cast<double>(losses.value().elements())));
    for (const auto& parameter : model.parameters().all())
      for (std::int64_t i = 0; i < parameter->master.elements(); ++i)
        parameter->master.data<double>()[i] -= rate * parameter->gradient.data<double>()[i];
    model.parameters().refresh_compute();
  }
  return {first, mean(losses_of(model, segment).value())};
}

}  // namespace longspan::testing
