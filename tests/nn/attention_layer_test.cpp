// Multi-head softmax and relative attention, against loops over single elements.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/positions.h"
#include "tests/nn/layer_testing.h"

namespace longspan::attention_layer_test {
namespace {

using testing::allocate_randomly;
using testing::backend_device;
using testing::expect_close;
using testing::expect_layer_gradients;
using testing::one_process_parameters;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t width = 6;
constexpr std::int64_t heads = 2;
constexpr std::int64_t dim = 2;  // heads * dim is not the width
constexpr std::int64_t batch = 2;

std::unique_ptr<MultiHeadAttention> softmax_layer(Parameters& parameters, double dropout = 0) {
  auto layer = std::make_unique<MultiHeadAttention>(
      Scope(parameters).child("a"),
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      std::make_unique<SoftmaxAttention>(dropout));
  allocate_randomly(parameters, 1);
  return layer;
}

std::unique_ptr<MultiHeadAttention> relative_layer(Parameters& parameters, double dropout = 0) {
  const Scope scope = Scope(parameters).child("a");
  auto layer = std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim, .bias = false},
      std::make_unique<RelativeAttention>(
          scope,
          RelativeAttention::Options{
              .width = width, .heads = heads, .dim = dim, .dropout = dropout},
          PositionBiases(scope, heads, dim, Initializer::normal(1))));
  allocate_randomly(parameters, 1);
  return layer;
}

AttentionContext relative_context(std::int64_t time, std::int64_t memory, std::int64_t clamp = -1) {
  AttentionContext context;
  context.mask.query_begin = memory;
  context.distances = Variable(sinusoids(
      SinusoidLayout::halves, 0, time + memory, width, clamp, DType::f64, backend_device()));
  return context;
}

// A row times a matrix [out, in], plus a bias if the layer has one.
Values project(const Parameters& parameters, const std::string& name, const double* row) {
  const Parameter& weight = parameters.named("a/" + name + "/weight");
  Values result;
  for (std::int64_t out = 0; out < weight.shape[0]; ++out) {
    double sum = 0;
    for (std::int64_t in = 0; in < weight.shape[1]; ++in)
      sum += weight.master.data<double>()[out * weight.shape[1] + in] * row[in];
    result.push_back(sum);
  }
  for (const auto& parameter : parameters.all())
    if (parameter->name == "a/" + name + "/bias")
      for (std::size_t i = 0; i < result.size(); ++i)
        result[i] += parameter->master.data<double>()[i];
  return result;
}

// The full layer, pair by pair. With distances, the score is (q + u).k + (q + v).(W_r R_distance).
// Keys come from [memory; source].
Values naive(const Parameters& parameters,
             const Tensor& x,
             const Tensor& memory,
             const AttentionContext& context) {
  const std::int64_t time = x.shape()[1];
  const std::int64_t past = memory.defined() ? memory.shape()[1] : 0;
  const bool relative = context.distances.defined();
  Values result;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < time; ++i) {
      const Values q = project(parameters, "query", x.data<double>() + (b * time + i) * width);
      Values mixed(static_cast<std::size_t>(heads * dim), 0);
      for (std::int64_t h = 0; h < heads; ++h) {
        Values weights;
        std::vector<Values> values;
        double total = 0;
        for (std::int64_t j = 0; j < past + time; ++j) {
          const std::int64_t distance = i + past - j;
          if (!context.mask.rules.of(h).allows(i + past, j)) continue;
          const double* const row = j < past ? memory.data<double>() + (b * past + j) * width
                                             : x.data<double>() + (b * time + j - past) * width;
          const Values k = project(parameters, "key", row);
          double score = 0;
          for (std::int64_t e = h * dim; e < (h + 1) * dim; ++e) {
            const auto at = static_cast<std::size_t>(e);
            if (!relative) {
              score += q[at] * k[at];
              continue;
            }
            const double u = parameters.named("a/content_bias").master.data<double>()[e];
            const double v = parameters.named("a/position_bias").master.data<double>()[e];
            const Values r = project(parameters,
                                     "position",
                                     context.distances.value().data<double>() + distance * width);
            score += (q[at] + u) * k[at] + (q[at] + v) * r[at];
          }
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          values.push_back(project(parameters, "value", row));
          total += weights.back();
        }
        for (std::size_t j = 0; j < weights.size(); ++j)
          for (std::int64_t e = h * dim; e < (h + 1) * dim; ++e)
            mixed[static_cast<std::size_t>(e)] +=
                weights[j] / total * values[j][static_cast<std::size_t>(e)];
      }
      for (const double value : project(parameters, "out", mixed.data())) result.push_back(value);
    }
  return result;
}

