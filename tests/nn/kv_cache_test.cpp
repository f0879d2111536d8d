// Attention with a KV cache against attention over the full sequence.
#include "framework/nn/attention/kv_cache.h"

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/positions.h"
#include "tests/nn/layer_testing.h"

namespace longspan::kv_cache_test {
namespace {

using testing::allocate_randomly;
using testing::backend_device;
using testing::expect_close;
using testing::one_process_parameters;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t width = 6;
constexpr std::int64_t heads = 4;
constexpr std::int64_t dim = 3;
constexpr std::int64_t batch = 3;

const MultiHeadAttention::Options layer_options = {.width = width, .heads = heads, .dim = dim};

std::unique_ptr<MultiHeadAttention> layer_of(Parameters& parameters,
                                             std::unique_ptr<AttentionOp> mechanism) {
  auto layer = std::make_unique<MultiHeadAttention>(
      Scope(parameters).child("a"), layer_options, std::move(mechanism));
  allocate_randomly(parameters, 1);
  return layer;
}

std::unique_ptr<MultiHeadAttention> relative_layer(Parameters& parameters) {
  const Scope scope = Scope(parameters).child("a");
  auto mechanism = std::make_unique<RelativeAttention>(
      scope,
      RelativeAttention::Options{.width = width, .heads = heads, .dim = dim},
      PositionBiases(scope, heads, dim, Initializer::normal(1)));
  auto layer = std::make_unique<MultiHeadAttention>(scope, layer_options, std::move(mechanism));
  allocate_randomly(parameters, 1);
  return layer;
}

AttentionContext with_distances(std::int64_t count) {
  AttentionContext context;
  context.distances = Variable(
      sinusoids(SinusoidLayout::halves, 0, count, width, -1, DType::f64, backend_device()));
  return context;
}

// Positions [begin, end) of the given rows of x [rows, time, ...].
Tensor piece(const Tensor& x,
             std::int64_t begin,
             std::int64_t end,
             const std::vector<std::int64_t>& rows) {
  const Tensor result =
      Tensor::empty({std::ssize(rows), end - begin, x.shape()[2]}, DType::f64, backend_device());
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    result.slice(i, i + 1).copy_from(
        x.slice(row, row + 1).reshape({x.shape()[1], x.shape()[2]}).slice(begin, end));
  }
  return result;
}

const std::vector<std::int64_t> all_rows = {0, 1, 2};

// Passes read `sizes` positions each, cyclically. Returns the number of cached positions.
std::int64_t verify_kv_cache(const MultiHeadAttention& layer,
                             const AttentionContext& context,
                             std::int64_t total,
                             const std::vector<std::int64_t>& sizes) {
  const NoGradGuard unrecorded;
  const Tensor x = random_tensor({batch, total, width}, 5);
  const Tensor whole = layer(Variable(x), Variable(), context, ForwardContext{}).value();
  ForwardContext pass;
  pass.kv_cache = std::make_shared<KVCache>();
  std::size_t turn = 0;
  for (std::int64_t begin = 0; begin < total;) {
    const std::int64_t end = std::min(total, begin + sizes[turn++ % sizes.size()]);
    const Variable y = layer(Variable(piece(x, begin, end, all_rows)), Variable(), context, pass);
    pass.kv_cache->advance(end - begin);
    expect_close(values_of(y.value()), values_of(piece(whole, begin, end, all_rows)), 1e-12);
    begin = end;
  }
  EXPECT_EQ(pass.kv_cache->positions(), total);
  return pass.kv_cache->layer(pass.random.place()).count();
}

AttentionOptions kinds(std::vector<std::string> names) {
  AttentionOptions options;
  options.kinds = std::move(names);
  options.sliding_window = {10};
  options.stride = 8;
  options.local_1d = {.filter_width = 9, .block_length = 8};
  options.summary = 2;
  options.summary_groups = 2;
  options.global = {0, 17};
  options.block = 8;
  return options;
}

TEST(KVCache, MatchesFullPassForEachAttentionMask) {
  AttentionOptions random = kinds({"global_local"});
  random.random = 1;
  AttentionOptions projected = kinds({"global_local"});
  projected.global_projections = true;
  for (const AttentionOptions& options : {kinds({"full"}),
                                          kinds({"sliding_window"}),
                                          kinds({"dilated"}),
                                          kinds({"strided"}),
                                          kinds({"local_1d"}),
                                          kinds({"dilated/block"}),
                                          kinds({"block"}),
                                          kinds({"summary"}),
                                          kinds({"fixed"}),
                                          kinds({"sliding_window+strided"}),
                                          kinds({"sliding_window/strided"}),
                                          kinds({"global_local"}),
                                          random,
                                          projected}) {
    SCOPED_TRACE(options.kinds.front());
    Parameters parameters = one_process_parameters();
    const auto layer =
        layer_of(parameters,
                 std::make_unique<SoftmaxAttention>(
                     0, attention_patterns(options, {.layers = 1, .heads = heads}).front()));
    // Exceeds the initial capacity. The last case fills it with the first pass.
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{1}, {2, 1, 3}, {64, 1}})
      verify_kv_cache(*layer, {}, 150, sizes);
  }
}

