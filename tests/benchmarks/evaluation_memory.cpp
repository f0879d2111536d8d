// Evaluation with memory against recomputing a window for each token (Dai et al. 2019, table 9).
//   benchmark_evaluation_memory [attention length ...]
// Both predict with equally many keys per token: memory with `same_length`. Each side has its best
// settings: long segments for memory, windows of several streams in one pass. The weights are
// initial.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "models/transformer_xl.h"

namespace longspan {
namespace {

std::unique_ptr<Model> model() {
  TransformerXlOptions options;
  options.common.layers = 6;
  options.common.width = 512;
  options.common.heads = 8;
  options.common.feed_forward = 2048;
  options.same_length = true;
  return make_transformer_xl(options, {.vocabulary = 256, .segment = 256, .device = Device::cpu()});
}

struct Best {
  double seconds_per_token = std::numeric_limits<double>::infinity();
  std::string how;
};

ModelInput random_segment(const Model& network, std::int64_t streams, std::int64_t time) {
  const Device device = network.parameters().device();
  const Tensor tokens = Tensor::empty({streams, time}, DType::i64, device);
  const Tensor targets = Tensor::empty({streams, time}, DType::i64, device);
  const Random random(1);
  for (std::int64_t i = 0; i < streams * time; ++i) {
    const auto element = static_cast<std::uint64_t>(i);
    tokens.data<std::int64_t>()[i] = random.word(2 * element) % 256;
    targets.data<std::int64_t>()[i] = random.word(2 * element + 1) % 256;
  }
  return {.fields = {{"tokens", tokens}, {"targets", targets}}};
}

// A pass of `evaluate` with a full memory.
Best with_memory(const Model& network, std::int64_t length) {
  Best best;
  const NoGradGuard unrecorded;
  for (const std::int64_t time : {length, 2 * length}) {
    ModelInput segment = random_segment(network, 1, time);
    segment.max_mem_len = length;
    for (int repetition = 0; repetition < 6; ++repetition) {
      const double begin = omp_get_wtime();
      Losses result = network.losses(segment, ForwardContext{});
      const double seconds = (omp_get_wtime() - begin) / static_cast<double>(time);
      segment.carried = std::move(result.carried);
      // Skips the first pass, which has no memory and initializes kernels.
      if (repetition < 2 || seconds >= best.seconds_per_token) continue;
      best = {seconds, fmt::format("segments of {}", time)};
    }
  }
  return best;
}

// A pass of `evaluate_sliding_window` with full windows, which predicts one token per stream.
Best with_windows(const Model& network, std::int64_t length) {
  Best best;
  const NoGradGuard unrecorded;
  for (const std::int64_t streams : {1, 2}) {
    const ModelInput segment = random_segment(network, streams, length);
    const Tensor& all_targets = field_of(segment.fields, "targets");
    for (std::int64_t row = 0; row < streams; ++row) {
      const auto targets = all_targets.slice(row, row + 1).span<std::int64_t>();
      std::ranges::fill(targets.first(targets.size() - 1), ignored_target);
    }
    for (int repetition = 0; repetition < 5; ++repetition) {
      const double begin = omp_get_wtime();
      network.losses(segment, ForwardContext{});
      const double seconds = (omp_get_wtime() - begin) / static_cast<double>(streams);
      if (repetition < 1 || seconds >= best.seconds_per_token) continue;
      best = {seconds, fmt::format("{} windows a pass", streams)};
    }
  }
  return best;
}

double paper_ratio(std::int64_t length) {
  switch (length) {
    case 800:
      return 363;
    case 1800:
      return 773;
    case 2800:
      return 1409;
    case 3800:
      return 1874;
    default:
      return 0;
  }
}

void run(const std::vector<std::int64_t>& lengths) {
  const auto network = model();
  fmt::print("transformer_xl, 6 layers of width 512, 8 heads, float32, {} threads\n",
             omp_get_max_threads());
  for (const std::int64_t length : lengths) {
    const Best memory = with_memory(*network, length);
    const Best windows = with_windows(*network, length);
    fmt::print(
        "attention length {}: {:.3e} s a token with memory ({}), {:.3e} s a token with windows "
        "({}): {:.0f} times",
        length,
        memory.seconds_per_token,
        memory.how,
        windows.seconds_per_token,
        windows.how,
        windows.seconds_per_token / memory.seconds_per_token);
    if (paper_ratio(length) > 0) fmt::print(" (the paper, on a GPU: {:.0f})", paper_ratio(length));
    fmt::print("\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  std::vector<std::int64_t> lengths;
  for (int i = 1; i < count; ++i) lengths.push_back(std::atoll(words[i]));
  if (lengths.empty()) lengths = {800, 1800};
  longspan::run(lengths);
}
