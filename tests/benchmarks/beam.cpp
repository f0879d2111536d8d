// Beam search with the network of configs/translation.yaml in f32, for comparison with
// tests/benchmarks/peer_pairs.py: output tokens per second.
//   benchmark_beam [INPUTS] [BEAM] [TOKENS]
// Sources have 32 tokens. The weights are initial, so the end token is suppressed until TOKENS.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "framework/decoding/beam_search.h"
#include "framework/modeling/all_gather_logits.h"
#include "framework/nn/attention/kv_cache.h"
#include "tests/benchmarks/support/pairs_model.h"

namespace longspan {
namespace {

constexpr std::int64_t source_tokens = 32;
constexpr std::int64_t begin = 1;
constexpr std::int64_t end = 2;

Tensor random_tokens(std::int64_t rows) {
  const Tensor tokens = Tensor::empty({rows, source_tokens}, DType::i64, Device::cpu());
  for (std::int64_t i = 0; i < tokens.elements(); ++i)
    tokens.data<std::int64_t>()[i] =
        3 + Random(7).word(static_cast<std::uint64_t>(i)) % (bench::pairs_vocabulary - 3);
  return tokens;
}

SearchStep step_of(const Model& model, std::int64_t inputs) {
  const auto kept = std::make_shared<KVCache>();
  return [&model, kept, inputs](std::span<const std::int64_t> tokens,
                                std::span<const std::int64_t> rows) {
    Fields fields;
    fields["tokens"] =
        Tensor::from(tokens, {std::ssize(tokens), 1}, Device::cpu(), MemoryTag::workspace);
    if (kept->positions() == 0) {
      const std::vector<std::int64_t> lengths(static_cast<std::size_t>(inputs), source_tokens);
      fields["source"] = random_tokens(inputs);
      fields["source_length"] = Tensor::from<std::int64_t>(lengths, {inputs}, Device::cpu());
    } else {
      kept->choose(rows);
    }
    const Scores scores = model.scores({.fields = std::move(fields), .only_last = true},
                                       ForwardContext{.random = Random(0), .kv_cache = kept});
    const Tensor logits =
        all_gather_logits(scores.scores.value(), model.readout().part(), Communicator());
    for (std::int64_t row = 0; row < std::ssize(tokens); ++row)
      logits.slice(row, row + 1).span<float>()[end] = -50;
    return logits;
  };
}

void run(std::int64_t count, std::int64_t beam, std::int64_t tokens) {
  const NoGradGuard unrecorded;
  const auto model = bench::pairs_model(ProcessMesh(), bench::pairs_vocabulary, 256);
  std::vector<SearchInput> inputs;
  for (std::int64_t i = 0; i < count; ++i)
    inputs.push_back({.index = i, .first = begin, .longest = tokens});
  const BeamOptions options = {
      .vocabulary = {.end = end, .forbidden = {begin}}, .beam = beam, .alpha = 0.6};
  double best = std::numeric_limits<double>::infinity();
  std::int64_t made = 0;
  constexpr int repetitions = 3;
  for (int i = 0; i < repetitions; ++i) {
    const auto since = std::chrono::steady_clock::now();
    const auto found = beam_search(step_of(*model, count), inputs, options);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - since;
    best = std::min(best, seconds.count());
    made = 0;
    for (const auto& of_input : found) made += std::ssize(of_input.front().tokens);
  }
  fmt::print("beam search, {} inputs, beam {}, {} tokens, {} threads: {:.3f} s, {:.0f} tokens/s\n",
             count,
             beam,
             made / count,
             omp_get_max_threads(),
             best,
             static_cast<double>(made) / best);
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  const auto number = [&](int i, std::int64_t otherwise) {
    return i < count ? std::stoll(words[i]) : otherwise;
  };
  longspan::run(number(1, 32), number(2, 4), number(3, 64));
}
