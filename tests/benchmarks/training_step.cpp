// Training steps: tokens per second, and model FLOPs utilization against the peak of matrix
// products in the same run (f32 on a CPU, bf16 on a GPU).
//   benchmark_training_step [--device cuda] [WORKLOAD] [float32|bf16|both] [steps]
//                           [data|each|tensor] [TEXT]
// WORKLOAD: xl, gpt2 or llama for a CPU; gpt2_1024, decoder_1b, xl_large, million_local,
// million_lsh (optionally with the tokens, as million_lsh:2097152), longest_local or longest_lsh
// (as many tokens as fit by the plan) for a GPU. Under mpirun the ranks are data ranks, which share
// the batch (data) or have one each (each), or tensor ranks. Trains on random tokens or on the
// bytes of a text. "both" compares bf16 with float32: time of a step and loss of the last steps.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/gpu.h"
#include "framework/core/input_file.h"
#include "framework/distributed/gpu_collectives.h"
#include "framework/distributed/session.h"
#include "framework/modeling/lm_head.h"
#include "framework/planning/model_flops.h"
#include "framework/planning/plan.h"
#include "framework/trainer/trainer.h"
#include "models/decoder.h"
#include "models/transformer_xl.h"
#include "tests/benchmarks/support/bench_device.h"

namespace longspan {
namespace {

struct Workload {
  std::string name;
  std::int64_t batch;
  std::int64_t segment;
  BackboneFactory body;
  std::int64_t vocabulary;
  MemoryOptions memory = {};
};

// Shape of GPT-2. On GPUs `vocabulary` is padded.
Workload decoder_workload(const std::string& name,
                          const ModelOptions& common,
                          std::int64_t batch,
                          std::int64_t segment,
                          std::int64_t vocabulary) {
  DecoderOptions options;
  options.common = common;
  options.common.dropout = 0;
  options.common.norm = NormPosition::pre;
  options.common.activation = FeedForwardActivation::gelu_tanh;
  options.positions.kind = PositionEmbeddingType::learned;
  options.positions.longest = std::max<std::int64_t>(segment, 1024);
  return {fmt::format("decoder, {}, batch {}, segment {}", name, batch, segment),
          batch,
          segment,
          decoder_body(options),
          vocabulary};
}

// Shape of Llama with 124 million weights.
Workload llama_workload(std::int64_t batch, std::int64_t segment) {
  DecoderOptions options;
  ModelOptions& common = options.common;
  common.layers = 12;
  common.width = 768;
  common.heads = 12;
  common.key_heads = 4;
  common.attention_bias = {};
  common.feed_forward = 2048;
  common.feed_forward_bias = false;
  common.activation = FeedForwardActivation::swiglu;
  common.norm = NormPosition::pre;
  common.norm_kind = NormKind::rms;
  common.tied_embeddings = false;
  common.dropout = 0;
  options.positions.kind = PositionEmbeddingType::rotary;
  return {fmt::format("decoder, Llama's shape 124 M, batch {}, segment {}", batch, segment),
          batch,
          segment,
          decoder_body(options),
          32000};
}

Workload xl_workload(const ModelOptions& common,
                     std::int64_t batch,
                     std::int64_t segment,
                     std::int64_t memory) {
  TransformerXlOptions options;
  options.common = common;
  options.common.dropout = 0.1;
  options.memory = memory;
  return {fmt::format("transformer_xl, {} layers of {}, segment {}, memory {}, batch {}",
                      common.layers,
                      common.width,
                      segment,
                      memory,
                      batch),
          batch,
          segment,
          transformer_xl_body(options),
          256};
}

// One sequence: reversible layers, chunked feed-forward layers and loss.
Workload long_workload(const std::string& kind, std::int64_t tokens) {
  DecoderOptions options;
  options.common.layers = 12;
  options.common.width = 1024;
  options.common.heads = 16;
  options.common.feed_forward = 4096;
  options.common.dropout = 0;
  options.common.residual = ResidualKind::reversible;
  options.common.attention.kinds = {kind};
  options.common.attention.sliding_window = {256};
  const std::int64_t chunks = std::max<std::int64_t>(tokens / 16384, 1);
  return {fmt::format("decoder, reversible, {}, 12 layers of 1024, {} tokens", kind, tokens),
          1,
          tokens,
          decoder_body(options),
          256,
          {.feed_forward_chunks = chunks, .loss_chunks = chunks}};
}

// The longest sequence, a multiple of 65,536 tokens, that fits into free memory by the plan.
Workload longest_workload(const std::string& kind,
                          const Session& session,
                          const Device& device,
                          DType compute) {
  constexpr std::int64_t step = 65536;
  const bool on_gpu = device.on_gpu();
  const double free = memory_share(session.world(), device, session.local_size()).bytes;
  const auto needed = [&](std::int64_t steps) {
    const Workload work = long_workload(kind, steps * step);
    RunConfig settings;
    settings.data.batch = work.batch;
    settings.data.segment = work.segment;
    settings.precision.compute = compute;
    settings.memory = work.memory;
    settings.body = work.body;
    return plan_step(settings, {}, work.vocabulary, on_gpu ? Processor::gpu : Processor::cpu)
        .bytes();
  };
  std::int64_t fits = 1, too_long = 2;
  while (needed(too_long) <= free) too_long = 2 * (fits = too_long);
  while (too_long - fits > 1) {
    const std::int64_t middle = (fits + too_long) / 2;
    (needed(middle) <= free ? fits : too_long) = middle;
  }
  if (session.world().rank() == 0)
    fmt::print("{} by plan: {} tokens need {:.2f} of {:.2f} GB, {} would need {:.2f} GB\n",
               kind,
               fits * step,
               needed(fits) / 1e9,
               free / 1e9,
               (fits + 1) * step,
               needed(fits + 1) / 1e9);
  return long_workload(kind, fits * step);
}

Workload workload(const std::string& name,
                  const Session& session,
                  const Device& device,
                  DType compute) {
  const auto shape = [](std::int64_t layers, std::int64_t width, std::int64_t heads) {
    ModelOptions common;
    common.layers = layers;
    common.width = width;
    common.heads = heads;
    common.feed_forward = 4 * width;
    return common;
  };
  if (name.starts_with("million_")) {
    const std::size_t colon = name.find(':');
    const std::string tokens = colon == std::string::npos ? "1048576" : name.substr(colon + 1);
    return long_workload(name.substr(8, colon == std::string::npos ? colon : colon - 8),
                         std::stoll(tokens));
  }
  if (name.starts_with("longest_"))
    return longest_workload(name.substr(8), session, device, compute);
  if (name == "gpt2") return decoder_workload("GPT-2 124 M", shape(12, 768, 12), 4, 64, 50257);
  if (name == "llama") return llama_workload(2, 256);
  if (name == "gpt2_1024")
    return decoder_workload("GPT-2 124 M", shape(12, 768, 12), 32, 1024, 50304);
  if (name == "decoder_1b")
    return decoder_workload("1.3 B (24 layers of 2048)", shape(24, 2048, 16), 8, 2048, 50304);
  if (name == "xl_large") return xl_workload(shape(12, 1024, 16), 16, 512, 512);
  require(name == "xl", "there is no workload {}", name);
  return xl_workload(shape(6, 512, 8), 8, 256, 256);
}

// A measurement of a workload.
struct Comparison {
  std::string name;  // name of the workload
  Device device = Device::cpu();
  DType compute = DType::f32;
  int steps = 8;
  bool tensor = false;              // ranks are tensor ranks
  bool each = false;                // data ranks with a batch each
  const InputFile* text = nullptr;  // none: random tokens
};

struct Measured {
  double seconds = 0;    // best step; on a GPU: mean of all steps
  double last_loss = 0;  // mean over the last tenth of the steps
};

// Peaks in bytes: reserved by the allocator, and used on the GPU.
struct Memory {
  double reserved = 0;
  double used = 0;

