#include "framework/nn/attention/compressed_attention.h"

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"

namespace longspan::compressed_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, heads = 2, dim = 3, width = 5;

std::unique_ptr<MultiHeadAttention> layer_of(Parameters& parameters,
                                             std::int64_t tokens,
                                             double dropout = 0) {
  const Scope scope = Scope(parameters).child("attention");
  auto layer = std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      std::make_unique<CompressedAttention>(
          scope,
          CompressedAttention::Options{
              .compressed = {.width = tokens}, .heads = heads, .dim = dim, .dropout = dropout}));
  allocate_randomly(parameters, 3);
  return layer;
}

AttentionContext seeing(const Mask& rules, const std::vector<std::int64_t>& lengths = {}) {
  AttentionContext context;
  context.mask.rules = rules;
  if (!lengths.empty())
    context.mask.key_length =
        Tensor::from<std::int64_t>(lengths, {std::ssize(lengths)}, backend_device());
  return context;
}

Values run(const MultiHeadAttention& layer, const Tensor& x, const AttentionContext& context) {
  return values_of(layer(Variable(x), Variable(), context, ForwardContext()).value());
}

TEST(CompressedAttention, GradientMatchesNumericalGradient) {
  for (const AttentionContext& context : {seeing(masks::causal()),
                                          seeing(masks::everything()),
                                          seeing(masks::everything(), {10, 4})}) {
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(parameters, 3, 0.3);
    const ForwardContext pass = {.training = true, .random = Random(5)};
    expect_layer_gradients(
        parameters,
        [&](const auto& in) { return (*layer)(in[0], Variable(), context, pass); },
        {random_tensor({batch, 10, width}, 1)},
        {.directions = 1, .elements = 1});
  }
}

// Identity maps make each key a single token.
TEST(CompressedAttention, SingleTokenWidthEqualsFullAttention) {
  Parameters parameters = one_process_parameters(), others = one_process_parameters();
  const auto layer = layer_of(parameters, 1);
  for (const std::string name : {"attention/compressed_keys", "attention/compressed_values"}) {
    const Tensor& maps = parameters.named(name).master;
    maps.zero();
    for (std::int64_t i = 0; i < heads * dim; ++i) maps.data<double>()[i * dim + i % dim] = 1;
  }
  const MultiHeadAttention full(Scope(others).child("attention"),
                                {.width = width, .heads = heads, .dim = dim},
                                std::make_unique<SoftmaxAttention>(0));
  others.allocate(Random(3));
  for (const auto& parameter : others.all())
    parameter->master.copy_from(parameters.named(parameter->name).master);
  const Tensor x = random_tensor({batch, 9, width}, 1);
  expect_close(
      run(*layer, x, seeing(masks::everything(), {9, 4})),
      values_of(full(Variable(x), Variable(), seeing(masks::everything(), {9, 4}), ForwardContext())
                    .value()),
      1e-12);
}

TEST(CompressedAttention, CausalOutputDependsOnExactlyEarlierTokens) {
  for (const std::int64_t time : {2, 10, 12}) {
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(parameters, 3);
    const Tensor x = random_tensor({1, time, width}, 1);
    const Values before = run(*layer, x, seeing(masks::causal()));
    for (std::int64_t changed = 0; changed < time; ++changed) {
      const Tensor other = x.clone();
      for (std::int64_t i = 0; i < width; ++i) other.data<double>()[changed * width + i] *= -3;
      const Values after = run(*layer, other, seeing(masks::causal()));
      for (std::int64_t i = 0; i < time; ++i) {
        const auto at = static_cast<std::size_t>(i * width);
        // A query attends to the tokens of its own block and of blocks before it.
        if (i < changed)
          EXPECT_NEAR(before[at], after[at], 1e-13) << changed << " at " << i;
        else
          EXPECT_NE(before[at], after[at]) << changed << " at " << i;
      }
    }
  }
}

TEST(CompressedAttention, PaddingEqualsShorterRow) {
  Parameters parameters = one_process_parameters();
  const auto layer = layer_of(parameters, 3);
  const Tensor x = random_tensor({1, 10, width}, 1);
  const Tensor start = x.reshape({10, width}).slice(0, 4).reshape({1, 4, width});
  Values padded = run(*layer, x, seeing(masks::everything(), {4}));
  padded.resize(4 * width);
  expect_close(padded, run(*layer, start, seeing(masks::everything())), 1e-13);
}

TEST(CompressedAttention, RejectsUnsupportedOptions) {
  const auto problem = [](const AttentionBuildOptions& setting) {
    return problem_of(AttentionOptions{.kinds = {"memory_compressed"}}, setting);
  };
  EXPECT_EQ(problem({.segment = 100}), "");
  EXPECT_NE(problem({.memory = true}).find("does not support model.mem_len"), std::string::npos);
  EXPECT_NE(problem({.heads = 2, .mesh = {.context = 4}})
                .find("attention type memory_compressed requires"),
            std::string::npos);
}

}  // namespace
}  // namespace longspan::compressed_attention_test
