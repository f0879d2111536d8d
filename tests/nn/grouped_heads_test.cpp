// Grouped-query attention, QK norms and biases per projection.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"

namespace longspan::grouped_heads_test {
namespace {

using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t width = 6, heads = 4, dim = 3, time = 9;

MultiHeadAttention::Options grouped(std::int64_t key_heads) {
  return {.width = width, .heads = heads, .dim = dim, .key_heads = key_heads};
}

struct Built {
  Parameters parameters = testing::one_process_parameters();
  std::unique_ptr<MultiHeadAttention> layer;

  explicit Built(const MultiHeadAttention::Options& options, const std::string& kind = "full") {
    const AttentionOptions attention = {.kinds = {kind}, .global_projections = true};
    const AttentionBuildOptions setting = {.heads = heads, .dim = dim, .segment = time};
    layer = std::make_unique<MultiHeadAttention>(
        Scope(parameters).child("a"),
        options,
        std::make_unique<SoftmaxAttention>(0, attention_patterns(attention, setting).front()));
    testing::allocate_randomly(parameters, 1);
  }
  Variable operator()(const Variable& x, const ForwardContext& pass = {}) const {
    AttentionContext context;
    context.mask.rules = masks::causal();
    return (*layer)(x, Variable(), context, pass);
  }
};

TEST(GroupedQueryAttention, MatchesMultiHeadAttentionWithRepeatedKVHeads) {
  for (const std::int64_t key_heads : {1, 2}) {
    const Built few(grouped(key_heads)), all(grouped(heads));
    for (const auto& parameter : all.parameters.all()) {
      const Tensor& from = few.parameters.named(parameter->name).master;
      double* const to = parameter->master.data<double>();
      const bool shared = from.elements() != parameter->master.elements();
      const std::int64_t row = parameter->shape.elements() / (heads * dim);
      for (std::int64_t i = 0; i < parameter->master.elements(); ++i) {
        const std::int64_t head = shared ? i / (row * dim) : 0;
        const std::int64_t taken =
            shared ? head / (heads / key_heads) * row * dim + i % (row * dim) : i;
        to[i] = from.data<double>()[taken];
      }
    }
    const Variable x(random_tensor({2, time, width}, 3));
    expect_close(values_of(few(x).value()), values_of(all(x).value()), 1e-13);
  }
}

TEST(GroupedQueryAttention, GradientMatchesFiniteDifferences) {
  MultiHeadAttention::Options options = grouped(2);
  options.query_key_norm = NormKind::rms;
  options.bias.out = false;
  for (const char* const kind : {"full", "global_local"}) {
    Built built(options, kind);
    testing::expect_layer_gradients(
        built.parameters,
        [&](const std::vector<Variable>& inputs) { return built(inputs.front()); },
        {random_tensor({2, time, width}, 3)},
        {.directions = 1, .elements = 2});
  }
}

TEST(GroupedQueryAttention, CachesOnlyKVHeadsAndMatchesFullPass) {
  MultiHeadAttention::Options options = grouped(2);
  options.query_key_norm = NormKind::layer;
  for (const char* const kind : {"full", "sliding_window", "global_local"}) {
    const Built built(options, kind);
    const NoGradGuard unrecorded;
    const Tensor x = random_tensor({1, time, width}, 4);
    const Tensor whole = built(Variable(x)).value();
    const auto cache = std::make_shared<KVCache>();
    for (const auto& [begin, end] : std::vector<Range>{{0, 4}, {4, 5}, {5, 7}, {7, 9}}) {
      const Tensor now =
          x.reshape({time, width}).slice(begin, end).reshape({1, end - begin, width});
      expect_close(values_of(built(Variable(now), {.kv_cache = cache}).value()),
                   values_of(whole.reshape({time, width}).slice(begin, end)),
                   1e-12);
      cache->advance(end - begin);
    }
    EXPECT_EQ(cache->layer(ForwardContext().random.place()).projection(0).shape()[2], 2);
  }
}

TEST(GroupedQueryAttention, CreatesOnlyConfiguredBiases) {
  MultiHeadAttention::Options options = grouped(1);
  options.bias = false;
  options.bias.key = true;
  const Built built(options);
  EXPECT_EQ(built.parameters.find("a/query/bias"), nullptr);
  EXPECT_EQ(built.parameters.named("a/key/bias").global_shape, (Shape{dim}));
  EXPECT_EQ(built.parameters.find("a/value/bias"), nullptr);
  EXPECT_EQ(built.parameters.find("a/out/bias"), nullptr);
}

TEST(GroupedQueryAttention, RejectsIndivisibleHeadCounts) {
  EXPECT_EQ(validate_key_heads(3, 4, {}),
            "model.num_key_value_heads: expected a divisor of model.num_attention_heads = 4, found "
            "3");
  EXPECT_EQ(validate_key_heads(1, 4, {.tensor = 2}),
            "model.num_key_value_heads: expected a multiple of parallel.tensor_parallel_size = 2, "
            "found 1");
  EXPECT_EQ(validate_key_heads(2, 4, {.tensor = 2}), "");
  EXPECT_THROW(Built(grouped(3)), ConfigurationError);
}

}  // namespace
}  // namespace longspan::grouped_heads_test
