// Seconds of a training step of a small transformer_xl with adaptive spans: all spans at the limit,
// and all at an eighth of it. Alternates, and prints the best step of each in wall time and in
// processor time, which other processes hardly affect.
//   benchmark_span [LIMIT] [STEPS]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <string>

#include "framework/trainer/trainer.h"
#include "models/transformer_xl.h"

namespace longspan {
namespace {

constexpr std::int64_t segment = 512;
constexpr std::int64_t vocabulary = 256;

Trainer trainer_of(std::int64_t limit, double span, const Device& device) {
  TransformerXlOptions options;
  options.common = {
      .layers = 2, .width = 128, .heads = 4, .feed_forward = 512, .dropout = 0, .attention = {}};
  options.memory = limit;
  options.spans = {.kind = SpanKind::adaptive,
                   .form = {.limit = limit, .ramp = 32, .initial = span},
                   .penalty = 0};
  TrainingOptions training;
  training.learning_rate = 0;  // spans do not change
  return Trainer(
      make_transformer_xl(
          options,
          {.vocabulary = vocabulary, .segment = segment, .device = device, .random = Random(1)}),
      training,
      Random(2));
}

Batch batch_of(std::uint64_t step, const Device& device) {
  Batch batch;
  for (const char* const name : {"tokens", "targets"}) {
    const Tensor ids = Tensor::empty({1, segment}, DType::i64, device);
    const Random random = Random(3).child(step).child(name);
    for (std::int64_t i = 0; i < segment; ++i)
      ids.data<std::int64_t>()[i] = static_cast<std::int64_t>(
          random.word(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(vocabulary));
    batch.fields[name] = ids;
  }
  batch.counts = {{"tokens", segment}};
  batch.place = "in a benchmark";
  return batch;
}

constexpr double unknown = std::numeric_limits<double>::infinity();

struct Seconds {
  double clock = unknown;
  double processors = unknown;

  void take_best(const Seconds& other) {
    clock = std::min(clock, other.clock);
    processors = std::min(processors, other.processors);
  }
};

double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Seconds seconds(Trainer& trainer, std::uint64_t step, const Device& device) {
  const Batch batch = batch_of(step, device);
  const auto begin = std::chrono::steady_clock::now();
  const double processors = processor_seconds();
  trainer.step(batch);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  return {.clock = passed.count(), .processors = processor_seconds() - processors};
}

void run(std::int64_t limit, std::uint64_t steps) {
  const Device device = Device::cpu();
  Trainer whole = trainer_of(limit, static_cast<double>(limit), device);
  Trainer settled = trainer_of(limit, static_cast<double>(limit) / 8, device);
  Seconds best_whole, best_settled;
  const auto filling = static_cast<std::uint64_t>(limit / segment + 1);
  for (std::uint64_t step = 0; step < filling + steps; ++step) {
    const Seconds of_whole = seconds(whole, step, device);
    const Seconds of_settled = seconds(settled, step, device);
    if (step < filling) continue;  // until the memory is full
    best_whole.take_best(of_whole);
    best_settled.take_best(of_settled);
  }
  fmt::print(
      "a limit of {} keys, segments of {}, {} threads\n", limit, segment, omp_get_max_threads());
  const auto show = [](const char* spans, const Seconds& best, const Trainer& trainer) {
    fmt::print("spans at {}: {:.4f} s a step, {:.4f} s of the processors, a memory of {} rows\n",
               spans,
               best.clock,
               best.processors,
               trainer.recurrent_state_length());
  };
  show("the limit", best_whole, whole);
  show("an eighth", best_settled, settled);
  fmt::print("{:.2f} times as fast, {:.2f} by the processors' time\n",
             best_whole.clock / best_settled.clock,
             best_whole.processors / best_settled.processors);
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  longspan::run(count > 1 ? std::stoll(words[1]) : 4096,
                count > 2 ? static_cast<std::uint64_t>(std::stoll(words[2])) : 5);
  return 0;
}
