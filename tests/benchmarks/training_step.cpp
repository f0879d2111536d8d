// Whole training steps: tokens a second and model FLOP utilisation against the matrix-product peak
// of the same run.
//   benchmark_training_step [xl|gpt2] [float32|bf16|both] [steps] [data|tensor] [TEXT]
// Under mpirun the ranks are data ranks, or tensor ranks. Trains on random tokens, or on the bytes
// of a text. "both" compares bf16 with float32: the time of a step and the loss of the last steps.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "framework/comm/session.h"
#include "framework/data/mapped_file.h"
#include "framework/train/peak.h"
#include "framework/train/trainer.h"
#include "models/decoder.h"
#include "models/transformer_xl.h"

namespace longspan {
namespace {

struct Workload {
  std::string name;
  std::int64_t batch;
  std::int64_t segment;
  std::function<std::unique_ptr<Model>(const ModelSetting&)> make;
  std::int64_t vocabulary;
};

Workload workload(const std::string& name) {
  if (name == "gpt2") {
    DecoderOptions options;
    options.common.layers = 12;
    options.common.width = 768;
    options.common.heads = 12;
    options.common.dropout = 0;
    options.positions = DecoderOptions::Positions::learned;
    options.longest = 1024;
    return {"decoder, GPT-2 124 M, batch 4, segment 64",
            4,
            64,
            [options](const ModelSetting& setting) { return make_decoder(options, setting); },
            50257};
  }
  TransformerXlOptions options;
  options.common.layers = 6;
  options.common.width = 512;
  options.common.heads = 8;
  options.common.feed_forward = 2048;
  options.common.dropout = 0.1;
  options.memory = 256;
  return {"transformer_xl, 6 layers of 512, segment 256, memory 256, batch 8",
          8,
          256,
          [options](const ModelSetting& setting) { return make_transformer_xl(options, setting); },
          256};
}

// What is done with a workload.
struct Task {
  DType compute = DType::f32;
  int steps = 8;
  bool tensor = false;               // ranks are tensor ranks
  const MappedFile* text = nullptr;  // none: random tokens
};

struct Measured {
  double seconds = 0;    // of the best step
  double last_loss = 0;  // mean over the last tenth of the steps
};

// Streams begin at equal distances in the text, and each reads on from step to step.
void fill_from_text(const Workload& work, const MappedFile& text, int step, const Batch& batch) {
  const std::int64_t distance = text.size() / work.batch;
  require((step + 1) * work.segment < distance, "{} is too short", text.path());
  std::vector<char> bytes(static_cast<std::size_t>(work.segment) + 1);
  for (std::int64_t row = 0; row < batch.tokens.shape()[0]; ++row) {
    text.copy((batch.first_stream + row) * distance + step * work.segment, bytes);
    for (std::int64_t i = 0; i < work.segment; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t element = row * work.segment + i;
      batch.tokens.data<std::int64_t>()[element] = static_cast<unsigned char>(bytes[at]);
      batch.targets.data<std::int64_t>()[element] = static_cast<unsigned char>(bytes[at + 1]);
    }
  }
}

Batch make_batch(const Workload& work,
                 const MappedFile* text,
                 const ProcessMesh& mesh,
                 const Device& device,
                 int step) {
  const StreamRange range =
      streams_of_rank(work.batch, mesh.data.rank(), mesh.data.size(), "batch");
  Batch batch;
  const Shape shape = {range.count(), work.segment};
  batch.tokens = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  batch.targets = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  batch.first_stream = range.begin;
  batch.predicted_tokens = shape.elements();
  if (text != nullptr) {
    fill_from_text(work, *text, step, batch);
    return batch;
  }
  const Random random = Random(7).child(static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const auto element = static_cast<std::uint64_t>(range.begin * work.segment + i);
    batch.tokens.data<std::int64_t>()[i] = random.word(2 * element) % work.vocabulary;
    batch.targets.data<std::int64_t>()[i] = random.word(2 * element + 1) % work.vocabulary;
  }
  return batch;
}

Measured run(Session& session, const Workload& work, const Task& task) {
  const int ranks = session.world().size();
  const ProcessMesh mesh(session.world(),
                         task.tensor ? MeshShape{.tensor = ranks} : MeshShape{.data = ranks});
  const Device device = Device::cpu();
  TrainingOptions training;
  training.warmup = 10;
  Trainer trainer(work.make({.vocabulary = work.vocabulary,
                             .segment = work.segment,
                             .compute = task.compute,
                             .device = device,
                             .mesh = mesh}),
                  training,
                  Random(1));
  const double peak =
      session.world().all_reduce(matmul_peak(device, DType::f32, 0.5), Reduction::sum);
  const FlopCount flops =
      trainer.model().flops(work.batch, work.segment, trainer.model().longest_memory());
  Measured measured = {.seconds = 1e30};
  const int all_steps = task.steps + 2;
  const int last_steps = std::max(all_steps / 10, 1);
  for (int step = 0; step < all_steps; ++step) {
    const Batch batch = make_batch(work, task.text, mesh, device, step);
    const auto begin = std::chrono::steady_clock::now();
    const double loss = trainer.step(batch).loss;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    // The first steps fill the memory.
    if (step >= 2) measured.seconds = std::min(measured.seconds, time.count());
    if (step >= all_steps - last_steps) measured.last_loss += loss / last_steps;
  }
  if (session.world().rank() != 0) return measured;
  fmt::print(
      "{}; {}; {} {} ranks of {} threads: best step {:.4f} s, {:.0f} tokens/s, {:.1f} GFLOP/s = "
      "{:.3f} of the f32 peak of {:.1f} GFLOP/s; loss {:.4f} after {} steps\n",
      work.name,
      name_of(task.compute),
      ranks,
      task.tensor ? "tensor" : "data",
      omp_get_max_threads(),
      measured.seconds,
      static_cast<double>(work.batch * work.segment) / measured.seconds,
      flops.total() / measured.seconds / 1e9,
      flops.total() / measured.seconds / peak,
      peak / 1e9,
      measured.last_loss,
      all_steps);
  std::fflush(stdout);
  return measured;
}

void compare(Session& session, const Workload& work, Task task) {
  task.compute = DType::f32;
  const Measured wide = run(session, work, task);
  task.compute = DType::bf16;
  const Measured narrow = run(session, work, task);
  if (session.world().rank() != 0) return;
  fmt::print("bf16 against f32: {:.2f} times as fast, the last losses differ by {:.2f}%\n",
             wide.seconds / narrow.seconds,
             100 * std::abs(narrow.last_loss / wide.last_loss - 1));
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  using namespace longspan;
  Session session;
  const auto word = [&](int i, const char* otherwise) {
    return std::string(count > i ? words[i] : otherwise);
  };
  std::optional<MappedFile> text;
  if (count > 5) text.emplace(words[5]);
  const Workload work = workload(word(1, "xl"));
  const std::string compute = word(2, "float32");
  const Task task = {.compute = compute == "bf16" ? DType::bf16 : DType::f32,
                     .steps = std::stoi(word(3, "8")),
                     .tensor = word(4, "data") == "tensor",
                     .text = text ? &*text : nullptr};
  if (compute == "both")
    compare(session, work, task);
  else
    run(session, work, task);
}
