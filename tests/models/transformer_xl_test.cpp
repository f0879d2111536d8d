// Transformer-XL and its memory.
#include "models/transformer_xl.h"

#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/positions.h"
#include "models/stack.h"
#include "tests/models/model_testing.h"

namespace longspan::transformer_xl_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::loss_values;
using testing::memory_of;
using testing::random_ids;
using testing::random_tensor;
using testing::segment_of;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

constexpr NormPosition placements[] = {NormPosition::post, NormPosition::pre};

TransformerXlOptions tiny(NormPosition norm = NormPosition::post, std::int64_t memory = 4) {
  TransformerXlOptions options;
  options.common = testing::tiny_options(norm);
  options.memory = memory;
  return options;
}

// Losses [streams, time] of consecutive segments of these lengths, with memory.
Values losses_of(const Model& model,
                 const Tensor& text,
                 const std::vector<std::int64_t>& lengths,
                 std::int64_t max_mem_len) {
  const std::int64_t streams = text.shape()[0];
  const std::int64_t total = text.shape()[1] - 1;
  Values result(static_cast<std::size_t>(streams * total));
  RecurrentState memory;
  std::int64_t begin = 0;
  for (const std::int64_t time : lengths) {
    const Losses part =
        model.losses(segment_of(text, begin, time, memory, max_mem_len), ForwardContext());
    memory = part.carried;
    const Tensor losses = loss_values(part).value();
    for (std::int64_t row = 0; row < streams; ++row)
      for (std::int64_t i = 0; i < time; ++i)
        result[static_cast<std::size_t>(row * total + begin + i)] =
            losses.data<double>()[row * time + i];
    begin += time;
  }
  return result;
}

TEST(TransformerXl, StartsAtUniformLoss) {
  TransformerXlOptions options = tiny();
  options.common.initial_deviation = 0.02;
  const auto model = make_transformer_xl(options, tiny_setting());
  const Values losses = losses_of(*model, random_ids(8, 11, 1), {5, 5}, 4);
  double total = 0;
  for (const double loss : losses) total += loss;
  EXPECT_NEAR(total / 80, std::log(11.0), 0.05);
}

TEST(TransformerXl, GradientsWithMemoryMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const NormPosition norm : placements)
    for (const double dropout : {0.0, 0.3})
      for (const bool shared : {true, false}) {
        TransformerXlOptions options = tiny(norm);
        options.common.activation =
            FeedForwardActivation::gelu;  // relu has kinks, which finite differences may cross
        options.common.dropout = options.common.attention_dropout = dropout;
        options.share_position_biases = shared;
        const auto model = make_transformer_xl(options, tiny_setting());
        const RecurrentState memory =
            memory_of({random_tensor({2, 4, 8}, 4), random_tensor({2, 4, 8}, 5)});
        testing::expect_model_gradients(
            *model, segment_of(random_ids(2, 6, 1), 0, 5, memory, 4), pass);
      }
}

TEST(TransformerXl, ReducesLossOnRepeatedSegment) {
  const auto model = make_transformer_xl(tiny(), tiny_setting());
  const RecurrentState memory =
      memory_of({random_tensor({2, 4, 8}, 4), random_tensor({2, 4, 8}, 5)});
  const auto [first, last] =
      testing::descend(*model, segment_of(random_ids(2, 6, 1), 0, 5, memory, 4), 30, 0.3);
  EXPECT_LT(last, 0.5 * first);
}

TEST(TransformerXl, MemoryMatchesOneLongSegment) {
  const Tensor text = random_ids(2, 13, 1);
  for (const NormPosition norm : placements) {
    const auto model = make_transformer_xl(tiny(norm), tiny_setting());
    const Values whole = losses_of(*model, text, {12}, 0);
    expect_close(losses_of(*model, text, {4, 4, 4}, 8), whole, 1e-12);
    expect_close(losses_of(*model, text, {1, 7, 2, 2}, 100), whole, 1e-12);
    expect_close(losses_of(*model, text, std::vector<std::int64_t>(12, 1), 11), whole, 1e-12);
  }
}

