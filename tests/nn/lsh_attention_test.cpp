#include "framework/nn/attention/lsh_attention.h"

#include <algorithm>
#include <numeric>

#include "framework/autograd/dtypes.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "tests/nn/layer_testing.h"

namespace longspan::lsh_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, heads = 2, dim = 4, width = 6;

LshOptions small(std::int64_t rounds = 2) { return {.chunk = 4, .rounds = rounds}; }

std::unique_ptr<MultiHeadAttention> lsh_layer(Parameters& parameters,
                                              const LshOptions& options,
                                              double dropout = 0) {
  const Scope scope = Scope(parameters).child("attention");
  auto layer = std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      std::make_unique<LshAttention>(
          scope, LshAttention::Options{.lsh = options, .heads = heads, .dropout = dropout}));
  allocate_randomly(parameters, 3);
  return layer;
}

ForwardContext training_pass(std::uint64_t step = 1) {
  return {.training = true, .random = Random(5).child(step)};
}

ProjectedQKV projected(const Tensor& shared, const Tensor& value, const ShardRange& part) {
  return {.query = Variable(shared), .key = {}, .value = Variable(value), .heads = part};
}

LshAttention mechanism(Parameters& parameters, const LshOptions& options) {
  return LshAttention(Scope(parameters).child("lsh"), {.lsh = options, .heads = heads});
}

TEST(LshAttention, TiesQueryAndKeyProjections) {
  Parameters parameters = one_process_parameters();
  const auto layer = lsh_layer(parameters, small());
  EXPECT_NO_THROW(parameters.named("attention/query/weight"));
  EXPECT_THROW(parameters.named("attention/key/weight"), Failure);
  EXPECT_THROW((*layer)(Variable(random_tensor({batch, 9, width}, 1)),
                        Variable(random_tensor({batch, 3, width}, 2)),
                        AttentionContext(),
                        ForwardContext()),
               Failure);
}

// Buckets of the first call are cached: finite differences must not change them.
TEST(LshAttention, GradientMatchesFiniteDifferences) {
  for (const double dropout : {0.0, 0.3}) {
    Parameters parameters = one_process_parameters();
    const auto layer = lsh_layer(parameters, small(), dropout);
    ForwardContext pass = training_pass();
    pass.decisions = std::make_shared<DecisionCache>();
    expect_layer_gradients(
        parameters,
        [&](const auto& in) { return (*layer)(in[0], Variable(), AttentionContext(), pass); },
        {random_tensor({batch, 15, width}, 1)},
        {.directions = 1, .elements = 2});
  }
}

TEST(LshAttention, RecomputationReusesForwardBuckets) {
  Parameters parameters = one_process_parameters();
  const auto layer = lsh_layer(parameters, small());
  const auto run = [&](const Tensor& x, const std::shared_ptr<DecisionCache>& decisions) {
    ForwardContext pass = training_pass();
    pass.decisions = decisions;
    return (*layer)(Variable(x), Variable(), AttentionContext(), pass).value();
  };
  const Tensor x = random_tensor({batch, 30, width}, 1), other = random_tensor(x.shape(), 2);
  const auto of_x = std::make_shared<DecisionCache>();
  EXPECT_TRUE(same_bits(run(x, of_x), run(x, nullptr)));
  const Tensor replayed = run(other, of_x);
  EXPECT_FALSE(same_bits(replayed, run(other, nullptr)));
  EXPECT_TRUE(same_bits(run(x, of_x), run(x, nullptr)));
}

TEST(LshAttention, RedrawsHashesEachStepAndSharesThemAcrossRows) {
  Parameters parameters = one_process_parameters();
  const auto layer = lsh_layer(parameters, small());
  const Tensor x = random_tensor({batch, 30, width}, 1);
  x.slice(1, 2).copy_from(x.slice(0, 1));
  const auto run = [&](const ForwardContext& pass) {
    return (*layer)(Variable(x), Variable(), AttentionContext(), pass).value();
  };
  const Tensor first = run(training_pass());
  EXPECT_TRUE(same_bits(first.slice(0, 1), first.slice(1, 2)));
  EXPECT_TRUE(same_bits(first, run(training_pass())));
  EXPECT_FALSE(same_bits(first, run(training_pass(2))));
}

