// Recurrent states that continue over the segments of a stream (model.stateful).
#include <algorithm>
#include <cmath>

#include "framework/nn/attention/kv_cache.h"
#include "framework/options/options.h"
#include "tests/models/kinds_testing.h"
#include "tests/models/model_testing.h"

namespace longspan::stateful_test {
namespace {

using testing::loss_values;
using testing::segment_of;
using testing::Values;
using testing::values_of;

constexpr std::int64_t time = 7;

DecoderOptions with_layers(const std::vector<std::string>& kinds, bool stateful) {
  DecoderOptions options = {.common = testing::tiny_options(NormPosition::pre)};
  options.common.head_width = 4;
  options.common.attention = testing::short_attention(kinds);
  options.common.attention.mamba2 = {.dim = 2, .state = 3, .groups = 2};
  options.positions.kind = PositionEmbeddingType::rotary;
  options.stateful = stateful;
  return options;
}

std::unique_ptr<Model> model_of(const DecoderOptions& options) {
  return make_decoder(options, testing::tiny_setting(2 * time));
}

Losses continued(const Model& model, const ModelInput& reading) {
  return model.losses(reading, {.kv_cache = model.sequence_cache(reading, false)});
}

void expect_two_segments_equal_one(const std::string& kind, const RotaryOptions& rotary) {
  SCOPED_TRACE(kind);
  const NoGradGuard unrecorded;
  const auto made = [&](bool stateful) {
    DecoderOptions options = with_layers({kind}, stateful);
    options.positions.rope = rotary;
    return model_of(options);
  };
  const auto model = made(true);
  const auto whole = made(false);
  const Tensor tokens = testing::random_ids(2, 2 * time + 1, 3);
  const Values expected =
      values_of(loss_values(whole->losses(segment_of(tokens, 0, 2 * time), {})).value());
  const Losses first = continued(*model, segment_of(tokens, 0, time));
  EXPECT_EQ(first.carried.length(), 0);
  EXPECT_EQ(first.carried.tensors.size(), model->recurrent_states().size());
  for (const RecurrentStateSpec& spec : model->recurrent_states()) {
    const auto& tensors = first.carried.tensors;
    const auto found = std::ranges::find(tensors, spec.name, &RecurrentStateTensor::name);
    ASSERT_NE(found, tensors.end()) << spec.name;
    EXPECT_EQ(found->tensor.shape(), spec.local_shape(2)) << spec.name;
    EXPECT_EQ(found->tensor.dtype(), spec.dtype) << spec.name;
  }
  const Losses second = continued(*model, segment_of(tokens, time, time, first.carried));
  const Values parts[] = {values_of(loss_values(first).value()),
                          values_of(loss_values(second).value())};
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t i = 0; i < 2 * time; ++i)
      EXPECT_NEAR(parts[i / time][row * time + i % time], expected[row * 2 * time + i], 1e-12);
  // Without the state, losses differ.
  const Losses from_zero = continued(*model, segment_of(tokens, time, time));
  EXPECT_GT(std::abs(values_of(loss_values(from_zero).value())[0] - parts[1][0]), 1e-6);
}

TEST(Stateful, TwoSegmentsEqualOne) {
  for (const char* const kind : {"retention",
                                 "gla",
                                 "delta_net",
                                 "gated_delta_net",
                                 "kimi_delta_attention",
                                 "mamba2",
                                 "rwkv7"})
    expect_two_segments_equal_one(kind, {});
  // Factors of the features, and features that are not rotated.
  expect_two_segments_equal_one("retention",
                                {.base = 50,
                                 .share = 0.5,
                                 .pairs = RotaryLayout::neighbors,
                                 .scaling = RotaryScaling::linear,
                                 .factor = 2,
                                 .attention_factor = 1.3});
}

// The state before a segment is a constant.
TEST(Stateful, GradientsMatchFiniteDifferences) {
  for (const std::vector<std::string>& kinds :
       {std::vector<std::string>{"gated_delta_net", "mamba2"}, {"rwkv7", "full"}}) {
    const auto model = model_of(with_layers(kinds, true));
    // Norms of small outputs would have a large curvature.
    for (std::uint64_t i = 0; const auto& parameter : model->parameters().trained())
      parameter->master.copy_from(testing::random_tensor(parameter->master.shape(), ++i));
    model->parameters().refresh_compute();
    const Tensor tokens = testing::random_ids(2, 2 * time + 1, 3);
    ModelInput reading = segment_of(tokens, time, time);
    {
      const NoGradGuard unrecorded;
      reading.carried = continued(*model, segment_of(tokens, 0, time)).carried;
    }
    testing::expect_layer_gradients(model->parameters(),
                                    [&](const std::vector<Variable>&) -> Variable {
                                      const ForwardContext pass = {
                                          .training = true,
                                          .random = Random(3),
                                          .kv_cache = model->sequence_cache(reading, true)};
                                      return sum(loss_values(model->losses(reading, pass)));
                                    },
                                    {},
                                    {.step = 1e-5, .directions = 1, .elements = 1});
  }
}

}  // namespace
}  // namespace longspan::stateful_test
