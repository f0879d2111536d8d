// The gradient of every op against differences.
#include "framework/autograd/ops.h"

#include "framework/autograd/collectives.h"
#include "tests/support/gradient_check.h"

namespace longspan::ops_test {
namespace {

using testing::backend_device;
using testing::expect_gradients;
using testing::random_tensor;

Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from<std::int64_t>(values, shape, backend_device());
}

// Values much farther from 0 than the step of the differences: relu has no derivative at 0.
Tensor away_from_zero(const Shape& shape, std::uint64_t seed) {
  Tensor result = random_tensor(shape, seed);
  for (double& value : result.span<double>()) value += value < 0 ? -0.1 : 0.1;
  return result;
}

TEST(OpGradient, AddMatchesDifferences) {
  const auto f = [](const auto& in) { return add(in[0], in[1]); };
  expect_gradients(f, {random_tensor({2, 3}, 1), random_tensor({2, 3}, 2)});
}

TEST(OpGradient, AddToItselfMatchesDifferences) {
  expect_gradients([](const auto& in) { return add(in[0], in[0]); }, {random_tensor({2, 3}, 1)});
}

TEST(OpGradient, AddBiasMatchesDifferences) {
  const auto f = [](const auto& in) { return add_bias(in[0], in[1]); };
  expect_gradients(f, {random_tensor({2, 3, 4}, 1), random_tensor({4}, 2)});
}

TEST(OpGradient, AddScalarMatchesDifferences) {
  const auto f = [](const auto& in) { return add_scalar(in[0], -1.5); };
  expect_gradients(f, {random_tensor({2, 3}, 1)});
  const Variable y = add_scalar(Variable(Tensor::zeros({2}, DType::f64, backend_device())), -1.5);
  EXPECT_EQ(y.value().span<double>()[1], -1.5);
}

TEST(OpGradient, ActivationsMatchDifferences) {
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    SCOPED_TRACE(static_cast<int>(activation));
    expect_gradients([&](const auto& in) { return add(activate(activation, in[0]), in[0]); },
                     {away_from_zero({3, 17}, 1)});
  }
}

TEST(OpGradient, TanhMatchesDifferences) {
  expect_gradients([](const auto& in) { return add(tanh(in[0]), in[0]); },
                   {random_tensor({3, 17}, 1)});
}

TEST(OpGradient, DropoutMatchesDifferences) {
  const ShardPlacement placement = {
      .outer_begin = 3, .middle_total = 3, .inner_begin = 4, .inner_total = 9};
  expect_gradients(
      [&](const auto& in) { return dropout(in[0], 0.4, Random(5).child("here"), placement); },
      {random_tensor({2, 3, 5}, 1)});
}

TEST(DropoutAdd, MatchesDropoutThenAdd) {
  const ShardPlacement placement = {
      .outer_begin = 3, .middle_total = 3, .inner_begin = 4, .inner_total = 9};
  const Random random = Random(5).child("here");
  for (const double rate : {0.0, 0.4}) {
    const auto f = [&](const auto& in) {
      return dropout_add(in[0], in[1], rate, random, placement);
    };
    expect_gradients(f, {random_tensor({2, 3, 5}, 1), random_tensor({2, 3, 5}, 2)});
    const Variable a(random_tensor({2, 3, 5}, 1)), x(random_tensor({2, 3, 5}, 2));
    EXPECT_TRUE(testing::same_bits(dropout_add(a, x, rate, random, placement).value(),
                                   add(a, dropout(x, rate, random, placement)).value()));
  }
  EXPECT_THROW(dropout_add(Variable(random_tensor({2, 1, 5}, 1)),
                           Variable(random_tensor({2, 3, 5}, 2)),
                           0.4,
                           random,
                           placement),
               Failure);
}

TEST(Dropout, ReturnsInputAtRateZero) {
  const Variable x = Variable::leaf(random_tensor({2, 3, 4}, 1));
  EXPECT_TRUE(dropout(x, 0, Random(1), {}).same_as(x));
}

TEST(OpGradient, EmbeddingMatchesDifferences) {
  // Ids 9 and 1 are outside the rows of this table: another rank owns them.
  const Tensor tokens = ids({2, 3, 2, 9, 1, 6}, {2, 3});
  const auto f = [&](const auto& in) { return embedding(in[0], tokens, 2, 1.5); };
  expect_gradients(f, {random_tensor({5, 4}, 1)});
}