TEST(HashRotations, DependOnGlobalHead) {
  const auto drawn = [](std::int64_t begin, std::int64_t count) {
    return hash_rotations(Random(4),
                          {.begin = begin, .count = count, .total = 4},
                          dim,
                          3,
                          5,
                          DType::f64,
                          backend_device());
  };
  const Tensor all = drawn(0, 4), last = drawn(2, 2);
  EXPECT_TRUE(same_bits(all.slice(2, 4), last));
  EXPECT_FALSE(same_bits(all.slice(0, 1), all.slice(1, 2)));
  double squares = 0;
  for (const double value : all.span<double>()) squares += value * value;
  EXPECT_NEAR(squares / static_cast<double>(all.elements()), 1, 0.25);
}

TEST(HashRotations, ExtraRoundKeepsEarlierRounds) {
  const auto drawn = [](std::int64_t rounds) {
    return values_of(hash_rotations(Random(4),
                                    {.begin = 0, .count = 1, .total = 1},
                                    dim,
                                    rounds,
                                    5,
                                    DType::f64,
                                    backend_device()));
  };
  const Values two = drawn(2), three = drawn(3);
  for (std::size_t d = 0; d < dim; ++d)
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(two[d * 10 + i], three[d * 15 + i]);
}

// A head computed alone hashes by its global index, as among all heads.
TEST(LshAttention, HeadsDoNotDependOnSharding) {
  Parameters parameters = one_process_parameters();
  const LshAttention lsh = mechanism(parameters, small(3));
  const Tensor shared = random_tensor({1, 40, 2, dim}, 1),
               value = random_tensor({1, 40, 2, dim}, 2);
  const Tensor both =
      lsh(projected(shared, value, {0, 2, 2}), AttentionContext(), training_pass()).value();
  for (std::int64_t h = 0; h < 2; ++h) {
    const auto head = [&](const Tensor& tensor) {
      const Tensor result = Tensor::empty({1, 40, 1, dim}, DType::f64, backend_device());
      for (std::int64_t t = 0; t < 40; ++t)
        std::copy_n(
            tensor.data<double>() + (t * 2 + h) * dim, dim, result.data<double>() + t * dim);
      return result;
    };
    const Tensor alone =
        lsh(projected(head(shared), head(value), {h, 1, 2}), AttentionContext(), training_pass())
            .value();
    expect_close(values_of(alone), values_of(head(both)), 1e-13);
  }
}

TEST(LshAttention, UsesFullAttentionForShortSequences) {
  Parameters parameters = one_process_parameters();
  const auto run = [&](std::int64_t chunk, std::int64_t time) {
    LshOptions options = small();
    options.chunk = chunk;
    return mechanism(parameters, options)(projected(random_tensor({1, time, 2, dim}, 1),
                                                    random_tensor({1, time, 2, dim}, 2),
                                                    {0, 2, 2}),
                                          AttentionContext(),
                                          training_pass())
        .value();
  };
  EXPECT_TRUE(same_bits(run(4, 7), run(100, 7)));
  EXPECT_FALSE(same_bits(run(4, 8), run(100, 8)));
}

TEST(LshAttention, EvalUsesNumEvalHashes) {
  Parameters parameters = one_process_parameters();
  LshOptions options = small(1);
  options.evaluation_rounds = 4;
  const ProjectedQKV input =
      projected(random_tensor({1, 40, 2, dim}, 1), random_tensor({1, 40, 2, dim}, 2), {0, 2, 2});
  const auto run = [&](const LshOptions& with, bool training) {
    ForwardContext pass = training_pass();
    pass.training = training;
    return mechanism(parameters, with)(input, AttentionContext(), pass).value();
  };
  EXPECT_TRUE(same_bits(run(options, true), run(small(1), true)));
  EXPECT_TRUE(same_bits(run(options, false), run(small(4), false)));
}

