// Whole training steps: tokens a second and model FLOP utilisation against the matrix-product peak
// of the same run.
//   benchmark_training_step [xl|gpt2] [float32|bf16] [steps]
// Under mpirun the ranks are data ranks, or tensor ranks with "tensor" as the fourth word.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "framework/comm/session.h"
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

Batch random_batch(const Workload& work, const ProcessMesh& mesh, const Device& device, int step) {
  const StreamRange range =
      streams_of_rank(work.batch, mesh.data.rank(), mesh.data.size(), "batch");
  Batch batch;
  const Shape shape = {range.count(), work.segment};
  batch.tokens = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  batch.targets = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  batch.first_stream = range.begin;
  batch.predicted_tokens = shape.elements();
  const Random random = Random(7).child(static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const auto element = static_cast<std::uint64_t>(range.begin * work.segment + i);
    batch.tokens.data<std::int64_t>()[i] = random.word(2 * element) % work.vocabulary;
    batch.targets.data<std::int64_t>()[i] = random.word(2 * element + 1) % work.vocabulary;
  }
  return batch;
}

void run(Session& session, const std::string& name, DType compute, int steps, bool tensor) {
  const Workload work = workload(name);
  const int ranks = session.world().size();
  const ProcessMesh mesh(session.world(),
                         tensor ? MeshShape{.tensor = ranks} : MeshShape{.data = ranks});
  const Device device = Device::cpu();
  Trainer trainer(work.make({.vocabulary = work.vocabulary,
                             .segment = work.segment,
                             .compute = compute,
                             .device = device,
                             .mesh = mesh}),
                  TrainingOptions{},
                  Random(1));
  const double peak =
      session.world().all_reduce(matmul_peak(device, DType::f32, 0.5), Reduction::sum);
  const FlopCount flops =
      trainer.model().flops(work.batch, work.segment, trainer.model().longest_memory());
  double best = 1e30;
  for (int step = 0; step < steps + 2; ++step) {
    const Batch batch = random_batch(work, mesh, device, step);
    const auto begin = std::chrono::steady_clock::now();
    trainer.step(batch);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    // The first steps fill the memory.
    if (step >= 2) best = std::min(best, time.count());
  }
  if (session.world().rank() != 0) return;
  fmt::print(
      "{}; {}; {} {} ranks of {} threads: best step {:.4f} s, {:.0f} tokens/s, {:.1f} GFLOP/s = "
      "{:.3f} of the f32 "
      "peak of {:.1f} GFLOP/s\n",
      work.name,
      name_of(compute),
      ranks,
      tensor ? "tensor" : "data",
      omp_get_max_threads(),
      best,
      static_cast<double>(work.batch * work.segment) / best,
      flops.total() / best / 1e9,
      flops.total() / best / peak,
      peak / 1e9);
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  using namespace longspan;
  Session session;
  const auto word = [&](int i, const char* otherwise) {
    return std::string(count > i ? words[i] : otherwise);
  };
  run(session,
      word(1, "xl"),
      word(2, "float32") == "bf16" ? DType::bf16 : DType::f32,
      std::stoi(word(3, "8")),
      word(4, "data") == "tensor");
}
