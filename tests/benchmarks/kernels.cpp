// Speed of the kernels: matrix products as a fraction of the 1024 x 1024 x 1024 float32 product
// measured in the same run, everything else in bytes a second that must cross the memory bus.
#include <benchmark/benchmark.h>

#include <chrono>

#include "framework/kernels/activation.h"
#include "framework/kernels/cross_entropy.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/embedding.h"
#include "framework/kernels/layer_norm.h"
#include "framework/kernels/matmul.h"
#include "framework/kernels/optimizer.h"

namespace longspan {
namespace {

const Device& device() {
  static const Device cpu = Device::cpu();
  return cpu;
}
Cpu cpu() { return Cpu{&device().state()}; }

Tensor filled(const Shape& shape, DType dtype) {
  const Tensor values = Tensor::empty(shape, DType::f32, device());
  const Random random(1);
  std::uint64_t index = 0;
  for (float& value : values.span<float>()) value = random.uniform_at(index++) - 0.5f;
  const Tensor result = Tensor::empty(shape, dtype, device());
  scale(cpu(), 1, values, result);
  return result;
}

double seconds_of(const Matmul& product) {
  const auto start = std::chrono::steady_clock::now();
  matmul(cpu(), product);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Floating-point operations a second of the 1024^3 product in float32: the best of many.
double peak() {
  static const double measured = [] {
    const Shape square = {1024, 1024};
    const Matmul product{.a = filled(square, DType::f32),
                         .b = filled(square, DType::f32),
                         .c = filled(square, DType::f32)};
    double best = seconds_of(product);
    for (int i = 0; i < 100; ++i) best = std::min(best, seconds_of(product));
    return 2.0 * 1024 * 1024 * 1024 / best;
  }();
  return measured;
}

struct MatmulCase {
  std::int64_t m, k, n;
};

void benchmark_matmul(benchmark::State& state, MatmulCase size, DType dtype, bool ta, bool tb) {
  const auto [m, k, n] = size;
  const Matmul product{.a = filled(ta ? Shape{k, m} : Shape{m, k}, dtype),
                       .b = filled(tb ? Shape{n, k} : Shape{k, n}, dtype),
                       // A weight's gradient is added to the float32 gradients.
                       .c = filled({m, n}, ta ? DType::f32 : dtype),
                       .transpose_a = ta,
                       .transpose_b = tb,
                       .accumulate = ta};
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  const double reference = peak();
  double best = seconds_of(product);
  for (auto _ : state) best = std::min(best, seconds_of(product));
  state.counters["GFLOP/s"] = flops / best * 1e-9;
  state.counters["of_peak"] = flops / best / reference;
}

void register_matmuls() {
  constexpr MatmulCase cases[] = {{1024, 1024, 1024},
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
  for (const auto size : cases)
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
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
}

// Runs a kernel that must move `bytes` between memory and the processor.
template <typename F>
void measure(benchmark::State& state, std::int64_t bytes, const F& kernel) {
  kernel();
  for (auto _ : state) kernel();
  state.SetBytesProcessed(state.iterations() * bytes);
}

constexpr std::int64_t rows = 4096, width = 512;

std::int64_t bytes_of(DType dtype, std::int64_t elements) {
  return static_cast<std::int64_t>(size_of(dtype)) * elements;
}

void benchmark_layer_norm(benchmark::State& state, DType dtype) {
  const LayerNorm norm{.x = filled({rows, width}, dtype),
                       .weight = filled({width}, DType::f32),
                       .bias = filled({width}, DType::f32),
                       .y = filled({rows, width}, dtype),
                       .mean = filled({rows}, DType::f32),
                       .inverse_deviation = filled({rows}, DType::f32)};
  measure(state, bytes_of(dtype, 2 * rows * width), [&] { layer_norm(cpu(), norm); });
}

void benchmark_layer_norm_backward(benchmark::State& state, DType dtype) {
  const LayerNormGradient norm{.x = filled({rows, width}, dtype),
                               .weight = filled({width}, DType::f32),
                               .mean = filled({rows}, DType::f32),
                               .inverse_deviation = filled({rows}, DType::f32),
                               .dy = filled({rows, width}, dtype),
                               .dx = filled({rows, width}, dtype),
                               .dweight = filled({width}, DType::f32),
                               .dbias = filled({width}, DType::f32)};
  measure(state, bytes_of(dtype, 3 * rows * width), [&] { layer_norm_backward(cpu(), norm); });
}

void benchmark_dropout(benchmark::State& state, DType dtype) {
  const Dropout drop{.x = filled({1, rows, width}, dtype),
                     .y = filled({1, rows, width}, dtype),
                     .rate = 0.1,
                     .random = Random(1),
                     .placement = {.middle_total = rows, .inner_total = width}};
  measure(state, bytes_of(dtype, 2 * rows * width), [&] { dropout(cpu(), drop); });
}

void benchmark_activation(benchmark::State& state, DType dtype, Activation activation) {
  const Tensor x = filled({rows, 4 * width}, dtype), y = filled({rows, 4 * width}, dtype);
  measure(state, bytes_of(dtype, 8 * rows * width), [&] { activate(cpu(), activation, x, y); });
}

void benchmark_activation_backward(benchmark::State& state, DType dtype, Activation activation) {
  const Tensor x = filled({rows, 4 * width}, dtype), dy = filled({rows, 4 * width}, dtype);
  measure(state, bytes_of(dtype, 12 * rows * width), [&] {
    activate_backward(cpu(), activation, x, dy, dy);
  });
}

Tensor ids_below(std::int64_t count, std::int64_t limit) {
  const Tensor ids = Tensor::empty({count}, DType::i64, device());
  const Random random(2);
  std::uint64_t index = 0;
  for (auto& id : ids.span<std::int64_t>()) id = random.word(index++) % limit;
  return ids;
}

void benchmark_cross_entropy(benchmark::State& state, DType dtype, std::int64_t vocabulary) {
  const std::int64_t tokens = vocabulary < 1000 ? rows : 256;
  const CrossEntropyStatistics entropy{.logits = filled({tokens, vocabulary}, dtype),
                                       .targets = ids_below(tokens, vocabulary),
                                       .valid_width = vocabulary,
                                       .maximum = filled({tokens}, DType::f32),
                                       .sum = filled({tokens}, DType::f32),
                                       .target = filled({tokens}, DType::f32)};
  measure(state, bytes_of(dtype, tokens * vocabulary), [&] {
    cross_entropy_statistics(cpu(), entropy);
  });
}

void benchmark_cross_entropy_backward(benchmark::State& state,
                                      DType dtype,
                                      std::int64_t vocabulary) {
  const std::int64_t tokens = vocabulary < 1000 ? rows : 256;
  const CrossEntropyGradient entropy{.logits = filled({tokens, vocabulary}, dtype),
                                     .targets = ids_below(tokens, vocabulary),
                                     .valid_width = vocabulary,
                                     .log_sum_exp = filled({tokens}, DType::f32),
                                     .scale = filled({tokens}, DType::f32)};
  measure(state, bytes_of(dtype, 2 * tokens * vocabulary), [&] {
    cross_entropy_backward(cpu(), entropy);
  });
}

void benchmark_embedding_scatter(benchmark::State& state, DType dtype, std::int64_t vocabulary) {
  const EmbeddingScatter embedding{.dout = filled({rows, width}, dtype),
                                   .ids = ids_below(rows, vocabulary),
                                   .dtable = filled({vocabulary, width}, DType::f32)};
  measure(state, bytes_of(dtype, rows * width) + bytes_of(DType::f32, 2 * rows * width), [&] {
    embedding_scatter(cpu(), embedding);
  });
}

void benchmark_column_sums(benchmark::State& state, DType dtype) {
  const Tensor x = filled({rows, width}, dtype), out = filled({width}, DType::f32);
  measure(state, bytes_of(dtype, rows * width), [&] { add_column_sums(cpu(), x, out); });
}

void benchmark_sum_of_squares(benchmark::State& state, DType dtype) {
  const Tensor x = filled({8 * rows, width}, dtype), total = filled({1}, DType::f64);
  measure(state, bytes_of(dtype, 8 * rows * width), [&] { sum_of_squares(cpu(), x, total); });
}

void benchmark_adamw(benchmark::State& state, DType compute) {
  const Shape shape = {20 << 20};
  AdamUpdate update{.range = {.weight = filled(shape, DType::f32),
                              .gradient = filled(shape, DType::f32),
                              .learning_rate = 1e-4,
                              .weight_decay = 0.1},
                    .first = Tensor::zeros(shape, DType::f32, device()),
                    .second = Tensor::zeros(shape, DType::f32, device())};
  if (compute != DType::f32) update.range.compute = filled(shape, compute);
  const std::int64_t copy = compute == DType::f32 ? 0 : bytes_of(compute, shape[0]);
  measure(state, bytes_of(DType::f32, 7 * shape[0]) + copy, [&] { adam_update(cpu(), update); });
}

void register_others() {
  const auto named = [](const char* name, DType dtype, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(
        fmt::format("{}/{}", name, name_of(dtype)).c_str(), function, dtype, arguments...)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    named("layer_norm/4096x512", dtype, benchmark_layer_norm);
    named("layer_norm_backward/4096x512", dtype, benchmark_layer_norm_backward);
    named("dropout/4096x512", dtype, benchmark_dropout);
    named("relu/4096x2048", dtype, benchmark_activation, Activation::relu);
    named("gelu/4096x2048", dtype, benchmark_activation, Activation::gelu);
    named("gelu_tanh/4096x2048", dtype, benchmark_activation, Activation::gelu_tanh);
    named("gelu_backward/4096x2048", dtype, benchmark_activation_backward, Activation::gelu);
    named("cross_entropy/4096x256", dtype, benchmark_cross_entropy, std::int64_t{256});
    named("cross_entropy/256x50257", dtype, benchmark_cross_entropy, std::int64_t{50257});
    named("cross_entropy_backward/4096x256",
          dtype,
          benchmark_cross_entropy_backward,
          std::int64_t{256});
    named("cross_entropy_backward/256x50257",
          dtype,
          benchmark_cross_entropy_backward,
          std::int64_t{50257});
    named("embedding_scatter/256", dtype, benchmark_embedding_scatter, std::int64_t{256});
    named("embedding_scatter/50257", dtype, benchmark_embedding_scatter, std::int64_t{50257});
    named("column_sums/4096x512", dtype, benchmark_column_sums);
    named("sum_of_squares/16M", dtype, benchmark_sum_of_squares);
    named("adamw/20M", dtype, benchmark_adamw);
  }
}

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) {
  longspan::register_matmuls();
  longspan::register_others();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("product of 1024x1024x1024 in float32",
                              fmt::format("{:.1f} GFLOP/s", longspan::peak() * 1e-9));
  benchmark::AddCustomContext("bf16", longspan::bf16_is_native() ? "native" : "emulated");
  benchmark::RunSpecifiedBenchmarks();
}
