// Tagging and classification heads on one process.
#include "framework/modeling/heads.h"
#include "tests/models/embedding_body.h"
#include "tests/nn/layer_testing.h"

namespace longspan::label_readouts_test {
namespace {

using testing::backend_device;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t rows = 4;
constexpr std::int64_t time = 7;
constexpr std::int64_t width = 6;
constexpr std::int64_t classes = 3;
const std::vector<std::int64_t> lengths = {7, 1, 0, 4};

Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from<std::int64_t>(values, shape, backend_device());
}

ModelInput reading() {
  std::vector<std::int64_t> targets(rows * time, ignored_target);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < lengths[row]; i += 2)
      targets[row * time + static_cast<std::size_t>(i)] =
          (static_cast<std::int64_t>(row) + i / 2) % classes;
  return {.fields = {{"tokens", ids(std::vector<std::int64_t>(rows * time, 1), {rows, time})},
                     {"targets", ids(targets, {rows, time})},
                     {"length", ids(lengths, {rows})},
                     {"label", ids({2, 0, ignored_target, 1}, {rows})}}};
}

// A head with its parameters, applied to given hidden states.
struct Made {
  Parameters parameters = testing::one_process_parameters();
  ModelBuildOptions setting = {
      .vocabulary = 3, .classes = classes, .compute = DType::f64, .device = backend_device()};
  std::unique_ptr<OutputHead> readout;

  Made(const OutputHeadFactory& factory, const OutputHeadSpec& end, double deviation = 0.5) {
    Parameters unused = testing::one_process_parameters();
    const testing::EmbeddingBody body(Scope(unused), end, setting);
    readout = factory(Scope(parameters), body, setting);
    testing::allocate_randomly(parameters, 3, deviation);
  }

  BackboneOutput states(const Variable& hidden) const {
    return {.hidden = hidden, .time = shard_sequence(setting.mesh, time)};
  }
  Variable loss(const Variable& hidden) const {
    return sum(readout->losses(states(hidden), reading(), ForwardContext{}).front().values);
  }
  const Tensor& weight(const std::string& name) const { return parameters.named(name).master; }
};

OutputHeadSpec end_with(TaggingHeadType tags, Pooling pooling) {
  return {.width = width, .initial = Initializer::normal(0.5), .tags = tags, .pooling = pooling};
}

TEST(TaggingHead, GradientsMatchFiniteDifferences) {
  for (const TaggingHeadType kind : {TaggingHeadType::softmax, TaggingHeadType::crf}) {
    Made made(tagging_head(), end_with(kind, {}));
    testing::expect_layer_gradients(
        made.parameters,
        [&](const std::vector<Variable>& inputs) { return made.loss(inputs[0]); },
        {random_tensor({rows, time, width}, 1)});
  }
}

TEST(ClassificationHead, GradientsMatchFiniteDifferences) {
  for (const Pooling kind : {Pooling::first, Pooling::mean, Pooling::maximum, Pooling::attention}) {
    SCOPED_TRACE(static_cast<int>(kind));
    Made made(classification_head(), end_with({}, kind));
    testing::expect_layer_gradients(
        made.parameters,
        [&](const std::vector<Variable>& inputs) { return made.loss(inputs[0]); },
        {random_tensor({rows, time, width}, 1)});
  }
}

TEST(ClassificationHead, PoolingLayerAppliesTanh) {
  OutputHeadSpec end = end_with({}, Pooling::first);
  end.class_layer = true;
  Made made(classification_head(), end);
  testing::expect_layer_gradients(
      made.parameters,
      [&](const std::vector<Variable>& inputs) { return made.loss(inputs[0]); },
      {random_tensor({rows, time, width}, 1)});
  // Weights that pass only feature 0.
  const Made one(classification_head(), end);
  one.weight("output/layer/weight").zero();
  one.weight("output/layer/bias").zero();
  one.weight("output/layer/weight").data<double>()[0] = 1;
  const Tensor hidden = random_tensor({rows, time, width}, 1);
  const Values scores = values_of(
      one.readout->scores(one.states(Variable(hidden)), reading(), ForwardContext{}).value());
  const Values weight = values_of(one.weight("output/weight"));
  const Values bias = values_of(one.weight("output/bias"));
  for (std::size_t c = 0; c < classes; ++c)
    EXPECT_NEAR(
        scores[c], bias[c] + weight[c * width] * std::tanh(hidden.data<double>()[0]), 1e-12);
}

TEST(TaggingHead, CrfWithoutTransitionsEqualsSoftmax) {
  const Made field(tagging_head(), end_with(TaggingHeadType::crf, {}));
  const Made softmax(tagging_head(), end_with(TaggingHeadType::softmax, {}));
  for (const char* const name : {"output/start", "output/transitions", "output/end"})
    field.weight(name).zero();
  for (const char* const name : {"output/weight", "output/bias"})
    softmax.weight(name).copy_from(field.weight(name));
  const Variable hidden(random_tensor({rows, time, width}, 1));
  EXPECT_NEAR(field.loss(hidden).value().item(), softmax.loss(hidden).value().item(), 1e-12);
  const Tensor one = field.readout->predictions(field.states(hidden), reading(), ForwardContext{});
  const Tensor other =
      softmax.readout->predictions(softmax.states(hidden), reading(), ForwardContext{});
  EXPECT_TRUE(std::ranges::equal(one.span<std::int64_t>(), other.span<std::int64_t>()));
}