struct Lengths {
  std::int64_t time;
  std::int64_t memory;
};

std::vector<Lengths> all_lengths() {
  std::vector<Lengths> result;
  for (const std::int64_t time : {1, 3, 5})
    for (const std::int64_t memory : {0, 2, 7}) result.push_back({time, memory});
  return result;
}

Tensor memory_of(std::int64_t length) {
  return length == 0 ? Tensor() : random_tensor({batch, length, width}, 3);
}

void expect_naive(const MultiHeadAttention& layer,
                  Parameters& parameters,
                  const Lengths& lengths,
                  const AttentionContext& context) {
  SCOPED_TRACE("time " + std::to_string(lengths.time) + ", memory " +
               std::to_string(lengths.memory));
  const Tensor x = random_tensor({batch, lengths.time, width}, 2);
  const Tensor memory = memory_of(lengths.memory);
  const Variable past = memory.defined() ? Variable(memory) : Variable();
  expect_close(values_of(layer(Variable(x), past, context, ForwardContext()).value()),
               naive(parameters, x, memory, context),
               1e-12);
  std::vector<Tensor> inputs = {x};
  if (memory.defined()) inputs.push_back(memory);
  expect_layer_gradients(
      parameters,
      [&](const auto& in) {
        return layer(in[0], in.size() > 1 ? in[1] : Variable(), context, ForwardContext());
      },
      inputs,
      {.directions = 1, .elements = 2});
}

TEST(MultiHeadAttention, MatchesReferenceLoop) {
  for (const Lengths& lengths : all_lengths()) {
    Parameters parameters = one_process_parameters();
    const auto layer = softmax_layer(parameters);
    AttentionContext context;
    context.mask.query_begin = lengths.memory;
    expect_naive(*layer, parameters, lengths, context);
  }
}

TEST(MultiHeadAttention, MatchesReferenceLoopWithoutCausalMask) {
  Parameters parameters = one_process_parameters();
  const auto layer = softmax_layer(parameters);
  AttentionContext context;
  context.mask.rules = Mask();
  expect_naive(*layer, parameters, {4, 0}, context);
}

TEST(MultiHeadAttention, AttendsToAnotherSource) {
  Parameters parameters = one_process_parameters();
  const auto layer = softmax_layer(parameters);
  AttentionContext context;
  context.mask.rules = Mask();
  expect_layer_gradients(
      parameters,
      [&](const auto& in) {
        return (*layer)(in[0], EncoderOutput{.rows = in[1]}, context, ForwardContext());
      },
      {random_tensor({batch, 3, width}, 1), random_tensor({batch, 5, width}, 2)});
  const Variable y = (*layer)(Variable(random_tensor({batch, 3, width}, 1)),
                              EncoderOutput{.rows = Variable(random_tensor({batch, 5, width}, 2))},
                              context,
                              ForwardContext());
  EXPECT_EQ(y.shape(), (Shape{batch, 3, width}));
}

TEST(MultiHeadAttention, DoesNotDependOnKeyOrder) {
  Parameters parameters = one_process_parameters();
  const auto layer = softmax_layer(parameters);
  AttentionContext context;
  context.mask.rules = Mask();
  const Variable x(random_tensor({1, 3, width}, 1));
  const Tensor source = random_tensor({1, 4, width}, 2);
  const Tensor flipped = source.empty_like();
  for (std::int64_t row = 0; row < 4; ++row)
    flipped.reshape({4, width})
        .slice(row, row + 1)
        .copy_from(source.reshape({4, width}).slice(3 - row, 4 - row));
  expect_close(
      values_of(
          (*layer)(x, EncoderOutput{.rows = Variable(source)}, context, ForwardContext()).value()),
      values_of(
          (*layer)(x, EncoderOutput{.rows = Variable(flipped)}, context, ForwardContext()).value()),
      1e-13);
}

TEST(RelativeAttention, MatchesReferenceLoop) {
  for (const Lengths& lengths : all_lengths()) {
    Parameters parameters = one_process_parameters();
    const auto layer = relative_layer(parameters);
    expect_naive(*layer, parameters, lengths, relative_context(lengths.time, lengths.memory));
  }
}

TEST(RelativeAttention, MatchesReferenceLoopWithWindow) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  AttentionContext context = relative_context(5, 3);
  context.mask.rules = masks::causal() & masks::window(3, 0);
  expect_naive(*layer, parameters, {5, 3}, context);
}

TEST(RelativeAttention, MatchesReferenceLoopWithClampedDistances) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  expect_naive(*layer, parameters, {3, 4}, relative_context(3, 4, 2));
}

