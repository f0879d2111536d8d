// Speed of the kernels. Matrix products: fraction of a large one measured in the same run, 1024 x
// 1024 x 1024 in f32 on a CPU and 8192 x 8192 x 8192 in bf16 on a GPU. Others: minimal memory
// traffic in bytes per second.
//   benchmark_kernels [--device cuda]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "framework/core/dispatch.h"
#include "framework/kernels/cross_entropy.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/embedding.h"
#include "framework/kernels/layer_norm.h"
#include "framework/kernels/matmul.h"
#include "framework/kernels/optimizer.h"
#include "tests/benchmarks/support/bench_device.h"

namespace longspan {
namespace {

// The device of all benchmarks, and its peak for large products; set by main().
struct Place {
  Device device = Device::cpu();
  double peak = 0;
  std::int64_t rows = 4096;  // of kernels that are not products
};
Place& place() {
  static Place the_place;
  return the_place;
}
const Device& device() { return place().device; }

// Calls kernel(backend).
template <typename F>
auto run(const F& kernel) {
  return on(device(), kernel);
}

Tensor full_tensor(const Shape& shape, DType dtype) {
  return bench::random_tensor(shape, dtype, device(), "values");
}

double seconds_of(const Matmul& product) {
  return bench::seconds(device(), [&] { run([&](auto backend) { matmul(backend, product); }); });
}

struct MatmulCase {
  std::int64_t m, k, n;
};

void benchmark_matmul(benchmark::State& state, MatmulCase size, DType dtype, bool ta, bool tb) {
  const auto [m, k, n] = size;
  const Matmul product{.a = full_tensor(ta ? Shape{k, m} : Shape{m, k}, dtype),
                       .b = full_tensor(tb ? Shape{n, k} : Shape{k, n}, dtype),
                       // Gradients of weights are accumulated in float32.
                       .c = full_tensor({m, n}, ta ? DType::f32 : dtype),
                       .transpose_a = ta,
                       .transpose_b = tb,
                       .accumulate = ta};
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  double best = seconds_of(product);
  for (auto _ : state) {
    const double time = seconds_of(product);
    best = std::min(best, time);
    state.SetIterationTime(time);
  }
  state.counters["GFLOP/s"] = flops / best * 1e-9;
  state.counters["of_peak"] = flops / best / place().peak;
}

void register_matmuls() {
  const std::vector<MatmulCase> on_cpu = {{1024, 1024, 1024},
                                          {2048, 512, 512},
                                          {2048, 512, 1536},
                                          {2048, 512, 2048},
                                          {2048, 2048, 512},
                                          {4096, 512, 1024},
                                          {2048, 512, 256},
                                          {512, 2048, 512},
                                          {512, 2048, 2048},
                                          {256, 768, 768},
                                          {256, 768, 3072},
                                          {256, 3072, 768},
                                          {256, 768, 50257}};
  const std::vector<MatmulCase> on_gpu = {{8192, 8192, 8192},
                                          {16384, 768, 2304},
                                          {16384, 768, 3072},
                                          {16384, 768, 50304},
                                          {16384, 768, 50257},  // unpadded vocabulary
                                          {16384, 2048, 6144},
                                          {16384, 2048, 8192},
                                          {16384, 8192, 2048},
                                          {8192, 1024, 4096}};
  for (const auto size : device().on_gpu() ? on_gpu : on_cpu)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const char* form : {"NN", "NT", "TN"})
        benchmark::RegisterBenchmark(
            fmt::format("matmul/{}/{}/{}x{}x{}", name_of(dtype), form, size.m, size.k, size.n)
                .c_str(),
            benchmark_matmul,
            size,
            dtype,
            form[0] == 'T',
            form[1] == 'T')
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
}

// Runs a kernel with a minimal memory traffic of `bytes`.
template <typename F>
void measure(benchmark::State& state, std::int64_t bytes, const F& kernel) {
  const auto call = [&] { run(kernel); };
  call();
  for (auto _ : state) state.SetIterationTime(bench::seconds(device(), call));
  state.SetBytesProcessed(state.iterations() * bytes);
}

const std::int64_t& rows = place().rows;
constexpr std::int64_t width = 512;

std::int64_t bytes_of(DType dtype, std::int64_t elements) {
  return static_cast<std::int64_t>(size_of(dtype)) * elements;
}

LayerNorm some_norm(DType dtype) {
  return {.x = full_tensor({rows, width}, dtype),
          .weight = full_tensor({width}, DType::f32),
          .bias = full_tensor({width}, DType::f32),
          .y = full_tensor({rows, width}, dtype),
          .mean = full_tensor({rows}, DType::f32),
          .rstd = full_tensor({rows}, DType::f32)};
}

void benchmark_layer_norm(benchmark::State& state, DType dtype) {
  const LayerNorm norm = some_norm(dtype);
  measure(
      state, bytes_of(dtype, 2 * rows * width), [&](auto backend) { layer_norm(backend, norm); });
}

void benchmark_layer_norm_backward(benchmark::State& state, DType dtype) {
  const LayerNormGradient norm{.x = full_tensor({rows, width}, dtype),
                               .weight = full_tensor({width}, DType::f32),
                               .mean = full_tensor({rows}, DType::f32),
                               .rstd = full_tensor({rows}, DType::f32),
                               .dy = full_tensor({rows, width}, dtype),
                               .dx = full_tensor({rows, width}, dtype),
                               .dweight = full_tensor({width}, DType::f32),
                               .dbias = full_tensor({width}, DType::f32)};
  measure(state, bytes_of(dtype, 3 * rows * width), [&](auto backend) {
    layer_norm_backward(backend, norm);
  });
}

Dropout some_dropout(DType dtype) {
  return {.x = full_tensor({1, rows, width}, dtype),
          .y = full_tensor({1, rows, width}, dtype),
          .rate = 0.1,
          .random = Random(1),
          .placement = {.middle_total = rows, .inner_total = width}};
}

void benchmark_dropout(benchmark::State& state, DType dtype) {
  const Dropout drop = some_dropout(dtype);
  measure(state, bytes_of(dtype, 2 * rows * width), [&](auto backend) { dropout(backend, drop); });
}

// Residual connection: fused, and in two kernels. Both count the bytes of the fused one.
void benchmark_dropout_add(benchmark::State& state, DType dtype) {
  const Dropout drop = some_dropout(dtype);
  const Tensor base = full_tensor({1, rows, width}, dtype);
  measure(state, bytes_of(dtype, 3 * rows * width), [&](auto backend) {
    dropout_add(backend, base, drop);
  });
}

void benchmark_drop_then_add(benchmark::State& state, DType dtype) {
  const Dropout drop = some_dropout(dtype);
  const Tensor base = full_tensor({1, rows, width}, dtype),
               sum = full_tensor({1, rows, width}, dtype);
  measure(state, bytes_of(dtype, 3 * rows * width), [&](auto backend) {
    dropout(backend, drop);
    add(backend, base, drop.y, sum);
  });
}

// Residual connection with its norm: fused, and in two kernels.
void benchmark_residual_layer_norm(benchmark::State& state, DType dtype, bool at_once) {
  Dropout drop = some_dropout(dtype);
  const Tensor base = full_tensor({1, rows, width}, dtype), sum = full_tensor({rows, width}, dtype);
  drop.y = sum.reshape(base.shape());
  LayerNorm norm = some_norm(dtype);
  norm.x = sum;
  measure(state, bytes_of(dtype, 4 * rows * width), [&](auto backend) {
    if (at_once) return residual_layer_norm(backend, base, drop, norm);
    dropout_add(backend, base, drop);
    layer_norm(backend, norm);
  });
}

void benchmark_activation(benchmark::State& state, DType dtype, Activation activation) {
  const Tensor x = full_tensor({rows, 4 * width}, dtype), y = full_tensor({rows, 4 * width}, dtype);
  measure(state, bytes_of(dtype, 8 * rows * width), [&](auto backend) {
    activate(backend, activation, x, y);
  });
}

void benchmark_activation_backward(benchmark::State& state, DType dtype, Activation activation) {
  const Tensor x = full_tensor({rows, 4 * width}, dtype),
               dy = full_tensor({rows, 4 * width}, dtype);
  measure(state, bytes_of(dtype, 12 * rows * width), [&](auto backend) {
    activate_backward(backend, activation, x, dy, dy);
  });
}

// Gradients of a weight and its bias: fused if supported, and in two kernels.
void benchmark_weight_gradient(benchmark::State& state, DType dtype, bool at_once) {
  Matmul product = {.a = full_tensor({rows, 4 * width}, dtype),
                    .b = full_tensor({rows, width}, dtype),
                    .c = full_tensor({4 * width, width}, DType::f32),
                    .transpose_a = true,
                    .accumulate = true};
  const Tensor sums = full_tensor({4 * width}, DType::f32);
  if (at_once) product.a_sums = sums;
  measure(state, bytes_of(dtype, 5 * rows * width), [&](auto backend) {
    if (!at_once) add_column_sums(backend, product.a, sums);
    matmul(backend, product);
  });
}

// Products of a feed-forward layer with GELU or its derivative: fused, and in two kernels. If the
// GPU library is slower fused, change `fuses` in kernels/cuda/cublaslt_gemm.cu.
void benchmark_gelu_product(benchmark::State& state, DType dtype, bool derivative, bool at_once) {
  const std::int64_t hidden = 4 * width;
  const Tensor before = full_tensor({rows, hidden}, dtype);
  Matmul product{.a = full_tensor({rows, width}, dtype),
                 .b = full_tensor({width, hidden}, dtype),
                 .c = full_tensor({rows, hidden}, dtype)};
  const Tensor c = product.c;
  if (at_once) {
    product.activation = Activation::gelu_tanh;
    product.before = before;
    product.derivative = derivative;
  } else if (!derivative) {
    product.c = before;
  }
  measure(state, bytes_of(dtype, 2 * rows * hidden), [&](auto backend) {
    matmul(backend, product);
    if (at_once) return;
    if (derivative)
      activate_backward(backend, Activation::gelu_tanh, before, c, c);
    else
      activate(backend, Activation::gelu_tanh, before, c);
  });
}

Tensor ids_below(std::int64_t count, std::int64_t limit) {
  const Tensor ids = Tensor::empty({count}, DType::i64, Device::cpu());
  const Random random(2);
  std::uint64_t index = 0;
  for (auto& id : ids.span<std::int64_t>()) id = random.word(index++) % limit;
  return ids.to(device());
}

void benchmark_cross_entropy(benchmark::State& state, DType dtype, std::int64_t vocabulary) {
  const std::int64_t tokens = vocabulary < 1000 ? rows : 256;
  const CrossEntropyStatistics entropy{.logits = full_tensor({tokens, vocabulary}, dtype),
                                       .targets = ids_below(tokens, vocabulary),
                                       .valid_width = vocabulary,
                                       .maximum = full_tensor({tokens}, DType::f32),
                                       .sum = full_tensor({tokens}, DType::f32),
                                       .target = full_tensor({tokens}, DType::f32)};
  measure(state, bytes_of(dtype, tokens * vocabulary), [&](auto backend) {
    cross_entropy_statistics(backend, entropy);
  });
}

void benchmark_cross_entropy_backward(benchmark::State& state,
                                      DType dtype,
                                      std::int64_t vocabulary) {
  const std::int64_t tokens = vocabulary < 1000 ? rows : 256;
  const CrossEntropyGradient entropy{.logits = full_tensor({tokens, vocabulary}, dtype),
                                     .targets = ids_below(tokens, vocabulary),
                                     .valid_width = vocabulary,
                                     .log_sum_exp = full_tensor({tokens}, DType::f32),
                                     .scale = full_tensor({tokens}, DType::f32)};
  measure(state, bytes_of(dtype, 2 * tokens * vocabulary), [&](auto backend) {
    cross_entropy_backward(backend, entropy);
  });
}

void benchmark_embedding_scatter(benchmark::State& state, DType dtype, std::int64_t vocabulary) {
  const EmbeddingScatter embedding{.dout = full_tensor({rows, width}, dtype),
                                   .ids = ids_below(rows, vocabulary),
                                   .dtable = full_tensor({vocabulary, width}, DType::f32)};
  measure(state,
          bytes_of(dtype, rows * width) + bytes_of(DType::f32, 2 * rows * width),
          [&](auto backend) { embedding_scatter(backend, embedding); });
}

void benchmark_column_sums(benchmark::State& state, DType dtype) {
  const Tensor x = full_tensor({rows, width}, dtype), out = full_tensor({width}, DType::f32);
  measure(state, bytes_of(dtype, rows * width), [&](auto backend) {
    add_column_sums(backend, x, out);
  });
}

void benchmark_sum_of_squares(benchmark::State& state, DType dtype) {
  const Tensor x = full_tensor({8 * rows, width}, dtype), total = full_tensor({1}, DType::f64);
  measure(state, bytes_of(dtype, 8 * rows * width), [&](auto backend) {
    sum_of_squares(backend, {x}, total);
  });
}

void benchmark_adamw(benchmark::State& state, DType compute) {
  const Shape shape = {20 << 20};
  AdamUpdate update{.range = {.weight = full_tensor(shape, DType::f32),
                              .gradient = full_tensor(shape, DType::f32),
                              .learning_rate = 1e-4,
                              .weight_decay = 0.1},
                    .first = Tensor::zeros(shape, DType::f32, device()),
                    .second = Tensor::zeros(shape, DType::f32, device())};
  if (compute != DType::f32) update.range.compute = full_tensor(shape, compute);
  const std::int64_t copy = compute == DType::f32 ? 0 : bytes_of(compute, shape[0]);
  measure(state, bytes_of(DType::f32, 7 * shape[0]) + copy, [&](auto backend) {
    adam_update(backend, update);
  });
}

void register_others() {
  const auto named = [](const std::string& name, DType dtype, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(
        fmt::format("{}/{}", name, name_of(dtype)).c_str(), function, dtype, arguments...)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    named(fmt::format("layer_norm/{}x512", rows), dtype, benchmark_layer_norm);
    named(fmt::format("layer_norm_backward/{}x512", rows), dtype, benchmark_layer_norm_backward);
    named(fmt::format("dropout/{}x512", rows), dtype, benchmark_dropout);
    for (const bool derivative : {false, true})
      for (const bool at_once : {false, true})
        named(fmt::format("product_{}gelu_tanh/{}/{}x512x2048",
                          derivative ? "d" : "",
                          at_once ? "at_once" : "in_two",
                          rows),
              dtype,
              benchmark_gelu_product,
              derivative,
              at_once);
    for (const bool at_once : {false, true}) {
      named(fmt::format("residual_layer_norm/{}/{}x512", at_once ? "at_once" : "in_two", rows),
            dtype,
            benchmark_residual_layer_norm,
            at_once);
      named(fmt::format(
                "weight_and_bias_gradient/{}/{}x2048x512", at_once ? "at_once" : "in_two", rows),
            dtype,
            benchmark_weight_gradient,
            at_once);
    }
    named(fmt::format("dropout_add/{}x512", rows), dtype, benchmark_dropout_add);
    named(fmt::format("drop_then_add/{}x512", rows), dtype, benchmark_drop_then_add);
    named(fmt::format("relu/{}x2048", rows), dtype, benchmark_activation, Activation::relu);
    named(fmt::format("gelu/{}x2048", rows), dtype, benchmark_activation, Activation::gelu);
    named(
        fmt::format("gelu_tanh/{}x2048", rows), dtype, benchmark_activation, Activation::gelu_tanh);
    named(fmt::format("gelu_backward/{}x2048", rows),
          dtype,
          benchmark_activation_backward,
          Activation::gelu);
    named(fmt::format("cross_entropy/{}x256", rows),
          dtype,
          benchmark_cross_entropy,
          std::int64_t{256});
    named("cross_entropy/256x50257", dtype, benchmark_cross_entropy, std::int64_t{50257});
    named(fmt::format("cross_entropy_backward/{}x256", rows),
          dtype,
          benchmark_cross_entropy_backward,
          std::int64_t{256});
    named("cross_entropy_backward/256x50257",
          dtype,
          benchmark_cross_entropy_backward,
          std::int64_t{50257});
    named("embedding_scatter/256", dtype, benchmark_embedding_scatter, std::int64_t{256});
    named("embedding_scatter/50257", dtype, benchmark_embedding_scatter, std::int64_t{50257});
    named(fmt::format("column_sums/{}x512", rows), dtype, benchmark_column_sums);
    named("sum_of_squares/16M", dtype, benchmark_sum_of_squares);
    named("adamw/20M", dtype, benchmark_adamw);
  }
}

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) {
  using namespace longspan;
  place().device = bench::device_from(argc, argv);
  if (device().on_gpu()) place().rows = 131072;
  const DType dtype = device().on_gpu() ? DType::bf16 : DType::f32;
  place().peak = bench::product_peak(device(), dtype);
  register_matmuls();
  register_others();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext(fmt::format("a large product in {}", name_of(dtype)),
                              fmt::format("{:.1f} GFLOP/s", place().peak * 1e-9));
  benchmark::AddCustomContext("bf16", bf16_is_native() ? "native" : "emulated");
  benchmark::RunSpecifiedBenchmarks();
  place().device = Device::cpu();  // before the GPU libraries are unloaded
}
