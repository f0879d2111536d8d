// Model families in each compute dtype: losses and gradients match float64 up to rounding.
#include <map>

#include "tests/models/model_testing.h"

namespace longspan::precision_test {
namespace {

using testing::Values;
using testing::values_of;

struct Result {
  Values losses;
  Values memory;
  std::map<std::string, Values> gradients;
};

using Make = std::function<std::unique_ptr<Model>(const ModelBuildOptions&)>;

ModelOptions options_with_dropout(NormPosition norm) {
  ModelOptions options = testing::tiny_options(norm);
  options.activation = FeedForwardActivation::gelu;
  options.dropout = options.attention_dropout = 0.2;
  return options;
}

std::unique_ptr<Model> transformer_xl(const ModelBuildOptions& setting) {
  TransformerXlOptions options;
  options.common = options_with_dropout(NormPosition::post);
  options.memory = 4;
  return make_transformer_xl(options, setting);
}

std::unique_ptr<Model> decoder(const ModelBuildOptions& setting) {
  DecoderOptions options;
  options.common = options_with_dropout(NormPosition::pre);
  options.positions.kind = PositionEmbeddingType::learned;
  return make_decoder(options, setting);
}

std::unique_ptr<Model> relative_decoder(const ModelBuildOptions& setting) {
  DecoderOptions options;
  options.common = options_with_dropout(NormPosition::pre);
  options.positions = {.kind = PositionEmbeddingType::relative, .relative_max_distance = 2};
  return make_decoder(options, setting);
}

std::unique_ptr<Model> biased_decoder(const ModelBuildOptions& setting) {
  DecoderOptions options;
  options.common = options_with_dropout(NormPosition::pre);
  options.common.scale_attn_weights = false;
  options.common.scale_decoder_outputs = true;
  options.positions = {
      .kind = PositionEmbeddingType::relative_bias, .relative_max_distance = 3, .buckets = 4};
  return make_decoder(options, setting);
}

// Runs two segments, with the memory of the first in the second.
Result run(const Make& make, DType compute) {
  ModelBuildOptions setting = testing::tiny_setting();
  setting.compute = compute;
  const auto model = make(setting);
  const Tensor text = testing::random_ids(3, 11, 1);
  const ForwardContext pass = {.training = true, .random = Random(3)};
  const std::int64_t longest = model->body().max_mem_len();
  const Losses first = model->losses(testing::segment_of(text, 0, 5, {}, longest), pass.child(0));
  const Losses second =
      model->losses(testing::segment_of(text, 5, 5, first.carried, longest), pass.child(1));
  const Variable losses = testing::loss_values(second);
  EXPECT_EQ(losses.value().dtype(), accumulator_of(compute));
  Result result;
  result.losses = values_of(losses.value());
  for (const RecurrentStateTensor& layer : second.carried.tensors) {
    EXPECT_EQ(layer.tensor.dtype(), compute);
    for (const double value : values_of(layer.tensor)) result.memory.push_back(value);
  }
  backward(sum(add(testing::loss_values(first), losses)));
  for (const auto& parameter : model->parameters().all()) {
    EXPECT_EQ(parameter->variable.gradient().dtype(), accumulator_of(compute));
    result.gradients[parameter->name] = values_of(parameter->variable.gradient());
  }
  return result;
}

// |found - expected| / |expected| as vectors; 0 without elements.
double relative_error(const Values& found, const Values& expected) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(found[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return expected.empty() ? 0 : std::sqrt(difference / size);
}

void expect_same_within(const Make& make, DType compute, double tolerance) {
  SCOPED_TRACE(name_of(compute));
  const Result expected = run(make, DType::f64);
  const Result found = run(make, compute);
  EXPECT_LT(relative_error(found.losses, expected.losses), tolerance);
  EXPECT_LE(relative_error(found.memory, expected.memory), tolerance);
  for (const auto& [name, gradient] : expected.gradients) {
    // Key biases shift all scores of a query equally: their gradient is rounding only.
    if (name.ends_with("key/bias")) continue;
    EXPECT_LT(relative_error(found.gradients.at(name), gradient), 5 * tolerance) << name;
  }
}

TEST(Precision, Float32MatchesFloat64WithinRounding) {
  expect_same_within(transformer_xl, DType::f32, 2e-6);
  expect_same_within(decoder, DType::f32, 2e-6);
  expect_same_within(relative_decoder, DType::f32, 2e-6);
  expect_same_within(biased_decoder, DType::f32, 2e-6);
}

TEST(Precision, Bf16AndF16MatchFloat64WithinRounding) {
  expect_same_within(transformer_xl, DType::bf16, 0.02);
  expect_same_within(decoder, DType::bf16, 0.02);
  expect_same_within(relative_decoder, DType::bf16, 0.02);
  expect_same_within(biased_decoder, DType::bf16, 0.02);
  expect_same_within(transformer_xl, DType::f16, 0.0025);
  expect_same_within(decoder, DType::f16, 0.0025);
  expect_same_within(relative_decoder, DType::f16, 0.0025);
  expect_same_within(biased_decoder, DType::f16, 0.0025);
}

}  // namespace
}  // namespace longspan::precision_test
