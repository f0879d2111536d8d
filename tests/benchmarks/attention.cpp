// Tile attention against the peak of matrix products (1024 x 1024 x 1024 by oneDNN) measured in the
// same run. `of_peak` counts what attention_flops counts: allowed pairs only, and the backward pass
// as twice the forward pass. Best times of all repetitions are compared, so that other work on the
// machine disturbs little. The sparse plan is compared with the full one, which sees every key. Run
// with OMP_NUM_THREADS set to the cores to use.
#include "framework/kernels/attention.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

double seconds(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Tensor random_tensor(const Shape& shape, DType dtype, const Device& device, const char* name) {
  Tensor result = Tensor::empty(shape, dtype, device);
  const Random random = Random(1).child(name);
  with_floating_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::uint64_t i = 0;
    for (T& x : result.span<T>()) x = static_cast<T>(random.uniform_at(i++) - 0.5f);
  });
  return result;
}

struct AttentionShape {
  std::int64_t batch;
  std::int64_t time;
  std::int64_t memory;
  std::int64_t heads;
  bool relative;
  double dropout = 0;
  // Each block of 64 queries sees 1 / sparsity of the blocks of keys, drawn at random.
  std::int64_t sparsity = 0;
};

Mask random_blocks(std::int64_t keys, std::int64_t sparsity) {
  constexpr std::int64_t length = 64;
  const std::int64_t blocks = keys / length;
  const Random random(5);
  std::vector<std::vector<std::int64_t>> lists;
  for (std::int64_t u = 0; u < blocks; ++u) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::int64_t k) {
      return random.word(static_cast<std::uint64_t>(u * blocks + k));
    });
    order.resize(static_cast<std::size_t>(blocks / sparsity));
    lists.push_back(std::move(order));
  }
  return masks::block_map(length, lists);
}

AttentionGradient make(const AttentionShape& s, DType dtype, const Device& device) {
  constexpr std::int64_t dim = 64;
  const std::int64_t keys = s.time + s.memory;
  const DType sums = accumulator_of(dtype);
  AttentionGradient g;
  Attention& a = g.forward;
  a.query = random_tensor({s.batch, s.time, s.heads, dim}, dtype, device, "query");
  a.key = random_tensor({s.batch, keys, s.heads, dim}, dtype, device, "key");
  a.value = random_tensor({s.batch, keys, s.heads, dim}, dtype, device, "value");
  a.mask.query_begin = s.memory;
  if (s.sparsity > 0) a.mask.rules = random_blocks(keys, s.sparsity);
  a.out = a.query.like();
  a.log_sum_exp = Tensor::empty({s.batch, s.heads, s.time}, sums, device);
  g.dout = random_tensor(a.out.shape(), dtype, device, "dout");
  g.dquery = a.query.like();
  g.dkey = a.key.like();
  g.dvalue = a.value.like();
  if (s.dropout > 0) a.dropout = AttentionDropout{s.dropout, Random(2), 0, 0, s.heads};
  if (!s.relative) return g;
  a.relative = RelativeTerm{random_tensor({keys, s.heads, dim}, dtype, device, "position"),
                            random_tensor({s.heads, dim}, dtype, device, "u"),
                            random_tensor({s.heads, dim}, dtype, device, "v")};
  g.dposition_key = Tensor::zeros({keys, s.heads, dim}, sums, device);
  g.dcontent_bias = Tensor::zeros({s.heads, dim}, sums, device);
  g.dposition_bias = Tensor::zeros({s.heads, dim}, sums, device);
  return g;
}

void measure(benchmark::State& state, AttentionShape shape, DType dtype, bool backward) {
  const Device device = Device::cpu();
  const Cpu cpu{&device.state()};
  constexpr std::int64_t side = 1024;
  Matmul product;
  product.a = random_tensor({side, side}, DType::f32, device, "a");
  product.b = random_tensor({side, side}, DType::f32, device, "b");
  product.c = Tensor::empty({side, side}, DType::f32, device);
  const AttentionGradient g = make(shape, dtype, device);
  AttentionGradient full = g;
  full.forward.mask.rules = Mask();
  const double operations = attention_flops(g.forward) * (backward ? 2 : 1);
  const auto run = [&](const AttentionGradient& call) {
    if (backward)
      attention_backward(cpu, call);
    else
      attention(cpu, call.forward);
  };
  constexpr double never = std::numeric_limits<double>::infinity();
  double best_product = never;
  double best = never;
  double best_full = never;
  matmul(cpu, product);
  attention(cpu, g.forward);
  run(g);
  for (auto _ : state) {
    best_product = std::min(best_product, seconds([&] { matmul(cpu, product); }));
    const double time = seconds([&] { run(g); });
    best = std::min(best, time);
    if (shape.sparsity > 0) best_full = std::min(best_full, seconds([&] { run(full); }));
    state.SetIterationTime(time);
  }
  const double peak = 2.0 * side * side * side / best_product;
  state.counters["gflops"] = operations / best / 1e9;
  state.counters["peak_gflops"] = peak / 1e9;
  state.counters["of_peak"] = operations / best / peak;
  if (shape.sparsity > 0) state.counters["times_as_fast_as_full"] = best_full / best;
}

struct Row {
  const char* name;
  AttentionShape shape;
  DType dtype;
};

constexpr Row rows[] = {
    {"causal_4096/f32", {1, 4096, 0, 8, false}, DType::f32},
    {"causal_4096/bf16", {1, 4096, 0, 8, false}, DType::bf16},
    {"sparse_16th_4096/f32", {1, 4096, 0, 8, false, 0, 16}, DType::f32},
    {"transformer_xl_256_256/f32", {8, 256, 256, 8, true}, DType::f32},
    {"transformer_xl_256_256/bf16", {8, 256, 256, 8, true}, DType::bf16},
    {"transformer_xl_256_256_dropout/f32", {8, 256, 256, 8, true, 0.1}, DType::f32},
    {"decoder_64/f32", {4, 64, 0, 12, false}, DType::f32},
    {"decoder_64/bf16", {4, 64, 0, 12, false}, DType::bf16},
    {"one_query_2048_memory/f32", {8, 1, 2047, 8, true}, DType::f32},
};

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) {
  using namespace longspan;
  for (const Row& row : rows)
    for (const bool backward : {false, true})
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}", row.name, backward ? "backward" : "forward").c_str(),
          [=](benchmark::State& state) { measure(state, row.shape, row.dtype, backward); })
          ->UseManualTime()
          ->MinTime(1.0)
          ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
