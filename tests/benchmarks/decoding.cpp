// Beam search with a KV cache against beam search that recomputes all positions for each token:
// seconds, tokens per second and the ratio. Both must return equal results.
//   benchmark_decoding [TOKENS] [BEAM] [INPUTS]
// A causal stack in f32: 4 layers, width 256, 4 heads, feed-forward 1024, vocabulary 8,000. The
// weights are initial, so the end token is suppressed until the maximum length.
#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>

#include "framework/decoding/beam_search.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/positions.h"

namespace longspan {
namespace {

constexpr std::int64_t width = 256;
constexpr std::int64_t heads = 4;
constexpr std::int64_t vocabulary = 8000;
const Initializer initial = Initializer::normal(0.08);

struct BenchLayer {
  Norm norm;
  MultiHeadAttention attention;
  Norm norm_again;
  FeedForward feed_forward;

  explicit BenchLayer(const Scope& scope)
      : norm(scope.child("norm"), width),
        attention(scope.child("attention"),
                  {.width = width, .heads = heads, .dim = width / heads, .initial = initial},
                  std::make_unique<SoftmaxAttention>(0)),
        norm_again(scope.child("norm_again"), width),
        feed_forward(scope.child("feed_forward"),
                     {.width = width, .hidden = 4 * width, .initial = initial}) {}

  Variable operator()(const Variable& x, const ForwardContext& pass) const {
    const Variable y = add(x, attention(norm(x), Variable(), {}, pass));
    return add(y, feed_forward(norm_again(y), pass));
  }
};

struct BenchModel {
  Parameters parameters{Device::cpu(), DType::f32, ProcessMesh()};
  TokenEmbedding embedding{Scope(parameters).child("embedding"), vocabulary, width, initial};
  std::vector<BenchLayer> layers;
  LMHead output{Scope(parameters).child("output"),
                {.vocabulary = vocabulary, .width = width, .initial = initial}};

  BenchModel() {
    for (std::uint64_t i = 0; i < 4; ++i)
      layers.emplace_back(Scope(parameters).child("layer" + std::to_string(i)));
    parameters.allocate(Random(1));
  }

  // Logits after the last of `tokens` [rows, time], which have positions from `first`.
  Tensor logits(const Tensor& tokens,
                std::int64_t first,
                const std::shared_ptr<KVCache>& kept) const {
    const std::int64_t time = tokens.shape()[1];
    const ForwardContext pass = {.time = replicate_sequence(time), .kv_cache = kept};
    const Tensor table =
        sinusoids(SinusoidLayout::interleaved, first, time, width, -1, DType::f32, Device::cpu());
    Variable x = scale_and_add_positions(embedding(tokens, 1, pass.time), 1, Variable(table));
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, pass.child(i));
    const Tensor result = output.logits(x, pass.time, true).value();
    const std::int64_t rows = tokens.shape()[0];
    // Suppresses the end token.
    for (std::int64_t row = 0; row < rows; ++row) result.data<float>()[row * vocabulary] = -50;
    return result.reshape({rows, vocabulary});
  }
};

SearchStep kept_step(const BenchModel& model) {
  const auto kept = std::make_shared<KVCache>();
  return [&model, kept](std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows) {
    kept->choose(rows);
    const Shape shape = {static_cast<std::int64_t>(tokens.size()), 1};
    const Tensor now = Tensor::from<std::int64_t>(tokens, shape, Device::cpu());
    const Tensor logits = model.logits(now, kept->positions(), kept);
    kept->advance(1);
    return logits;
  };
}

SearchStep whole_step(const BenchModel& model, std::size_t inputs) {
  const auto read = std::make_shared<std::vector<std::vector<std::int64_t>>>(inputs);
  return [&model, read](std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows) {
    std::vector<std::vector<std::int64_t>> next;
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      next.push_back((*read)[static_cast<std::size_t>(rows[i])]);
      next.back().push_back(tokens[i]);
      all.insert(all.end(), next.back().begin(), next.back().end());
    }
    *read = std::move(next);
    const auto count = static_cast<std::int64_t>(tokens.size());
    const Shape shape = {count, static_cast<std::int64_t>(all.size()) / count};
    return model.logits(Tensor::from<std::int64_t>(all, shape, Device::cpu()), 0, {});
  };
}

struct Timed {
  double seconds = std::numeric_limits<double>::infinity();  // best
  std::vector<std::vector<Hypothesis>> results;
};

template <typename MakeStep>
Timed best_of(int repetitions,
              std::span<const SearchInput> inputs,
              std::int64_t beam,
              const MakeStep& make) {
  Timed result;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    result.results =
        beam_search(make(), inputs, {.vocabulary = {.end = 0}, .beam = beam, .n_best = beam});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    result.seconds = std::min(result.seconds, seconds.count());
  }
  return result;
}

void run(std::int64_t tokens, std::int64_t beam, std::int64_t count) {
  const NoGradGuard unrecorded;
  const BenchModel model;
  std::vector<SearchInput> inputs;
  for (std::int64_t i = 0; i < count; ++i)
    inputs.push_back({.index = i, .first = 1 + i, .longest = tokens});
  const Timed kept = best_of(3, inputs, beam, [&] { return kept_step(model); });
  const Timed whole = best_of(1, inputs, beam, [&] { return whole_step(model, inputs.size()); });
  int same = 0;
  int all = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t n = 0; n < kept.results[i].size(); ++n, ++all)
      same += kept.results[i][n].tokens == whole.results[i][n].tokens;
  fmt::print(
      "{} tokens, beam {}, {} inputs, {} threads\n", tokens, beam, count, omp_get_max_threads());
  fmt::print("  kept keys           {:8.3f} s {:8.0f} tokens/s\n",
             kept.seconds,
             static_cast<double>(tokens * count) / kept.seconds);
  fmt::print("  reading all again   {:8.3f} s {:8.0f} tokens/s\n",
             whole.seconds,
             static_cast<double>(tokens * count) / whole.seconds);
  fmt::print("  ratio {:.1f}; {} of {} hypotheses are the same\n",
             whole.seconds / kept.seconds,
             same,
             all);
}

}  // namespace
}  // namespace longspan

int main(int count, char** arguments) {
  const auto number = [&](int i, std::int64_t otherwise) {
    return i < count ? std::stoll(arguments[i]) : otherwise;
  };
  longspan::run(number(1, 64), number(2, 4), number(3, 8));
}