TEST(Embedding, ReturnsZerosPastUsedRows) {
  const Tensor tokens = ids({2, 3, 2, 5, 1, 6}, {2, 3});
  const auto f = [&](const auto& in) { return embedding(in[0], tokens, 2, 1.5, 3); };
  expect_gradients(f, {random_tensor({5, 4}, 1)});
  const Tensor found = f(std::vector{Variable(random_tensor({5, 4}, 1))}).value();
  EXPECT_EQ(found.span<double>()[3 * 4], 0) << "of a row behind them";
}

TEST(OpGradient, FirstFeaturesMatchDifferences) {
  const auto f = [](const auto& in) { return first_features(in[0], 3); };
  expect_gradients(f, {random_tensor({2, 3, 5}, 1)});
  expect_gradients([&](const auto& in) { return add(f(in), first_features(add(in[0], in[0]), 3)); },
                   {random_tensor({2, 3, 5}, 1)});
  const Variable x(random_tensor({2, 3, 5}, 1));
  EXPECT_TRUE(first_features(x, 5).same_as(x));
  EXPECT_THROW(first_features(x, 6), Failure);
}

TEST(OpGradient, ScaleAndAddPositionsMatchesDifferences) {
  const auto f = [](const auto& in) { return scale_and_add_positions(in[0], 1.7, in[1]); };
  expect_gradients(f, {random_tensor({2, 3, 4}, 1), random_tensor({3, 4}, 2)});
  // A table longer than the segment: unread rows have gradient 0.
  expect_gradients(f, {random_tensor({2, 3, 4}, 1), random_tensor({5, 4}, 2)});
}

TEST(ScaleAndAddPositions, RejectsShortTable) {
  const Variable x(random_tensor({2, 3, 4}, 1));
  EXPECT_THROW(scale_and_add_positions(x, 1, Variable(random_tensor({2, 4}, 2))), Failure);
}

TEST(OpGradient, ConcatTimeMatchesDifferences) {
  const auto f = [](const auto& in) { return concat_time(in[0], in[1]); };
  expect_gradients(f, {random_tensor({2, 3, 4}, 1), random_tensor({2, 5, 4}, 2)});
  const Variable x = Variable::leaf(random_tensor({2, 5, 4}, 2));
  EXPECT_TRUE(concat_time(Variable(), x).same_as(x));
}

TEST(OpGradient, SumMatchesDifferences) {
  expect_gradients([](const auto& in) { return sum(in[0], 0.25); }, {random_tensor({2, 3, 4}, 1)});
}

TEST(OpGradient, ReshapeMatchesDifferences) {
  expect_gradients(
      [](const auto& in) {
        return activate(Activation::gelu, reshape(in[0], {6, 4}));
      },
      {random_tensor({2, 3, 4}, 1)});
}

TEST(Cast, GradientKeepsInputDtype) {
  const Variable x = Variable::leaf(random_tensor({2, 3}, 1));
  const Variable narrow = cast(x, DType::f32);
  EXPECT_EQ(narrow.value().dtype(), DType::f32);
  const Tensor upstream = testing::tensor_of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  backward({narrow}, {upstream});
  EXPECT_EQ(x.gradient().dtype(), DType::f64);
  EXPECT_EQ(testing::values_of(x.gradient()), (testing::Values{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(cast(x, DType::f64).same_as(x));
}

struct AttentionCase {
  const char* name;
  std::int64_t time;
  std::int64_t memory;
  std::int64_t dim;
  std::int64_t value_dim;
  AttentionMask mask;
  double dropout;
};

std::vector<AttentionCase> attention_cases() {
  const Tensor padding = Tensor::from<std::uint8_t>(
      std::vector<std::uint8_t>{0, 0, 1, 0, 1, 1, 0, 0, 0, 1}, {2, 5}, backend_device());
  return {
      {"full", 5, 0, 3, 3, {.rules = Mask()}, 0},
      {"causal", 5, 0, 4, 2, {}, 0},
      {"one token", 1, 0, 1, 1, {}, 0},
      {"memory", 3, 4, 4, 4, {.query_begin = 4}, 0},
      {"window", 5, 3, 4, 4, {.rules = masks::causal() & masks::window(1, 0), .query_begin = 3}, 0},
      {"padding", 5, 0, 4, 3, {.rules = Mask(), .key_padding = padding}, 0},
      // No stream pads its first key, so no row is empty.
      {"causal padding", 5, 0, 4, 3, {.key_padding = padding}, 0},
      {"dropout", 4, 3, 4, 4, {.query_begin = 3}, 0.3},
  };
}

std::optional<AttentionDropout> dropout_of(const AttentionCase& c) {
  if (c.dropout == 0) return {};
  return AttentionDropout{
      .rate = c.dropout, .random = Random(11), .batch_begin = 2, .head_begin = 1, .heads_total = 4};
}

TEST(OpGradient, AttentionMatchesDifferences) {
  for (const AttentionCase& c : attention_cases()) {
    SCOPED_TRACE(c.name);
    const std::int64_t keys = c.time + c.memory;
    expect_gradients(
        [&](const auto& in) { return attention(in[0], in[1], in[2], c.mask, {}, dropout_of(c)); },
        {random_tensor({2, c.time, 2, c.dim}, 1),
         random_tensor({2, keys, 2, c.dim}, 2),
         random_tensor({2, keys, 2, c.value_dim}, 3)});
  }
}

TEST(OpGradient, RelativeAttentionMatchesDifferences) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.mask.rules.of(0) == Mask()) continue;
    SCOPED_TRACE(c.name);
    const std::int64_t keys = c.time + c.memory;
    expect_gradients(
        [&](const auto& in) {
          return attention(in[0],
                           in[1],
                           in[2],
                           c.mask,
                           {.relative = RelativeVariables{in[3], in[4], in[5]}},
                           dropout_of(c));
        },
        {random_tensor({2, c.time, 2, c.dim}, 1),
         random_tensor({2, keys, 2, c.dim}, 2),
         random_tensor({2, keys, 2, c.value_dim}, 3),
         random_tensor({keys, 2, c.dim}, 4),
         random_tensor({2, c.dim}, 5),
         random_tensor({2, c.dim}, 6)});
  }
}