TEST(LshAttention, MasksPadding) {
  Parameters parameters = one_process_parameters();
  const LshAttention lsh = mechanism(parameters, small());
  AttentionContext context;
  context.mask.key_length =
      Tensor::from<std::int64_t>(std::vector<std::int64_t>{11}, {1}, backend_device());
  const auto run = [&](std::uint64_t seed) {
    const Tensor shared = random_tensor({1, 14, 2, dim}, 1),
                 value = random_tensor({1, 14, 2, dim}, 2);
    const Tensor ends = random_tensor({1, 3, 2, dim}, seed);
    for (const Tensor& tensor : {shared, value})
      std::copy_n(ends.data<double>(), ends.elements(), tensor.data<double>() + 11 * 2 * dim);
    return lsh(projected(shared, value, {0, 2, 2}), context, training_pass()).value();
  };
  EXPECT_TRUE(same_bits(run(7), run(8)));
}

TEST(LshAttention, RejectsMemoryAndOtherMasks) {
  Parameters parameters = one_process_parameters();
  const LshAttention lsh = mechanism(parameters, small());
  const ProjectedQKV input =
      projected(random_tensor({1, 8, 2, dim}, 1), random_tensor({1, 8, 2, dim}, 2), {0, 2, 2});
  AttentionContext memory, window;
  memory.mask.query_begin = 3;
  window.mask.rules = masks::window(2, 0);
  EXPECT_THROW(lsh(input, memory, ForwardContext()), ConfigurationError);
  EXPECT_THROW(lsh(input, window, ForwardContext()), ConfigurationError);
}

// Fraction of queries whose best key is in their chunk or the previous one in some round.
double recall(std::int64_t rounds) {
  constexpr std::int64_t time = 1024, features = 16;
  const LshOptions options = {.chunk = 16, .rounds = rounds};
  const Tensor x = random_tensor({1, time, 1, features}, 1);
  const BucketCount count = bucket_count(options, time);
  BucketHash hash = {.x = x,
                     .rotations = hash_rotations(Random(2),
                                                 {.begin = 0, .count = 1, .total = 1},
                                                 features,
                                                 rounds,
                                                 count.columns(),
                                                 DType::f64,
                                                 backend_device()),
                     .count = count,
                     .buckets = Tensor::empty({1, 1, rounds, time}, DType::i32, backend_device())};
  hash_buckets(cpu(), hash);
  BucketSort sort = {.bucket = hash.buckets, .buckets = count.total()};
  sort.order = sort.bucket.empty_like();
  sort.place = sort.bucket.empty_like();
  sort_buckets(cpu(), sort);
  const double* rows = x.data<double>();
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < time; ++i) {
    std::int64_t best = -1;
    double most = -infinity;
    for (std::int64_t j = 0; j < time; ++j) {
      const double* key = rows + j * features;
      const double score = std::inner_product(key, key + features, rows + i * features, 0.0) /
                           std::sqrt(std::inner_product(key, key + features, key, 0.0));
      if (j != i && score > most) {
        most = score;
        best = j;
      }
    }
    for (std::int64_t r = 0; r < rounds; ++r) {
      const std::int32_t* place = sort.place.data<std::int32_t>() + r * time;
      const std::int64_t back = place[i] / options.chunk - place[best] / options.chunk;
      if (back == 0 || back == 1) {
        ++found;
        break;
      }
    }
  }
  return static_cast<double>(found) / static_cast<double>(time);
}

TEST(LshAttention, MoreHashesIncreaseNearestKeyRecall) {
  const double one = recall(1), two = recall(2), four = recall(4), eight = recall(8);
  EXPECT_GT(one, 3 * 2.0 / 64);  // chance: 2 of 64 chunks
  EXPECT_GT(two, one + 0.05);
  EXPECT_GT(four, two + 0.05);
  EXPECT_GT(eight, four + 0.05);
}

TEST(LshOptions, BucketCountIsTwiceChunksInEvenFactors) {
  const LshOptions options = {.chunk = 64};
  EXPECT_EQ(bucket_count(options, 1024), (BucketCount{32}));
  EXPECT_EQ(bucket_count(options, 4096), (BucketCount{12, 10}));
  EXPECT_EQ(bucket_count(options, 1 << 20), (BucketCount{182, 180}));
  EXPECT_EQ(bucket_count({.buckets = 6}, 1 << 20), (BucketCount{6}));
}