// These masks depend only on relative positions, which a memory preserves.
TEST(TransformerXl, MemoryMatchesOneLongSegmentWithSparseAttention) {
  const Tensor text = random_ids(2, 13, 1);
  TransformerXlOptions options = tiny();
  options.common.attention = {.sliding_window = {3}, .dilation = 2, .stride = 3};
  for (const std::string kind : {"sliding_window", "strided", "sliding_window+strided/dilated"}) {
    SCOPED_TRACE(kind);
    options.common.attention.kinds = {kind};
    const auto model = make_transformer_xl(options, tiny_setting(12));
    const Values whole = losses_of(*model, text, {12}, 0);
    expect_close(losses_of(*model, text, {4, 4, 4}, 8), whole, 1e-12);
    expect_close(losses_of(*model, text, {1, 7, 2, 2}, 11), whole, 1e-12);
  }
  // A local layer needs no more memory than its window.
  options.common.attention.kinds = {"sliding_window"};
  const auto model = make_transformer_xl(options, tiny_setting(12));
  expect_close(losses_of(*model, text, {4, 4, 4}, 2), losses_of(*model, text, {4, 4, 4}, 8), 1e-12);
}

TEST(TransformerXl, EvaluationSupportsLongerMemory) {
  const Tensor text = random_ids(2, 13, 1);
  const auto model = make_transformer_xl(tiny(NormPosition::post, 2), tiny_setting());
  EXPECT_EQ(model->body().max_mem_len(), 2);
  const Values whole = losses_of(*model, text, {12}, 0);
  expect_close(losses_of(*model, text, {4, 4, 4}, 8), whole, 1e-12);
  const Values shorter = losses_of(*model, text, {4, 4, 4}, 2);
  EXPECT_GT(std::abs(shorter[11] - whole[11]), 1e-6) << "the last token has lost some context";
}

TEST(TransformerXl, SegmentsAreIndependentWithoutMemory) {
  const Tensor text = random_ids(2, 9, 1);
  const auto model = make_transformer_xl(tiny(NormPosition::post, 0), tiny_setting());
  const Values carried = losses_of(*model, text, {4, 4}, 0);
  const Losses second = model->losses(segment_of(text, 4, 4), ForwardContext());
  EXPECT_TRUE(second.carried.tensors.empty());
  const Values alone = values_of(loss_values(second).value());
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(carried[row * 8 + 4 + i], alone[row * 4 + i]);
}

// x, with the gradient of the first `count` positions set to 0.
Variable stopped_before(const Variable& x, std::int64_t count) {
  return record(x.value().clone(), {x}, [count](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    for (std::int64_t stream = 0; stream < dx.shape()[0]; ++stream)
      dx.slice(stream, stream + 1).reshape({dx.shape()[1], dx.shape()[2]}).slice(0, count).zero();
    gradients.set(0, dx);
  });
}

// Reference over one long segment: layer inputs before `border` have no gradient. Computes
// gradients of the losses after the border.
void backward_of_long_segment(Parameters& parameters,
                              const TransformerXlOptions& options,
                              const Parameters& weights,
                              const Tensor& text,
                              std::int64_t border) {
  const ModelOptions& common = options.common;
  const Scope scope(parameters);
  const TokenEmbedding words(scope.child("embedding"), testing::vocabulary, common.width, {});
  const PositionBiases biases(scope, common.heads, common.head_dim(), {});
  const std::vector<Layer> layers =
      make_layers(scope,
                  {.common = common, .attention_bias = false},
                  [&](const Scope& attention, std::int64_t) {
                    return std::make_unique<RelativeAttention>(
                        attention,
                        RelativeAttention::Options{
                            .width = common.width, .heads = common.heads, .dim = common.head_dim()},
                        biases);
                  });
  const LMHead output(scope.child("output"),
                      {.vocabulary = testing::vocabulary, .width = common.width},
                      words.table());
  std::optional<Norm> final_norm;
  if (common.has_final_norm()) final_norm.emplace(scope.child("final_norm"), common.width);
  parameters.allocate(Random(1));
  ASSERT_EQ(parameters.all().size(), weights.all().size());
  for (const auto& parameter : parameters.all())
    parameter->master.copy_from(weights.named(parameter->name).master);

  const std::int64_t time = text.shape()[1] - 1;
  AttentionContext context;
  context.distances = Variable(
      sinusoids(SinusoidLayout::halves, 0, time, common.width, -1, DType::f64, backend_device()));
  const auto residual = make_residual(common);
  Variable hidden =
      words(testing::columns(text, 0, time), std::sqrt(static_cast<double>(common.width)));
  for (const Layer& layer : layers)
    hidden = residual->run(std::span(&layer, 1),
                           stopped_before(hidden, border),
                           {.context = context},
                           ForwardContext());
  if (final_norm) hidden = (*final_norm)(hidden);
  const Tensor targets = testing::columns(text, 1, time);
  for (std::int64_t stream = 0; stream < targets.shape()[0]; ++stream)
    std::fill_n(targets.data<std::int64_t>() + stream * time, border, -1);
  backward(sum(output.losses(hidden, targets)));
}