// A tag outside the training set has no loss, but a prediction.
TEST(TaggingHead, UnknownTagsHaveZeroLoss) {
  for (const TaggingHeadType kind : {TaggingHeadType::softmax, TaggingHeadType::crf}) {
    const Made made(tagging_head(), end_with(kind, {}));
    const Variable hidden(random_tensor({rows, time, width}, 1));
    const auto with_tag = [](std::int64_t tag) {
      ModelInput read = reading();
      read.fields.at("targets").data<std::int64_t>()[2] = tag;
      return read;
    };
    const auto loss = [&](const ModelInput& read) {
      return sum(made.readout->losses(made.states(hidden), read, ForwardContext{}).front().values)
          .value()
          .item();
    };
    EXPECT_EQ(loss(with_tag(classes + 1)), loss(with_tag(ignored_target)));
    EXPECT_LT(loss(with_tag(classes)), loss(with_tag(0)));
    const Tensor choices =
        made.readout->predictions(made.states(hidden), with_tag(classes), ForwardContext{});
    const Tensor expected =
        made.readout->predictions(made.states(hidden), with_tag(0), ForwardContext{});
    EXPECT_TRUE(std::ranges::equal(choices.span<std::int64_t>(), expected.span<std::int64_t>()));
  }
}

TEST(ClassificationHead, UnknownClassesHaveZeroLoss) {
  const Made made(classification_head(), end_with({}, Pooling::first));
  const Variable hidden(random_tensor({rows, time, width}, 1));
  const auto losses = [&](std::int64_t first) {
    ModelInput read = reading();
    read.fields.at("label").data<std::int64_t>()[0] = first;
    return values_of(
        made.readout->losses(made.states(hidden), read, ForwardContext{}).front().values.value());
  };
  const Values before = losses(2), after = losses(classes);
  EXPECT_GT(before[0], 0);
  EXPECT_EQ(after[0], 0);
  EXPECT_EQ(after[1], before[1]);
}

// Transitions connect words, not tokens.
TEST(TaggingHead, ViterbiAvoidsForbiddenTransitions) {
  const Made made(tagging_head(), end_with(TaggingHeadType::crf, {}));
  for (std::int64_t tag = 0; tag < classes; ++tag)
    made.weight("output/transitions").data<double>()[tag * classes + tag] =
        -std::numeric_limits<double>::infinity();
  const Tensor targets = reading().fields.at("targets");
  const Tensor hidden = random_tensor({rows, time, width}, 1);
  const Tensor found =
      made.readout->predictions(made.states(Variable(hidden)), reading(), ForwardContext{});
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t last = -1;
    for (std::int64_t i = row * time; i < (row + 1) * time; ++i) {
      const std::int64_t tag = found.data<std::int64_t>()[i];
      EXPECT_EQ(tag < 0, targets.data<std::int64_t>()[i] < 0);
      if (tag < 0) continue;
      EXPECT_NE(tag, last);
      last = tag;
    }
  }
}

TEST(ClassificationHead, DoesNotDependOnPadding) {
  for (const Pooling kind : {Pooling::first, Pooling::mean, Pooling::maximum, Pooling::attention}) {
    const Made made(classification_head(), end_with({}, kind));
    const Tensor hidden = random_tensor({rows, time, width}, 1);
    const double loss = made.loss(Variable(hidden)).value().item();
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = (row * time + lengths[static_cast<std::size_t>(row)]) * width;
           i < (row + 1) * time * width;
           ++i)
        hidden.data<double>()[i] = 1e6;
    EXPECT_EQ(made.loss(Variable(hidden)).value().item(), loss) << static_cast<int>(kind);
  }
}

TEST(ClassificationHead, ScoresMatchPooledStates) {
  const Tensor hidden = random_tensor({rows, time, width}, 1);
  const auto at = [&](std::int64_t row, std::int64_t i, std::int64_t f) {
    return hidden.data<double>()[(row * time + i) * width + f];
  };
  for (const Pooling kind : {Pooling::first, Pooling::mean, Pooling::maximum}) {
    const Made made(classification_head(), end_with({}, kind));
    Values expected;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t id = 0; id < classes; ++id) {
        double score = made.weight("output/bias").data<double>()[id];
        for (std::int64_t f = 0; f < width; ++f) {
          const std::int64_t length = lengths[static_cast<std::size_t>(row)];
          double mean = 0, maximum = length > 0 ? at(row, 0, f) : 0;
          for (std::int64_t i = 0; i < length; ++i) {
            mean += at(row, i, f) / static_cast<double>(length);
            maximum = std::max(maximum, at(row, i, f));
          }
          const double first = length > 0 ? at(row, 0, f) : 0;
          score += made.weight("output/weight").data<double>()[id * width + f] *
                   (kind == Pooling::first  ? first
                    : kind == Pooling::mean ? mean
                                            : maximum);
        }
        expected.push_back(score);
      }
    const Variable scores =
        made.readout->scores(made.states(Variable(hidden)), reading(), ForwardContext{});
    testing::expect_close(values_of(scores.value()), expected, 1e-12);
  }
}

}  // namespace
}  // namespace longspan::label_readouts_test