// Each mask rule and term of tiled attention, small enough for differences.
TEST(OpGradient, AttentionMatchesDifferencesForMasksAndTerms) {
  const std::vector<Tensor> inputs = {random_tensor({2, 6, 2, 3}, 1),
                                      random_tensor({2, 8, 2, 3}, 2),
                                      random_tensor({2, 8, 2, 4}, 3)};
  const auto expect = [&](const AttentionMask& mask,
                          const auto& terms_of,
                          const std::vector<Tensor>& more) {
    std::vector<Tensor> all = inputs;
    all.insert(all.end(), more.begin(), more.end());
    expect_gradients(
        [&](const auto& in) { return attention(in[0], in[1], in[2], mask, terms_of(in)); }, all);
  };
  const AttentionMask strided = {
      .rules = masks::causal() & (masks::window(1, 0) | masks::stride(3)), .query_begin = 2};
  const AttentionMask by_head = {
      .rules = HeadMasks({masks::global({1, 4}) | masks::block(2), masks::columns(4, 2, 2)})};
  const auto none = [](const auto&) { return AttentionTerms{.scale = 0.8}; };
  expect(strided, none, {});
  expect(by_head, none, {});
  expect(by_head,
         [](const auto& in) {
           return AttentionTerms{.shaw = ShawVariables{in[3], in[4]}};
         },
         {random_tensor({5, 3}, 4), random_tensor({3, 4}, 5)});
  expect(strided,
         [](const auto& in) {
           return AttentionTerms{.shaw = ShawVariables{Variable(), in[3]}};
         },
         {random_tensor({5, 4}, 4)});
  const Tensor slopes = Tensor::from<double>(std::vector<double>{0.5, 0.25}, {2}, backend_device());
  // Spans whose ramps end between positions, where the derivative jumps.
  const Tensor span = Tensor::from<double>(std::vector<double>{1.3, 0.4}, {2}, backend_device());
  expect(strided,
         [&](const auto& in) {
           return AttentionTerms{.slopes = slopes,
                                 .span = SpanVariables{.span = in[3], .ramp = 3, .floor = 0.1}};
         },
         {span});
  for (const double cap : {0.0, 0.7})
    for (const AttentionMask& mask : {strided, by_head, AttentionMask{.query_begin = 2}})
      expect(mask,
             [&](const auto& in) {
               AttentionTerms terms = {.cap = cap};
               terms.distance_bias = in[3];
               return terms;
             },
             {random_tensor({2, 7}, 4)});
  expect({.rules = masks::everything()},
         [](const auto&) { return AttentionTerms{.hash = LshTerm{.self_score = -2}}; },
         {});
}

TEST(Attention, FullyMaskedQueryHasZeroOutputAndGradient) {
  const Tensor padding = Tensor::from<std::uint8_t>(
      std::vector<std::uint8_t>{1, 0, 0, 1, 1, 1}, {2, 3}, backend_device());
  const auto f = [&](const auto& in) {
    return attention(in[0], in[1], in[2], {.key_padding = padding});
  };
  const std::vector<Tensor> inputs = {random_tensor({2, 3, 2, 4}, 1),
                                      random_tensor({2, 3, 2, 4}, 2),
                                      random_tensor({2, 3, 2, 4}, 3)};
  const Variable out =
      f(std::vector<Variable>{Variable(inputs[0]), Variable(inputs[1]), Variable(inputs[2])});
  for (const std::int64_t row : {0, 3, 4, 5})
    for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(out.value().data<double>()[row * 8 + i], 0);
  expect_gradients(f, inputs);
}