TEST(TransformerXl, GradientsMatchLongSegmentCutAtMemory) {
  const Tensor text = random_ids(2, 9, 1);
  for (const NormPosition norm : placements) {
    const TransformerXlOptions options = tiny(norm, 5);
    const auto model = make_transformer_xl(options, tiny_setting());
    RecurrentState memory;
    {
      const NoGradGuard no_gradient;
      memory = model->losses(segment_of(text, 0, 5, {}, 5), ForwardContext()).carried;
    }
    backward(sum(testing::losses_of(*model, segment_of(text, 5, 3, memory, 5))));

    Parameters reference = testing::one_process_parameters();
    backward_of_long_segment(reference, options, model->parameters(), text, 5);
    for (const auto& parameter : model->parameters().all()) {
      SCOPED_TRACE(parameter->name);
      expect_close(values_of(parameter->variable.gradient()),
                   values_of(reference.named(parameter->name).variable.gradient()),
                   1e-11);
    }
  }
}

TEST(TransformerXl, MemoryContributesToKeyWeightGradients) {
  TransformerXlOptions options = tiny();
  options.common.layers = 1;
  const auto model = make_transformer_xl(options, tiny_setting());
  const auto gradient = [&](const RecurrentState& memory) {
    model->parameters().clear_gradients();
    const ModelInput segment = segment_of(random_ids(2, 2, 1), 0, 1, memory, 4);
    backward(sum(testing::losses_of(*model, segment)));
    double largest = 0;
    for (const double value :
         values_of(model->parameters().named("layers/0/attention/key/weight").variable.gradient()))
      largest = std::max(largest, std::abs(value));
    return largest;
  };
  // A query with one key gives it probability 1, whatever the weights.
  EXPECT_LT(gradient({}), 1e-15);
  EXPECT_GT(gradient(memory_of({random_tensor({2, 4, 8}, 4)})), 1e-3);
}

TEST(TransformerXl, MemoryContainsLastInputsPerLayer) {
  const Tensor text = random_ids(2, 13, 1);
  for (const std::int64_t longest : {1, 3, 5, 7, 100}) {
    const auto model = make_transformer_xl(tiny(), tiny_setting());
    RecurrentState memory;
    for (std::int64_t segment = 0; segment < 4; ++segment) {
      const RecurrentState all =
          model->losses(segment_of(text, 3 * segment, 3, memory, 1000), ForwardContext()).carried;
      const RecurrentState next =
          model->losses(segment_of(text, 3 * segment, 3, memory, longest), ForwardContext())
              .carried;
      ASSERT_EQ(next.tensors.size(), 2u);
      const std::int64_t length = std::min(longest, memory.length() + 3);
      ASSERT_EQ(next.length(), length);
      EXPECT_EQ(all.length(), memory.length() + 3);
      for (std::size_t layer = 0; layer < 2; ++layer)
        for (std::int64_t stream = 0; stream < 2; ++stream) {
          const auto rows = [&](const RecurrentState& from) {
            return from.tensors[layer]
                .tensor.slice(stream, stream + 1)
                .reshape({from.length(), 8})
                .slice(from.length() - length, from.length());
          };
          EXPECT_TRUE(testing::same_bits(rows(next), rows(all)));
          if (memory.length() > 0) {
            EXPECT_TRUE(testing::same_bits(all.tensors[layer]
                                               .tensor.slice(stream, stream + 1)
                                               .reshape({all.length(), 8})
                                               .slice(0, memory.length()),
                                           memory.tensors[layer]
                                               .tensor.slice(stream, stream + 1)
                                               .reshape({memory.length(), 8})))
                << "the old rows come first";
          }
        }
      memory = next;
    }
  }
}