TEST(KVCache, DropsPositionsBeyondLocal2dLookback) {
  AttentionOptions options = kinds({"local_2d"});
  options.image = {.block = {2, 4}, .flange = {3, 1}};
  AttentionBuildOptions setting = {.layers = 1, .heads = heads};
  setting.image = ImageGrid{.height = 50, .width = 6};
  Parameters parameters = one_process_parameters();
  auto mechanism = attention_kind(options, 0)->make(Scope(parameters).child("a"), options, setting);
  // Two rows of blocks above the query's block, 2 x 6 positions each.
  EXPECT_EQ(mechanism->max_distance(), 35);
  const auto layer = layer_of(parameters, std::move(mechanism));
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{1}, {64, 1}})
    EXPECT_LE(verify_kv_cache(*layer, {}, 300, sizes), 2 * 35 + 64 + 1);
}

TEST(KVCache, MatchesFullPassWithRelativePositions) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{1}, {2, 1, 3}, {50, 1}})
    verify_kv_cache(*layer, with_distances(140), 140, sizes);
}

TEST(KVCache, WindowedCacheMatchesMemory) {
  Parameters parameters = one_process_parameters();
  const auto layer = relative_layer(parameters);
  const NoGradGuard unrecorded;
  constexpr std::int64_t total = 260;
  constexpr std::int64_t longest = 5;
  const Tensor x = random_tensor({batch, total, width}, 5);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{1}, {7, 1, 1, 4, 1, 1, 1, 1}}) {
    ForwardContext pass;
    pass.kv_cache = std::make_shared<KVCache>(longest);
    std::size_t turn = 0;
    for (std::int64_t begin = 0; begin < total;) {
      const std::int64_t end = std::min(total, begin + sizes[turn++ % sizes.size()]);
      const Tensor now = piece(x, begin, end, all_rows);
      const std::int64_t from = std::max<std::int64_t>(0, begin - longest);
      AttentionContext context = with_distances(longest + 7);
      const Variable y = layer->operator()(Variable(now), Variable(), context, pass);
      context.mask.query_begin = begin - from;
      const Variable memory =
          begin == from ? Variable() : Variable(piece(x, from, begin, all_rows));
      const Variable expected = layer->operator()(Variable(now), memory, context, ForwardContext{});
      expect_close(values_of(y.value()), values_of(expected.value()), 1e-12);
      begin = end;
    }
    EXPECT_LE(pass.kv_cache->layer(ForwardContext{}.random.place()).count(), 2 * longest + 64 + 7);
  }
}