TEST(RelativeAttention, ClampBeyondMaxDistanceChangesNothing) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  const Variable x(random_tensor({batch, 3, width}, 1));
  const Variable memory(memory_of(4));
  const Tensor free = (*layer)(x, memory, relative_context(3, 4), ForwardContext()).value();
  EXPECT_TRUE(testing::same_bits(
      (*layer)(x, memory, relative_context(3, 4, 6), ForwardContext()).value(), free));
  EXPECT_FALSE(testing::same_bits(
      (*layer)(x, memory, relative_context(3, 4, 5), ForwardContext()).value(), free));
}

TEST(RelativeAttention, EmptyMemoryEqualsNoMemory) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  const Variable x(random_tensor({batch, 3, width}, 1));
  const Variable empty(Tensor::zeros({batch, 0, width}, DType::f64, backend_device()));
  EXPECT_TRUE(testing::same_bits(
      (*layer)(x, empty, relative_context(3, 0), ForwardContext()).value(),
      (*layer)(x, Variable(), relative_context(3, 0), ForwardContext()).value()));
}

TEST(RelativeAttention, EqualsSoftmaxWithoutBiasesAndPositionKeys) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  for (const char* const name : {"a/content_bias", "a/position_bias", "a/position/weight"})
    parameters.named(name).master.zero();
  Parameters plain_parameters = one_process_parameters();
  const auto plain = softmax_layer(plain_parameters);
  for (const auto& parameter : plain_parameters.all()) {
    if (parameter->name.ends_with("bias"))
      parameter->master.zero();
    else
      parameter->master.copy_from(parameters.named(parameter->name).master);
  }
  const Variable x(random_tensor({batch, 3, width}, 1));
  const Variable memory(memory_of(4));
  AttentionContext context;
  context.mask.query_begin = 4;
  expect_close(values_of((*layer)(x, memory, relative_context(3, 4), ForwardContext()).value()),
               values_of((*plain)(x, memory, context, ForwardContext()).value()),
               1e-13);
}

TEST(RelativeAttention, RequiresDistances) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  EXPECT_THROW((*layer)(Variable(random_tensor({batch, 3, width}, 1)),
                        Variable(),
                        AttentionContext(),
                        ForwardContext()),
               Failure);
}

TEST(RelativeAttention, DistancesReceiveGradients) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  const ForwardContext pass = {.training = true, .random = Random(3)};
  expect_layer_gradients(
      parameters,
      [&](const auto& in) {
        AttentionContext context;
        context.mask.query_begin = 2;
        context.distances = in[2];
        return (*layer)(in[0], in[1], context, pass);
      },
      {random_tensor({batch, 3, width}, 1), memory_of(2), random_tensor({5, width}, 4)},
      {.directions = 1, .elements = 2});
}

TEST(RelativeAttention, DropoutFollowsStreamIndexAndHasGradients) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters, 0.4);
  const AttentionContext context = relative_context(3, 2);
  const Tensor x = random_tensor({batch, 3, width}, 1);
  expect_layer_gradients(parameters,
                         [&](const auto& in) { return (*layer)(in[0], in[1], context, pass); },
                         {x, memory_of(2)},
                         {.directions = 1, .elements = 2});
  // The second stream alone, with its stream index.
  ForwardContext second = pass;
  second.first_stream = 1;
  const Tensor both = (*layer)(Variable(x), Variable(memory_of(2)), context, pass).value();
  const Tensor alone =
      (*layer)(Variable(x.slice(1, 2)), Variable(memory_of(2).slice(1, 2)), context, second)
          .value();
  expect_close(values_of(alone), values_of(both.slice(1, 2)), 1e-13);
  EXPECT_FALSE(testing::same_bits(
      (*layer)(Variable(x), Variable(memory_of(2)), context, ForwardContext()).value(), both));
}

TEST(RelativeAttention, StreamsDoNotMix) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  const Tensor x = random_tensor({batch, 3, width}, 1);
  const Tensor memory = memory_of(4);
  const AttentionContext context = relative_context(3, 4);
  const Tensor both = (*layer)(Variable(x), Variable(memory), context, ForwardContext()).value();
  for (std::int64_t row = 0; row < batch; ++row)
    expect_close(values_of((*layer)(Variable(x.slice(row, row + 1)),
                                    Variable(memory.slice(row, row + 1)),
                                    context,
                                    ForwardContext())
                               .value()),
                 values_of(both.slice(row, row + 1)),
                 1e-13);
}

}  // namespace
}  // namespace longspan::attention_layer_test
