// Tiled attention against the peak of matrix products measured in the same run: 1024 x 1024 x 1024
// in f32 on a CPU, 8192 x 8192 x 8192 in bf16 on a GPU. `of_peak` counts the operations of
// attention_flops and attention_backward_flops: allowed pairs only, with recomputed scores. The
// best times of all repetitions are compared, because other work on the machine affects them least.
// Comparisons: sparse plans with the full one, relative with causal attention, grouped keys with
// one key per head. Documents of uneven length are compared with a window that has as many pairs.
//   benchmark_attention [--device cuda]      OMP_NUM_THREADS: number of cores
#include "framework/kernels/attention/attention.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "framework/core/dispatch.h"
#include "tests/benchmarks/support/bench_device.h"

namespace longspan {
namespace {

using bench::random_tensor;

enum class Pattern { causal, random_16th, local, strided, image, documents };

struct AttentionShape {
  std::int64_t batch;
  std::int64_t time;
  std::int64_t memory;
  std::int64_t heads;
  bool relative = false;
  double dropout = 0;
  Pattern pattern = Pattern::causal;
  std::int64_t dim = 64;
  std::int64_t key_heads = 0;  // 0: heads
};

// Position of each token in its document, [batch, time]. Document lengths are 64 to 2,048, uniform
// in the logarithm.
Tensor places(const AttentionShape& s, const Device& device) {
  const Random random(7);
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0, document = 0; row < s.batch; ++row)
    for (std::int64_t i = 0; i < s.time; ++document) {
      const double drawn = random.uniform_at(static_cast<std::uint64_t>(document));
      const auto length = static_cast<std::int64_t>(std::exp2(6 + 5 * drawn));
      for (std::int64_t place = 0; place < length && i < s.time; ++place, ++i) all.push_back(place);
    }
  return Tensor::from<std::int64_t>(all, {s.batch, s.time}, device);
}
// A window with as many allowed pairs as rows of documents.
Mask window_of_as_many(const AttentionShape& s, const Tensor& reach) {
  const Tensor here = reach.to_host();
  double pairs = 0;
  for (const std::int64_t place : here.span<std::int64_t>())
    pairs += static_cast<double>(place + 1);
  pairs /= static_cast<double>(s.batch);
  // Pairs of a window of w keys over t tokens: w t - w (w - 1) / 2.
  const auto time = static_cast<double>(s.time) + 0.5;
  const double window = time - std::sqrt(time * time - 2 * pairs);
  return masks::causal() & masks::window(static_cast<std::int64_t>(std::lround(window)) - 1, 0);
}

// Each block of 64 queries attends to a random 1 / sparsity of the blocks of keys.
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

HeadMasks mask_of(const AttentionShape& s) {
  switch (s.pattern) {
    case Pattern::random_16th:
      return random_blocks(s.time + s.memory, 16);
    case Pattern::local:
      return masks::causal() & masks::window(255, 0);
    case Pattern::strided:
      return masks::causal() & (masks::window(127, 0) | masks::stride(128));
    case Pattern::image:  // 8,192 pixels, equal to the tokens of the others
      return masks::image({.height = s.time / 128,
                           .width = 128,
                           .query_height = 8,
                           .query_width = 8,
                           .flange_height = 8,
                           .flange_width = 8},
                          masks::ImageOrder::generation);
    default:
      return masks::causal();
  }
}

AttentionGradient make(const AttentionShape& s, DType dtype, const Device& device) {
  const std::int64_t dim = s.dim;
  const std::int64_t keys = s.time + s.memory;
  const DType sums = accumulator_of(dtype);
  AttentionGradient g;
  Attention& a = g.forward;
  a.query = random_tensor({s.batch, s.time, s.heads, dim}, dtype, device, "query");
  const std::int64_t key_heads = s.key_heads > 0 ? s.key_heads : s.heads;
  a.key = random_tensor({s.batch, keys, key_heads, dim}, dtype, device, "key");
  a.value = random_tensor({s.batch, keys, key_heads, dim}, dtype, device, "value");
  if (s.pattern == Pattern::documents) a.mask.max_lookback = places(s, device);
  a.mask.query_begin = s.memory;
  a.mask.rules = mask_of(s);
  a.out = a.query.empty_like();
  a.log_sum_exp = Tensor::empty({s.batch, s.heads, s.time}, sums, device);
  g.dout = random_tensor(a.out.shape(), dtype, device, "dout");
  g.dquery = a.query.empty_like();
  g.dkey = a.key.empty_like();
  g.dvalue = a.value.empty_like();
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

// Peak of the device, measured once.
double peak_of(const Device& device) {
  static const double peak =
      bench::product_peak(device, device.on_gpu() ? DType::bf16 : DType::f32);
  return peak;
}

// The call to compare with.
struct Other {
  AttentionGradient call;
  std::string name;  // empty: none
};

Other other_of(const AttentionShape& shape,
               DType dtype,
               const Device& device,
               AttentionGradient g) {
  if (shape.key_heads > 0) {
    AttentionShape equal = shape;
    equal.key_heads = 0;
    return {make(equal, dtype, device), "equal-heads"};
  }
  if (shape.pattern == Pattern::documents) {
    g.forward.mask.rules = window_of_as_many(shape, g.forward.mask.max_lookback);
    g.forward.mask.max_lookback = Tensor();
    return {g, "one-document"};
  }
  if (shape.relative) {
    g.forward.relative.reset();
    g.dposition_key = g.dcontent_bias = g.dposition_bias = Tensor();
    return {g, "causal"};
  }
  g.forward.mask.rules = Mask();
  return {g, shape.pattern == Pattern::causal ? "" : "full"};
}

void measure(benchmark::State& state,
             const Device& device,
             const std::string& name,
             AttentionShape shape,
             DType dtype,
             bool backward) {
  const double peak = peak_of(device);
  const AttentionGradient g = make(shape, dtype, device);
  const Other other = other_of(shape, dtype, device, g);
  const double operations =
      backward ? attention_backward_flops(g.forward) : attention_flops(g.forward);
  const auto run = [&](const AttentionGradient& call) {
    on(device, [&](auto backend) {
      if (backward)
        attention_backward(backend, call);
      else
        attention(backend, call.forward);
    });
  };
  double best = std::numeric_limits<double>::infinity(), best_other = best;
  on(device, [&](auto backend) { attention(backend, g.forward); });
  for (int i = 0; i < 3; ++i) run(g);
  int others = other.name.empty() ? 0 : 10;  // timed calls of it, which may be slow
  if (others > 0) run(other.call);
  for (auto _ : state) {
    const double time = bench::seconds(device, [&] { run(g); });
    best = std::min(best, time);
    if (others-- > 0)
      best_other = std::min(best_other, bench::seconds(device, [&] { run(other.call); }));
    state.SetIterationTime(time);
  }
  state.counters["best_ms"] = best * 1e3;
  state.counters["gflops"] = operations / best / 1e9;
  state.counters["peak_gflops"] = peak / 1e9;
  state.counters["of_peak"] = operations / best / peak;
  if (other.name.empty()) return;
  state.counters["times_as_fast_as_" + other.name] = best_other / best;
  if (device.on_gpu())
    bench::figure(fmt::format("{}/speedup-over-{}", name, other.name), best_other / best);
}

struct Row {
  const char* name;
  AttentionShape shape;
  DType dtype;
};

constexpr Row rows[] = {
    {"causal_4096/f32", {1, 4096, 0, 8}, DType::f32},
    {"causal_4096/bf16", {1, 4096, 0, 8}, DType::bf16},
    {"sparse_16th_4096/f32", {1, 4096, 0, 8, false, 0, Pattern::random_16th}, DType::f32},
    {"transformer_xl_256_256/f32", {8, 256, 256, 8, true}, DType::f32},
    {"transformer_xl_256_256/bf16", {8, 256, 256, 8, true}, DType::bf16},
    {"transformer_xl_256_256_dropout/f32", {8, 256, 256, 8, true, 0.1}, DType::f32},
    {"decoder_64/f32", {4, 64, 0, 12}, DType::f32},
    {"decoder_64/bf16", {4, 64, 0, 12}, DType::bf16},
    {"one_query_2048_memory/f32", {8, 1, 2047, 8, true}, DType::f32},
    {"grouped_8_to_1_2048/f32", {1, 2048, 0, 8, false, 0, Pattern::causal, 64, 1}, DType::f32},
    {"documents_8192/f32", {2, 8192, 0, 4, false, 0, Pattern::documents}, DType::f32},
};

// Shapes as in peer_attention.py. Relative and causal attention have one shape for comparison.
constexpr Row gpu_rows[] = {
    {"causal_8192_128/bf16", {2, 8192, 0, 16, false, 0, Pattern::causal, 128}, DType::bf16},
    {"causal_4096_64/bf16", {4, 4096, 0, 16}, DType::bf16},
    {"relative_4096_64/bf16", {4, 4096, 0, 16, true}, DType::bf16},
    {"transformer_xl_512_512/bf16", {16, 512, 512, 16, true}, DType::bf16},
    {"sparse_16th_8192_128/bf16",
     {2, 8192, 0, 16, false, 0, Pattern::random_16th, 128},
     DType::bf16},
    {"local_8192_128/bf16", {2, 8192, 0, 16, false, 0, Pattern::local, 128}, DType::bf16},
    {"strided_8192_128/bf16", {2, 8192, 0, 16, false, 0, Pattern::strided, 128}, DType::bf16},
    {"image_8192_128/bf16", {2, 8192, 0, 16, false, 0, Pattern::image, 128}, DType::bf16},
    {"grouped_8_to_1_8192_128/bf16",
     {2, 8192, 0, 16, false, 0, Pattern::causal, 128, 2},
     DType::bf16},
    {"documents_8192_128/bf16", {2, 8192, 0, 16, false, 0, Pattern::documents, 128}, DType::bf16},
};

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) {
  using namespace longspan;
  const Device device = bench::device_from(argc, argv);
  for (const Row& row : device.on_gpu() ? std::span<const Row>(gpu_rows) : std::span(rows))
    for (const bool backward : {false, true}) {
      const std::string name = fmt::format("{}/{}", row.name, backward ? "backward" : "forward");
      auto* const registered =
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
            measure(state, device, name, row.shape, row.dtype, backward);
          });
      registered->UseManualTime()->Unit(benchmark::kMillisecond);
      if (device.on_gpu())
        registered->Iterations(50);
      else
        registered->MinTime(1.0);
    }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // they hold the device
  return 0;
}
