// The encoder layers that each mapping reads.
#include "framework/nn/attention/cross_attention.h"

#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"

namespace longspan::cross_attention_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 2;
constexpr std::int64_t time = 3;
constexpr std::int64_t side_time = 5;
constexpr std::int64_t width = 6;
constexpr std::int64_t side_width = 4;
constexpr std::int64_t encoder_layers = 3;
constexpr std::int64_t layer = 1;

CrossAttention attention_of(const Scope& scope,
                            CrossAttentionMapping wiring,
                            std::int64_t place = layer) {
  return CrossAttention(scope,
                        {.attention = {.width = width,
                                       .heads = 2,
                                       .dim = 3,
                                       .encoder_hidden_size = side_width,
                                       .initial = Initializer::normal(0.5)},
                         .wiring = wiring,
                         .layer = place,
                         .encoder_layers = encoder_layers},
                        std::make_unique<SoftmaxAttention>(0));
}

Tensor lengths(const std::vector<std::int64_t>& of_rows) {
  return Tensor::from<std::int64_t>(of_rows, {batch}, backend_device());
}

std::vector<EncoderOutput> sides_of(const std::vector<Variable>& rows) {
  std::vector<EncoderOutput> sides;
  for (const Variable& of_layer : rows)
    sides.push_back({.rows = of_layer, .length = lengths({4, side_time})});
  return sides;
}

std::vector<EncoderOutput> random_sides() {
  std::vector<Variable> rows;
  for (std::uint64_t i = 0; i < encoder_layers; ++i)
    rows.emplace_back(random_tensor({batch, side_time, side_width}, 10 + i));
  return sides_of(rows);
}

const std::vector<CrossAttentionMapping> all_wirings = {CrossAttentionMapping::last,
                                                        CrossAttentionMapping::same,
                                                        CrossAttentionMapping::reverse,
                                                        CrossAttentionMapping::mix,
                                                        CrossAttentionMapping::full};

TEST(CrossAttentionMapping, GradientMatchesNumericalGradient) {
  for (const CrossAttentionMapping wiring : all_wirings) {
    Parameters parameters = testing::one_process_parameters();
    const CrossAttention attention = attention_of(Scope(parameters), wiring);
    testing::allocate_randomly(parameters, 1);
    std::vector<Tensor> inputs = {random_tensor({batch, time, width}, 1)};
    const std::int64_t sides = reads_all_layers(wiring) ? encoder_layers : 1;
    for (std::int64_t i = 0; i < sides; ++i)
      inputs.push_back(random_tensor({batch, side_time, side_width}, 20 + i));
    testing::expect_layer_gradients(
        parameters,
        [&](const std::vector<Variable>& in) {
          return attention(in[0], sides_of({in.begin() + 1, in.end()}), ForwardContext());
        },
        inputs);
  }
}

// Equal weights for every mapping.
struct MappedLayer {
  Parameters parameters = testing::one_process_parameters();
  CrossAttention attention;

  explicit MappedLayer(CrossAttentionMapping wiring, std::int64_t place = layer)
      : attention(attention_of(Scope(parameters), wiring, place)) {
    parameters.allocate(Random(3));
  }
  Values at(const std::vector<EncoderOutput>& sides) const {
    return values_of(
        attention(Variable(random_tensor({batch, time, width}, 1)), sides, ForwardContext())
            .value());
  }
};

TEST(CrossAttentionMapping, AttendsToMappedLayers) {
  const std::vector<EncoderOutput> sides = random_sides();
  std::vector<Values> alone;
  for (const EncoderOutput& side : sides)
    alone.push_back(MappedLayer(CrossAttentionMapping::last).at({side}));
  Values average(alone[0].size(), 0);
  for (const Values& found : alone)
    for (std::size_t i = 0; i < found.size(); ++i) average[i] += found[i] / encoder_layers;
  for (std::int64_t place = 0; place < encoder_layers; ++place) {
    const auto at = static_cast<std::size_t>(place);
    EXPECT_EQ(MappedLayer(CrossAttentionMapping::same, place).at(sides), alone[at]);
    EXPECT_EQ(MappedLayer(CrossAttentionMapping::reverse, place).at(sides),
              alone[encoder_layers - 1 - at]);
  }
  expect_close(MappedLayer(CrossAttentionMapping::full).at(sides), average, 1e-13);
}

TEST(CrossAttentionMapping, OneHotMixtureEqualsThatLayer) {
  const std::vector<EncoderOutput> sides = random_sides();
  MappedLayer mixed(CrossAttentionMapping::mix);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    Values weights(encoder_layers, -100);
    weights[i] = 100;
    mixed.parameters.named("mixture").master.copy_from(
        testing::tensor_of<double>(weights, {encoder_layers}));
    expect_close(mixed.at(sides), MappedLayer(CrossAttentionMapping::last).at({sides[i]}), 1e-13);
  }
}

TEST(CrossAttentionMapping, MixtureStartsAsMean) {
  const std::vector<EncoderOutput> sides = random_sides();
  Values mean(static_cast<std::size_t>(batch * side_time * side_width), 0);
  for (const EncoderOutput& side : sides)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += values_of(side.rows.value())[i] / encoder_layers;
  EncoderOutput one = sides[0];
  one.rows = Variable(testing::tensor_of<double>(mean, {batch, side_time, side_width}));
  expect_close(MappedLayer(CrossAttentionMapping::mix).at(sides),
               MappedLayer(CrossAttentionMapping::last).at({one}),
               1e-13);
}

TEST(CrossAttentionMapping, EmptyEncoderOutputGivesOnlyBias) {
  for (const CrossAttentionMapping wiring : all_wirings) {
    MappedLayer mapped(wiring);
    const Tensor bias = mapped.parameters.named("out/bias").master;
    bias.copy_from(random_tensor({width}, 5));
    std::vector<EncoderOutput> sides = random_sides();
    std::vector<Variable> leaves;
    for (EncoderOutput& side : sides) {
      side.rows = Variable::leaf(side.rows.value());
      side.length = lengths({0, 2});
      leaves.push_back(side.rows);
    }
    if (wiring == CrossAttentionMapping::last) sides = {sides.back()};
    const Variable x = Variable::leaf(random_tensor({batch, time, width}, 1));
    const Variable y = mapped.attention(x, sides, ForwardContext());
    const Tensor empty = y.value().slice(0, 1).reshape({time, width});
    for (std::int64_t i = 0; i < time; ++i)
      EXPECT_EQ(values_of(empty.slice(i, i + 1)), values_of(bias));
    backward({y}, {random_tensor(y.shape(), 2)});
    EXPECT_EQ(values_of(x.gradient().slice(0, 1)), Values(time * width, 0));
    for (const Variable& leaf : leaves) {
      if (!leaf.gradient().defined()) continue;
      EXPECT_EQ(values_of(leaf.gradient().slice(0, 1)), Values(side_time * side_width, 0));
      for (const double value : values_of(leaf.gradient())) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(CrossAttentionMapping, RejectsIncompatibleStacks) {
  EXPECT_EQ(validate_wiring(CrossAttentionMapping::same, 3, 3), "");
  EXPECT_EQ(validate_wiring(CrossAttentionMapping::mix, 3, 6), "");
  EXPECT_EQ(validate_wiring(CrossAttentionMapping::reverse, 3, 6),
            "model.cross_attention.layer_mapping: reverse requires equal numbers of encoder and "
            "decoder layers, found 3 and 6");
  EXPECT_THROW(MappedLayer(CrossAttentionMapping::full).at({random_sides()[0]}), Failure);
}

}  // namespace
}  // namespace longspan::cross_attention_test
