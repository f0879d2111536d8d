// Passes with a KV cache match one process on every layout. Tensor ranks cache their own heads,
// context ranks replicate the cache.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::kv_cache_mesh_test {
namespace {

using testing::backend_device;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 2;
constexpr std::int64_t width = 8;

// Returns the outputs of passes over 3, 1 and 1 positions: self-attention, then cross-attention.
// Swaps the rows after each pass.
Values outputs(const ProcessMesh& mesh) {
  Parameters parameters(backend_device(), DType::f64, mesh);
  const MultiHeadAttention::Options options = {.width = width, .heads = 4, .dim = 3};
  const MultiHeadAttention itself(
      Scope(parameters).child("itself"), options, std::make_unique<SoftmaxAttention>(0));
  const MultiHeadAttention across(
      Scope(parameters).child("across"), options, std::make_unique<SoftmaxAttention>(0));
  parameters.allocate(Random(3));
  const NoGradGuard unrecorded;
  const EncoderOutput side = {.rows = Variable(random_tensor({batch, 9, width}, 2)),
                              .time = replicate_sequence(9),
                              .length = Tensor::from<std::int64_t>(
                                  std::vector<std::int64_t>{9, 5}, {batch}, backend_device())};
  const auto cache = std::make_shared<KVCache>();
  Values result;
  for (const std::int64_t time : {3, 1, 1}) {
    const Variable x(
        random_tensor({batch, time, width}, static_cast<std::uint64_t>(cache->positions())));
    const ForwardContext pass = {.time = replicate_sequence(time), .kv_cache = cache};
    const Variable seen = itself(x, Variable(), {}, pass.child("itself"));
    const Values values =
        values_of(across(seen, side, side.key_context(), pass.child("across")).value());
    result.insert(result.end(), values.begin(), values.end());
    cache->advance(time);
    cache->choose(std::vector<std::int64_t>{1, 0});
  }
  return result;
}

TEST(KVCache, MatchesSingleProcessOnEveryLayout) {
  const Values expected = outputs(ProcessMesh());
  std::vector<MeshShape> layouts = testing::data_and_tensor_layouts();
  for (const MeshShape& shape : testing::time_layouts()) layouts.push_back(shape);
  testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    testing::expect_close(outputs(mesh), expected, 1e-12);
  });
}

}  // namespace
}  // namespace longspan::kv_cache_mesh_test