TEST(KVCache, ChooseReordersAndRepeatsRows) {
  Parameters parameters = one_process_parameters();
  const auto layer = layer_of(parameters, std::make_unique<SoftmaxAttention>(0));
  const NoGradGuard unrecorded;
  const Tensor x = random_tensor({batch, 80, width}, 5);
  ForwardContext pass;
  pass.kv_cache = std::make_shared<KVCache>();
  // Rows of x that each row has read so far. The choices repeat, swap, drop and keep rows.
  std::vector<std::vector<std::int64_t>> read(batch);
  std::vector<std::vector<std::int64_t>> choices = {
      {0, 1, 2}, {0, 0, 1, 2, 2}, {4, 3, 2, 1, 0}, {0, 1, 2}, {0, 1, 2}, {2, 0}, {1, 1, 0}};
  for (std::int64_t t = 0; t < 80; ++t) {
    std::vector<std::int64_t> rows = choices[0];
    if (t % 10 == 0 && t / 10 < std::ssize(choices))
      rows = choices[static_cast<std::size_t>(t / 10)];
    else {
      rows.clear();
      for (std::int64_t i = 0; i < std::ssize(read); ++i) rows.push_back(i);
    }
    pass.kv_cache->choose(rows);
    std::vector<std::vector<std::int64_t>> next;
    for (const std::int64_t row : rows) next.push_back(read[static_cast<std::size_t>(row)]);
    read = std::move(next);
    std::vector<std::int64_t> sources;
    for (std::size_t i = 0; i < read.size(); ++i) {
      sources.push_back(static_cast<std::int64_t>(i + static_cast<std::size_t>(t)) % batch);
      read[i].push_back(sources.back());
    }
    const Variable y = (*layer)(Variable(piece(x, t, t + 1, sources)), Variable(), {}, pass);
    pass.kv_cache->advance(1);
    if (t % 7 != 6 && t % 10 != 0) continue;
    const Tensor history =
        Tensor::empty({std::ssize(read), t + 1, width}, DType::f64, backend_device());
    for (std::int64_t i = 0; i < std::ssize(read); ++i)
      for (std::int64_t p = 0; p <= t; ++p)
        history.slice(i, i + 1)
            .reshape({t + 1, width})
            .slice(p, p + 1)
            .copy_from(piece(
                x, p, p + 1, {read[static_cast<std::size_t>(i)][static_cast<std::size_t>(p)]}));
    std::vector<std::int64_t> every(read.size());
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::int64_t>(i);
    const Tensor whole = (*layer)(Variable(history), Variable(), {}, ForwardContext{}).value();
    expect_close(values_of(y.value()), values_of(piece(whole, t, t + 1, every)), 1e-12);
  }
}

TEST(KVCache, ProjectsEncoderOutputOnceAndReordersIt) {
  Parameters parameters = one_process_parameters();
  const auto layer = layer_of(parameters, std::make_unique<SoftmaxAttention>(0));
  const NoGradGuard unrecorded;
  const Tensor x = random_tensor({batch, 6, width}, 5);
  for (const bool padded : {true, false}) {
    EncoderOutput side = {.rows = Variable(random_tensor({batch, 70, width}, 6))};
    if (padded)
      side.length =
          Tensor::from<std::int64_t>(std::vector<std::int64_t>{70, 0, 66}, {3}, backend_device());
    const Tensor whole = (*layer)(Variable(x), side, side.key_context(), ForwardContext{}).value();
    ForwardContext pass;
    pass.kv_cache = std::make_shared<KVCache>();
    const auto look =
        [&](std::int64_t begin, std::int64_t end, const auto& rows, EncoderOutput seen) {
          const Variable y =
              (*layer)(Variable(piece(x, begin, end, rows)), seen, seen.key_context(), pass);
          expect_close(values_of(y.value()), values_of(piece(whole, begin, end, rows)), 1e-12);
        };
    look(0, 2, all_rows, side);
    look(2, 3, all_rows, EncoderOutput{});
    pass.kv_cache->choose(std::vector<std::int64_t>{0, 0, 1, 2, 2});
    look(3, 4, std::vector<std::int64_t>{0, 0, 1, 2, 2}, EncoderOutput{});
    pass.kv_cache->choose(std::vector<std::int64_t>{1, 0, 4});  // drops row 1 of x
    look(4, 6, std::vector<std::int64_t>{0, 0, 2}, EncoderOutput{});
  }
}

TEST(KVCache, RejectsUnsupportedUses) {
  Parameters parameters = one_process_parameters();
  const auto layer = layer_of(parameters, std::make_unique<SoftmaxAttention>(0));
  const Variable x(random_tensor({batch, 1, width}, 5));
  ForwardContext pass;
  pass.kv_cache = std::make_shared<KVCache>();
  EXPECT_THROW((*layer)(x, Variable(), {}, pass), Failure);  // records gradients
  const NoGradGuard unrecorded;
  EXPECT_THROW((*layer)(x, x, {}, pass), Failure);  // with a memory
  (*layer)(x, Variable(), {}, pass);
  EXPECT_THROW((*layer)(Variable(random_tensor({2, 1, width}, 5)), Variable(), {}, pass), Failure);
  EXPECT_THROW(pass.kv_cache->choose(std::vector<std::int64_t>{3}), Failure);
  Parameters others = one_process_parameters();
  const auto hashed =
      layer_of(others,
               std::make_unique<LshAttention>(Scope(others),
                                              LshAttention::Options{.lsh = {}, .heads = heads}));
  EXPECT_TRUE(layer->supports_kv_cache());
  EXPECT_FALSE(hashed->supports_kv_cache());
  EXPECT_THROW((*hashed)(x, Variable(), {}, pass), ConfigurationError);
}

}  // namespace
}  // namespace longspan::kv_cache_test