TEST(TransformerXl, FirstLayerMemoryContainsScaledEmbeddings) {
  const Tensor text = random_ids(1, 6, 1);
  const auto model = make_transformer_xl(tiny(), tiny_setting());
  const RecurrentState memory =
      model->losses(segment_of(text, 0, 5, {}, 3), ForwardContext()).carried;
  const Tensor table = model->parameters().named("embedding/weight").master;
  for (std::int64_t row = 0; row < 3; ++row)
    for (std::int64_t i = 0; i < 8; ++i)
      EXPECT_NEAR(memory.tensors[0].tensor.data<double>()[row * 8 + i],
                  std::sqrt(8.0) * table.data<double>()[text.data<std::int64_t>()[row + 2] * 8 + i],
                  1e-14);
}

TEST(TransformerXl, LaterPassesDoNotChangeMemory) {
  const Tensor text = random_ids(1, 11, 1);
  const auto model = make_transformer_xl(tiny(), tiny_setting());
  const RecurrentState memory =
      model->losses(segment_of(text, 0, 5, {}, 4), ForwardContext()).carried;
  const Tensor before = memory.tensors[1].tensor.clone();
  backward(sum(testing::losses_of(*model, segment_of(text, 5, 5, memory, 4))));
  EXPECT_TRUE(testing::same_bits(memory.tensors[1].tensor, before));
}

TEST(TransformerXl, SameLengthLimitsQueriesToMemoryLength) {
  TransformerXlOptions options = tiny();
  options.common.layers = 1;
  options.same_length = true;
  const auto model = make_transformer_xl(options, tiny_setting());
  const Tensor text = random_ids(1, 7, 1);
  const RecurrentState memory = memory_of({random_tensor({1, 4, 8}, 4)});
  const auto losses = [&](const RecurrentState& with) {
    return values_of(testing::losses_of(*model, segment_of(text, 0, 6, with, 4)).value());
  };
  const Values before = losses(memory);
  for (std::int64_t row = 0; row < 4; ++row) {
    const Tensor changed = memory.tensors[0].tensor.clone();
    changed.data<double>()[row * 8] += 1;
    const Values after = losses(memory_of({changed}));
    for (std::int64_t i = 0; i < 6; ++i) {
      const bool seen = i + 4 - row < 4;  // the relative position is below the memory length
      EXPECT_EQ(before[static_cast<std::size_t>(i)] != after[static_cast<std::size_t>(i)], seen)
          << "row " << row << ", query " << i;
    }
  }
}

TEST(TransformerXl, SameLengthHasNoEffectBelowMemoryLength) {
  TransformerXlOptions options = tiny();
  const auto model = make_transformer_xl(options, tiny_setting());
  options.same_length = true;
  const auto same_length = make_transformer_xl(options, tiny_setting());
  const Tensor text = random_ids(2, 9, 1);
  EXPECT_EQ(losses_of(*model, text, {4, 4}, 8), losses_of(*same_length, text, {4, 4}, 8));
  EXPECT_NE(losses_of(*model, text, {4, 4}, 4), losses_of(*same_length, text, {4, 4}, 4));
}

TEST(TransformerXl, ClampBeyondMaxDistanceHasNoEffect) {
  const Tensor text = random_ids(2, 9, 1);
  const auto losses = [&](std::optional<std::int64_t> clamp) {
    TransformerXlOptions options = tiny();
    options.clamp_length = clamp;
    return losses_of(*make_transformer_xl(options, tiny_setting()), text, {4, 4}, 4);
  };
  EXPECT_EQ(losses({}), losses(7));
  EXPECT_NE(losses({}), losses(6));
}

TEST(TransformerXl, StreamsDoNotMix) {
  const Tensor text = random_ids(3, 9, 1);
  const auto model = make_transformer_xl(tiny(), tiny_setting());
  const Values together = losses_of(*model, text, {4, 4}, 4);
  for (std::int64_t stream = 0; stream < 3; ++stream) {
    const Values alone = losses_of(*model, text.slice(stream, stream + 1), {4, 4}, 4);
    expect_close(
        alone, Values(together.begin() + stream * 8, together.begin() + (stream + 1) * 8), 1e-13);
  }
}

TEST(TransformerXl, PositionBiasesHaveNoWeightDecay) {
  const auto model = make_transformer_xl(tiny(), tiny_setting());
  EXPECT_FALSE(model->parameters().named("content_bias").decays);
  EXPECT_FALSE(model->parameters().named("position_bias").decays);
  EXPECT_TRUE(model->parameters().named("layers/1/attention/position/weight").decays);
}

}  // namespace
}  // namespace longspan::transformer_xl_test