TEST(LshOptions, RejectsCombinedKindsAndMemory) {
  const auto problem = [](const std::string& kind, bool memory = false) {
    AttentionOptions options;
    options.kinds = {"full", kind};
    return problem_of(options, {.layers = 2, .heads = heads, .memory = memory, .segment = 100});
  };
  EXPECT_EQ(problem("lsh"), "");
  for (const std::string kind : {"lsh/full", "full+lsh"})
    EXPECT_NE(problem(kind).find("cannot be combined"), std::string::npos) << problem(kind);
  EXPECT_NE(problem("lsh", true).find("does not support model.mem_len"), std::string::npos);
}

TEST(LshOptions, ReportsFileLocationForOddNumBuckets) {
  LshOptions options;
  OptionTable table;
  declare(table, options);
  const Assignment odd = {.key = "model.attention.lsh.num_buckets",
                          .kind = Assignment::Kind::scalar,
                          .scalars = {{"33"}},
                          .mark = {.file = "run.yaml", .line = 7, .column = 3}};
  table.assign(std::vector<Assignment>{odd});
  try {
    table.finish();
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_NE(std::string(error.what()).find("run.yaml:7:3"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("multiple of 2"), std::string::npos) << error.what();
  }
}

OptionTable assigned(LshOptions& options, const std::string& key, const std::string& value) {
  OptionTable table;
  declare(table, options);
  table.assign(std::vector<Assignment>{{.key = key,
                                        .kind = Assignment::Kind::scalar,
                                        .scalars = {{value}},
                                        .mark = {.file = "run.yaml", .line = 7, .column = 3}}});
  return table;
}

TEST(LshOptions, BoundsNumBucketsAndSelfScore) {
  LshOptions options;
  EXPECT_THROW(assigned(options, "model.attention.lsh.num_buckets", "2000000").finish(),
               ConfigurationError);
  EXPECT_NO_THROW(assigned(options, "model.attention.lsh.num_buckets", "1048576").finish());
  EXPECT_THROW(assigned(options, "model.attention.lsh.self_attention_score", "-1e7").finish(),
               ConfigurationError);
  EXPECT_THROW(assigned(options, "model.attention.lsh.self_attention_score", "0").finish(),
               ConfigurationError);
  EXPECT_NO_THROW(assigned(options, "model.attention.lsh.self_attention_score", "-1e5").finish());
}

// Returns the max gradient error of tokens that attend only to themselves. The gradient of a value
// is then that of its output.
double error_alone(DType dtype, double self_score) {
  const std::int64_t time = 8, rounds = 3;
  const auto leaf = [&](std::uint64_t seed) {
    return Variable::leaf(to_dtype(random_tensor({1, time, 1, dim}, seed), dtype));
  };
  const Variable shared = leaf(1), value = leaf(2);
  // Chunks of one token, without the previous chunk.
  const Tensor buckets = Tensor::zeros({1, 1, rounds, time}, DType::i32, backend_device());
  const Variable y = lsh_attention(
      shared,
      value,
      buckets,
      {.chunk = 1, .look_back = 0, .causal = true, .self_score = self_score, .scale = 0.3});
  const Tensor upstream = Tensor::empty(y.shape(), DType::f64, backend_device());
  std::ranges::fill(upstream.span<double>(), 1.0);
  backward({y}, {to_dtype(upstream, dtype)});
  double worst = 0;
  for (const double g : values_of(value.gradient())) worst = std::max(worst, std::abs(g - 1));
  return worst;
}

TEST(LshOptions, MinSelfScoreKeepsGradientAccurate) {
  EXPECT_LT(error_alone(DType::f64, -1e5), 1e-10);
  EXPECT_LT(error_alone(DType::f32, -1e3), 2e-4);
  EXPECT_LT(error_alone(DType::f32, -1e4), 2e-3);
  EXPECT_GT(error_alone(DType::f32, -1e7), 1e-1);  // reason for the bound
}

TEST(LshAttention, RejectsSelfScoreTooLowForDtype) {
  LshOptions options = small();
  options.self_score = -1e5;
  Parameters wide = one_process_parameters();
  EXPECT_NO_THROW(mechanism(wide, options));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Parameters narrow(backend_device(), dtype, ProcessMesh());
    EXPECT_THROW(mechanism(narrow, options), ConfigurationError);
  }
}

}  // namespace
}  // namespace longspan::lsh_attention_test
