// Stacks with a KV cache match a full pass for every type of residual.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/residual/gated.h"
#include "framework/nn/residual/reversible.h"
#include "tests/nn/layer_testing.h"

namespace longspan::kv_cache_stack_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::values_of;

constexpr std::int64_t width = 8;

std::vector<Layer> stack_layers(Parameters& parameters) {
  std::vector<Layer> layers;
  for (const std::string name : {"0", "1", "2"}) {
    const Scope scope = Scope(parameters).child("layer" + name);
    const auto attention = std::make_shared<MultiHeadAttention>(
        scope.child("attention"),
        MultiHeadAttention::Options{.width = width, .heads = 2, .dim = 4},
        std::make_unique<SoftmaxAttention>(0));
    const auto feed_forward = std::make_shared<FeedForward>(
        scope.child("feed_forward"), FeedForward::Options{.width = width, .hidden = 12});
    Layer layer;
    layer.sublayers.push_back(
        {.norm = Norm(scope.child("norm"), width),
         .reads = Reads::memory,
         .run = [attention](
                    const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
           return (*attention)(x, reads.memory, reads.context, pass);
         }});
    layer.sublayers.push_back(
        {.norm = Norm(scope.child("norm_again"), width),
         .run = [feed_forward](const Variable& x,
                               const SublayerInputs&,
                               const ForwardContext& pass) { return (*feed_forward)(x, pass); }});
    const Gate::Options gate = {.width = width};
    for (Sublayer& sublayer : layer.sublayers)  // only for gated stacks
      sublayer.gate = std::make_shared<const Gate>(
          scope.child("gate" + std::to_string(parameters.all().size())), gate);
    layers.push_back(layer);
  }
  testing::allocate_randomly(parameters, 1);
  return layers;
}

void verify_kv_cache(const Residual& residual) {
  Parameters parameters = testing::one_process_parameters();
  const std::vector<Layer> layers = stack_layers(parameters);
  const NoGradGuard unrecorded;
  const auto run = [&](const Tensor& x, const std::shared_ptr<KVCache>& cache) {
    return residual.run(layers, Variable(x), StackInputs(), ForwardContext{.kv_cache = cache})
        .value();
  };
  const Tensor x = random_tensor({1, 9, width}, 4);
  const Tensor whole = run(x, nullptr);
  const auto cache = std::make_shared<KVCache>();
  for (const auto& [begin, end] : std::vector<Range>{{0, 4}, {4, 5}, {5, 7}, {7, 8}, {8, 9}}) {
    const Tensor now = x.reshape({9, width}).slice(begin, end).reshape({1, end - begin, width});
    expect_close(values_of(run(now, cache)),
                 values_of(whole.reshape({9, whole.shape()[2]}).slice(begin, end)),
                 1e-12);
    cache->advance(end - begin);
  }
}

TEST(KVCache, StackWithCacheMatchesFullPass) {
  verify_kv_cache(StandardResidual(NormPosition::pre, 0.1));
  verify_kv_cache(StandardResidual(NormPosition::post, 0.1));
  verify_kv_cache(StandardResidual(NormPosition::pre, 0.1, Recomputation::every(2)));
  verify_kv_cache(StandardResidual(NormPosition::post, 0.1, Recomputation::selective()));
  for (const StreamMerge join : {StreamMerge::mean, StreamMerge::concatenate})
    verify_kv_cache(ReversibleResidual(join, 0.1));
  verify_kv_cache(GatedResidual({.dropout = 0.1}));
}

}  // namespace
}  // namespace longspan::kv_cache_stack_test