  void update(const Device& device) {
    reserved = std::max(reserved, static_cast<double>(device.allocator().report().reserved));
    if (!device.on_gpu()) return;
    const gpu::MemoryBytes bytes = gpu::memory_bytes(device.state().gpu());
    used = std::max(used, static_cast<double>(bytes.all - bytes.free));
  }
};

// Streams start at equal distances in the text and continue from step to step.
void fill_from_text(const Workload& work, const InputFile& text, int step, const Batch& batch) {
  const std::int64_t distance = text.size() / work.batch;
  require((step + 1) * work.segment < distance, "{} is too short", text.path());
  std::vector<char> bytes(static_cast<std::size_t>(work.segment) + 1);
  auto* const tokens = batch.field("tokens").data<std::int64_t>();
  auto* const targets = batch.field("targets").data<std::int64_t>();
  for (std::int64_t row = 0; row < batch.rows(); ++row) {
    text.copy((batch.first_row + row) * distance + step * work.segment, bytes);
    for (std::int64_t i = 0; i < work.segment; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t element = row * work.segment + i;
      tokens[element] = static_cast<unsigned char>(bytes[at]);
      targets[element] = static_cast<unsigned char>(bytes[at + 1]);
    }
  }
}

Batch make_batch(const Workload& work,
                 const InputFile* text,
                 const ProcessMesh& mesh,
                 const Device& device,
                 int step) {
  const StreamRange range =
      streams_of_rank(work.batch, mesh.data.rank(), mesh.data.size(), "batch");
  const Shape shape = {range.count(), work.segment};
  const Tensor tokens = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  const Tensor targets = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  const Batch batch = {.fields = {{"tokens", tokens}, {"targets", targets}},
                       .counts = {{"tokens", shape.elements()}},
                       .first_row = range.begin,
                       .place = "in a benchmark"};
  if (text != nullptr) {
    fill_from_text(work, *text, step, batch);
    return batch;
  }
  const Random random = Random(7).child(static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const auto element = static_cast<std::uint64_t>(range.begin * work.segment + i);
    tokens.data<std::int64_t>()[i] = random.word(2 * element) % work.vocabulary;
    targets.data<std::int64_t>()[i] = random.word(2 * element + 1) % work.vocabulary;
  }
  return batch;
}

double needed_flops(const Workload& work) {
  RunConfig settings;
  settings.data.batch = work.batch;
  settings.data.segment = work.segment;
  settings.body = work.body;
  return ModelFlops(settings, work.vocabulary).of_full_step({}).value().total();
}

Measured run(Session& session, Workload work, const Comparison& task) {
  const int ranks = session.world().size();
  if (task.each) work.batch *= ranks;
  const ProcessMesh mesh(session.world(),
                         task.tensor ? MeshShape{.tensor = ranks} : MeshShape{.data = ranks});
  const Device& device = task.device;
  const GpuCollectives collectives(GpuTransport::automatic, mesh, device);
  TrainingOptions training;
  training.warmup = 10;
  const ModelBuildOptions setting = {.vocabulary = work.vocabulary,
                                     .segment = work.segment,
                                     .compute = task.compute,
                                     .device = device,
                                     .mesh = mesh,
                                     .memory = work.memory};
  Trainer trainer(std::make_unique<Model>(setting, work.body, lm_head()), training, Random(1));
  const DType peak_dtype = device.on_gpu() ? DType::bf16 : DType::f32;
  const double peak =
      session.world().all_reduce(bench::product_peak(device, peak_dtype), Reduction::sum);
  device.allocator().reset_peak();
  const double flops = needed_flops(work);
  Measured measured;
  Memory memory;
  std::vector<double> seconds;
  const int all_steps = task.steps + 2;
  const int last_steps = std::max(all_steps / 10, 1);
  for (int step = 0; step < all_steps; ++step) {
    const Batch batch = make_batch(work, task.text, mesh, device.host(), step);
    double loss = 0;
    const double time = bench::wall_seconds(device, [&] { loss = trainer.step(batch).loss; });
    memory.update(device);
    // Warm-up: fills the memory.
    if (step >= 2) seconds.push_back(time);
    if (step >= all_steps - last_steps) measured.last_loss += loss / last_steps;
  }
  measured.seconds = device.on_gpu() ? std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                                           static_cast<double>(seconds.size())
                                     : *std::ranges::min_element(seconds);
  if (session.world().rank() != 0) return measured;
  fmt::print(
      "{}; {}; {} {} ranks of {} threads: {} step {:.4f} s, {:.0f} tokens/s, {:.1f} GFLOP/s = "
      "{:.3f} of the {} peak of {:.1f} GFLOP/s; loss {:.4f} after {} steps; peak memory {:.2f} "
      "GB, reserved {:.2f} GB{}\n",
      work.name,
      name_of(task.compute),
      ranks,
      task.tensor ? "tensor" : "data",
      omp_get_max_threads(),
      device.on_gpu() ? "mean" : "best",
      measured.seconds,
      static_cast<double>(work.batch * work.segment) / measured.seconds,
      flops / measured.seconds / 1e9,
      flops / measured.seconds / peak,
      name_of(peak_dtype),
      peak / 1e9,
      measured.last_loss,
      all_steps,
      static_cast<double>(device.allocator().report().total.peak) / 1e9,
      memory.reserved / 1e9,
      device.on_gpu() ? fmt::format(", {:.2f} GB of the GPU used", memory.used / 1e9) : "");
  std::fflush(stdout);
  if (device.on_gpu() && ranks == 1) {
    bench::figure(task.name + "/mfu", flops / measured.seconds / peak);
    bench::figure(task.name + "/GB", memory.used / 1e9);
  }
  return measured;
}

void compare(Session& session, const Workload& work, Comparison task) {
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
  const Device device = bench::device_from(count, words, session.local_rank());
  const auto word = [&](int i, const char* otherwise) {
    return std::string(count > i ? words[i] : otherwise);
  };
  std::optional<InputFile> text;
  if (count > 5) text.emplace(words[5]);
  const std::string compute = word(2, "float32"), ranks = word(4, "data");
  const DType dtype = compute == "bf16" ? DType::bf16 : DType::f32;
  const Workload work = workload(word(1, "xl"), session, device, dtype);
  const Comparison task = {.name = word(1, "xl"),
                           .device = device,
                           .compute = dtype,
                           .steps = std::stoi(word(3, "8")),
                           .tensor = ranks == "tensor",
                           .each = ranks == "each",
                           .text = text ? &*text : nullptr};
  if (compute == "both")
    compare(session, work, task);
  else
    run(session, work, task);
}