Variable losses(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  return cross_entropy(reshape(logits, logits.shape()), targets, options, Communicator());
}

TEST(OpGradient, CrossEntropyMatchesDifferences) {
  const Tensor targets = ids({3, 0, -1, 4, 2, 3}, {6});
  for (const double smoothing : {0.0, 0.2})
    for (const LabelSmoothingStyle kind :
         {LabelSmoothingStyle::wrong_classes, LabelSmoothingStyle::all_classes})
      expect_gradients(
          [&](const auto& in) {
            return losses(in[0], targets, {.vocabulary = 5, .smoothing = smoothing, .kind = kind});
          },
          {random_tensor({2, 3, 5}, 1)});
}

// Columns after the vocabulary pad the output layer on a GPU.
TEST(CrossEntropy, IgnoresPaddingColumns) {
  const Tensor targets = ids({0, 4, 2, 3, -1, 1}, {6});
  const CrossEntropyOptions options = {.vocabulary = 5, .classes = 5, .smoothing = 0.1};
  const Tensor logits = random_tensor({6, 8}, 1);
  const auto f = [&](const auto& in) { return losses(in[0], targets, options); };
  expect_gradients(f, {logits});
  const Variable first = first_features(Variable(logits), 5);
  EXPECT_TRUE(testing::same_bits(f(std::vector{Variable(logits)}).value(),
                                 losses(first, targets, options).value()));
}

TEST(CrossEntropy, DoesNotOverwriteSharedLogits) {
  const Variable logits = Variable::leaf(random_tensor({3, 5}, 1));
  const Tensor before = logits.value().clone();
  Variable handed = logits;
  backward(sum(
      cross_entropy(std::move(handed), ids({0, 1, 2}, {3}), {.vocabulary = 5}, Communicator())));
  EXPECT_TRUE(testing::same_bits(logits.value(), before));
}

TEST(CrossEntropy, ReusesUnsharedLogitsForGradient) {
  const Variable x = Variable::leaf(random_tensor({3, 5}, 1));
  const std::byte* gradient = nullptr;
  Variable logits = record(x.value().clone(), {x}, [&](BackwardContext& gradients) {
    gradient = gradients.output().bytes();
    gradients.set(0, gradients.release_output());
  });
  const std::byte* const value = logits.value().bytes();
  backward(sum(
      cross_entropy(std::move(logits), ids({0, 1, 2}, {3}), {.vocabulary = 5}, Communicator())));
  EXPECT_EQ(gradient, value);
}

TEST(TensorParallelRegion, ReturnsInputOnOneRank) {
  const Variable x = Variable::leaf(random_tensor({2, 3}, 1));
  EXPECT_TRUE(copy_to_tensor_parallel_region(x, Communicator()).same_as(x));
  Variable handed = x;
  EXPECT_TRUE(reduce_from_tensor_parallel_region(std::move(handed), Communicator()).same_as(x));
}

TEST(CrossEntropy, SmoothingMatchesFairseqAndPyTorch) {
  // One row of equal logits: every log-probability is -log 4.
  const Tensor logits = Tensor::zeros({1, 4}, DType::f64, backend_device());
  for (const LabelSmoothingStyle kind :
       {LabelSmoothingStyle::wrong_classes, LabelSmoothingStyle::all_classes}) {
    const CrossEntropyOptions options = {.vocabulary = 4, .smoothing = 0.3, .kind = kind};
    EXPECT_NEAR(losses(Variable(logits), ids({2}, {1}), options).value().data<double>()[0],
                std::log(4.0),
                1e-14);
  }
  // A large gold logit costs the smoothing mass of the wrong classes: 0.3 or 0.3 * 3 / 4 of 100.
  const auto loss = [&](LabelSmoothingStyle kind, double on_target) {
    const Tensor row = testing::tensor_of<double>({on_target, 0, 0, 0}, {1, 4});
    return losses(Variable(row), ids({0}, {1}), {.vocabulary = 4, .smoothing = 0.3, .kind = kind})
        .value()
        .data<double>()[0];
  };
  EXPECT_NEAR(loss(LabelSmoothingStyle::wrong_classes, 100), 0.3 * 100, 1e-12);
  EXPECT_NEAR(loss(LabelSmoothingStyle::all_classes, 100), 0.3 * 0.75 * 100, 1e-12);
}

}  // namespace
}  // namespace longspan::ops_test
