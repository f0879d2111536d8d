#include "framework/planning/plan.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <thread>

#include "framework/autograd/ring_attention.h"
#include "framework/core/format.h"
#include "framework/kernels/attention/tile_plan.h"
#include "framework/rl/vector_env.h"
#include "framework/trainer/trainer.h"

namespace longspan {

namespace {

bool fits(const StepPlan& plan, double memory) { return memory == 0 || plan.bytes() <= memory; }

// Returns the ZeRO stages and sequence parallelism that a layout may need to fit, cheapest first.
std::vector<std::pair<bool, std::int64_t>> variants_of(const RunConfig& settings,
                                                       const MeshShape& mesh) {
  std::vector<std::pair<bool, std::int64_t>> result;
  for (const bool sequence : {false, true}) {
    if (sequence && mesh.tensor == 1) continue;
    if (settings.parallel.sequence && mesh.tensor > 1 && !sequence) continue;
    for (std::int64_t zero = settings.parallel.zero; zero <= 2; ++zero)
      if (zero == settings.parallel.zero || mesh.data * mesh.context > 1)
        result.emplace_back(sequence, zero);
  }
  return result;
}

// Returns the meshes of `ranks` ranks whose segment shards are, or are not, smaller than an
// attention tile.
std::vector<MeshShape> shapes_of(int ranks, std::int64_t segment, bool small_pieces) {
  std::vector<MeshShape> result;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor != 0) continue;
    for (int context = 1; context <= ranks / tensor; ++context) {
      if (ranks / tensor % context != 0) continue;
      const bool small = context > 1 && segment / (2 * context) < attention_tile;
      if (small == small_pieces) result.push_back({ranks / tensor / context, context, tensor});
    }
  }
  return result;
}

// Calls f(i) for every i below count, on all cores of this machine. Each plan uses as many threads
// as the caller.
void on_all_cores(std::size_t count, const std::function<void(std::size_t)>& f) {
  const int threads = omp_get_max_threads();
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
  std::atomic<std::size_t> next = 0;
  std::vector<std::future<void>> workers;
  for (std::size_t worker = 0; worker < std::min(cores, count); ++worker)
    workers.push_back(std::async(std::launch::async, [&] {
      omp_set_num_threads(threads);
      for (std::size_t i = next++; i < count; i = next++) f(i);
    }));
  for (std::future<void>& worker : workers) worker.get();
}

// Returns the cheapest variant of a mesh that fits, or the smallest; nullopt with a reason if the
// model supports none.
std::optional<StepPlan> plan_shape(const RunConfig& settings,
                                   const MeshShape& shape,
                                   const MachineProfile& machine,
                                   const DataSizes& ids,
                                   std::string& refused) {
  std::optional<StepPlan> smallest;
  for (const auto& [sequence, zero] : variants_of(settings, shape)) {
    RunConfig tried = settings;
    tried.parallel.sequence = sequence;
    tried.parallel.zero = zero;
    MeshShape mesh = shape;
    mesh.sequence = sequence;
    try {
      StepPlan plan = plan_step(tried, mesh, ids, machine.processor);
      if (!smallest || plan.bytes() < smallest->bytes()) smallest = std::move(plan);
    } catch (const ConfigurationError& error) {
      refused = error.what();
      continue;
    }
    if (fits(*smallest, machine.memory)) break;
  }
  return smallest;
}

// Runs steps as in training, since the allocator cache of early steps has other block sizes than
// later ones. One long segment fills a memory of many short ones.
template <typename MakeBatch>
void fill_memory(Trainer& trainer, std::int64_t segments, const MakeBatch& make_batch) {
  constexpr std::int64_t most = 4;
  if (segments > most) {
    trainer.step(make_batch(segments, true));
    Allocator& allocator = trainer.model().parameters().device().allocator();
    allocator.trim();
    allocator.reset_peak();
    return;
  }
  for (std::int64_t i = 0; i < segments; ++i) trainer.step(make_batch(1, i == 0));
}

}  // namespace

std::vector<BatchShape> largest_batches(const RunConfig& settings,
                                        const ProcessMesh& mesh,
                                        const DataSizes& ids) {
  const TaskSpec& kind = settings.task_kind();
  if (kind.reads_streams) return {};
  const std::int64_t each = mesh.data.size() * settings.training.accumulation;
  if (!ids.batches.empty()) return largest_of(ids.batches, each);
  return largest_of(shapes_of_budget(settings.data.buckets, kind.has_pairs, each), each);
}

MetaBatch usual_batch(const RunConfig& settings,
                      const ProcessMesh& mesh,
                      const Device& host,
                      const DataSizes& ids) {
  MetaBatch wanted = {
      .data = settings.data, .mesh = mesh, .host = host, .parts = settings.training.accumulation};
  if (!ids.batches.empty()) wanted.shape = largest_batches(settings, mesh, ids).front();
  return wanted;
}

namespace {

// Plans a step over segments of `segment` tokens with a model for those of the configuration.
StepPlan plan_segments(const RunConfig& settings,
                       std::int64_t segment,
                       const MeshShape& mesh,
                       const DataSizes& ids,
                       Processor processor) {
  const auto traffic = std::make_shared<Traffic>();
  // The last rank has the larger shard of uneven divisions. Among context ranks the last one has
  // contiguous time, which needs fewer copies.
  const int rank = mesh.size() - 1 - (mesh.context - 1) * mesh.tensor;
  const ProcessMesh ranks = fake_mesh(mesh, rank, traffic);
  const Device device = Device::meta(processor), host = device.host();
  RunConfig read = settings;
  read.data.segment = segment;
  MetaBatch usual = usual_batch(read, ranks, host, ids);
  const auto meta_batch = [&](std::int64_t segments, bool fresh) {
    usual.segments = segments;
    usual.resets_state = fresh;
    return settings.task_kind().meta_batch(usual);
  };
  Trainer trainer(settings.make_model(model_setting(settings, ids, ranks, device)),
                  settings.training,
                  Random(0),
                  settings.precision);
  // Batches that the loader prefetches.
  std::vector<Batch> read_ahead;
  for (std::int64_t i = 0; i <= settings.data.read_ahead; ++i)
    read_ahead.push_back(meta_batch(1, false));
  const std::int64_t longest = trainer.model().body().max_mem_len();
  const bool is_stateful = trainer.model().body().is_stateful();
  fill_memory(trainer, is_stateful ? 1 : (longest + segment - 1) / segment, meta_batch);
  // The trainer here has the recurrent state of one minibatch, before and after a step. A real run
  // has two copies for all environments.
  std::vector<RecurrentState> acting;
  if (settings.task_kind().is_policy) {
    acting = meta_rollout(trainer.model(), usual);
    if (settings.data.rollouts.minibatches == 1) acting.clear();
  }
  // Cached blocks of one batch are released when another batch needs the memory.
  std::int64_t reserved = 0;
  for (const BatchShape& shape : largest_batches(settings, ranks, ids)) {
    MetaBatch large = usual;
    large.shape = shape;
    trainer.step(settings.task_kind().meta_batch(large));
    reserved = std::max(reserved, device.allocator().report().reserved);
    device.allocator().trim();
  }
  const Batch batch = meta_batch(1, longest == 0 && !is_stateful);
  const bool measures = settings.memory.reconstruction_check_every > 0;
  // The allocator cache grows until every buffer has been used.
  trainer.step(batch, {.measure = measures});
  traffic->clear();
  const double flops = device.state().flops();
  const auto all_allocated = [&] {
    return device.allocator().report().allocated +
           device.state().get_or_create<AllocatedAgain>().bytes;
  };
  const double allocated = all_allocated();
  trainer.step(batch, {.measure = measures});
  MemoryReport memory = device.allocator().report();
  memory.reserved = std::max(memory.reserved, reserved);
  return {.mesh = mesh,
          .processor = processor,
          .zero = static_cast<int>(settings.parallel.zero),
          .compute = settings.precision.compute,
          .memory = memory,
          .parameters = trainer.model().parameters().global_elements(),
          .tokens = static_cast<double>(batch.count("tokens") * mesh.data),
          .flops = device.state().flops() - flops,
          .touched = 3 * (all_allocated() - allocated),
          .traffic = *traffic};
}

}  // namespace

StepPlan plan_step(const RunConfig& settings,
                   const MeshShape& mesh,
                   const DataSizes& ids,
                   Processor processor) {
  const std::int64_t segment = settings.data.segment;
  const std::int64_t chunk = settings.memory.bptt_chunk_length.value_or(segment);
  if (settings.task_kind().reads_streams && segment > ChunkedPlans::most_planned * chunk) {
    require_divisible(settings, mesh);
    const ChunkedPlans plans([&](std::int64_t chunks) {
      return plan_segments(settings, chunks * chunk, mesh, ids, processor);
    });
    if (plans.is_confirmed())
      return plans.at(static_cast<double>(segment) / static_cast<double>(chunk));
  }
  return plan_every_chunk(settings, mesh, ids, processor);
}

StepPlan plan_every_chunk(const RunConfig& settings,
                          const MeshShape& mesh,
                          const DataSizes& ids,
                          Processor processor) {
  require_divisible(settings, mesh);
  return plan_segments(settings, settings.data.segment, mesh, ids, processor);
}

StepTime step_time(const StepPlan& plan, const MachineProfile& machine) {
  const auto over = [](double amount, double rate) { return rate > 0 ? amount / rate : 0.0; };
  double sent = 0;
  for (const auto& [name, axis] : plan.traffic) sent += axis.bytes;
  return {.computing = over(plan.flops, machine.flops_of(plan.compute)),
          .memory = over(plan.touched, machine.memory_bandwidth),
          .sending = over(sent, machine.bandwidth)};
}

LayoutPlans plan_layouts(const RunConfig& settings,
                         int ranks,
                         const MachineProfile& machine,
                         const DataSizes& ids) {
  LayoutPlans result;
  // Shards smaller than a tile are inefficient, so they are tried only if nothing else fits.
  for (const bool small_pieces : {false, true}) {
    const std::vector<MeshShape> shapes = shapes_of(ranks, settings.longest(), small_pieces);
    std::vector<std::optional<StepPlan>> plans(shapes.size());
    std::vector<std::string> refused(shapes.size());
    on_all_cores(shapes.size(), [&](std::size_t i) {
      plans[i] = plan_shape(settings, shapes[i], machine, ids, refused[i]);
    });
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (!refused[i].empty()) result.refused = refused[i];
      if (plans[i])
        (fits(*plans[i], machine.memory) ? result.fitting : result.too_large)
            .push_back(std::move(*plans[i]));
    }
    if (!result.fitting.empty() || !result.too_large.empty()) break;
  }
  const auto bytes = [](const StepPlan& plan) { return plan.bytes(); };
  std::ranges::stable_sort(result.too_large, std::less<>(), bytes);
  std::ranges::stable_sort(result.fitting, std::less<>(), bytes);
  std::ranges::stable_sort(result.fitting, std::less<>(), [&](const StepPlan& plan) {
    return step_time(plan, machine).total();
  });
  return result;
}

std::string bytes_by_tag(const StepPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < memory_tags; ++i) {
    const std::int64_t peak = plan.memory.by_tag[i].peak;
    if (peak == 0) continue;
    text += fmt::format("{}{} {}",
                        text.empty() ? "" : ", ",
                        name_of(static_cast<MemoryTag>(i)),
                        format_bytes(static_cast<double>(peak)));
  }
  return text;
}

std::vector<RecurrentState> meta_rollout(const Model& model, const MetaBatch& wanted) {
  const NoGradGuard unrecorded;
  const std::int64_t rows = streams_of_rank(wanted.data.batch,
                                            wanted.mesh.data_coordinate(),
                                            wanted.mesh.data.size(),
                                            "data.global_batch_size")
                                .count();
  const auto fields = [&](std::int64_t time) -> Fields {
    const auto made = [&](const Shape& shape, DType dtype) {
      return Tensor::empty(shape, dtype, wanted.host, MemoryTag::workspace);
    };
    return {{"tokens", made({rows, time}, DType::i64)},
            {"previous_action", made({rows, time}, DType::i64)},
            {"reward", made({rows, time}, DType::f64)},
            {"earlier", made({rows}, DType::i64)}};
  };
  // A few long segments fill a memory of many short ones.
  constexpr std::int64_t most = 4;
  const std::int64_t segment = wanted.data.segment, longest = model.body().max_mem_len();
  const std::int64_t at_once = std::max(segment, (longest + most - 1) / most);
  RecurrentState begun;
  while (begun.length() < longest)
    begun = model
                .scores({.fields = fields(at_once), .carried = begun, .max_mem_len = longest},
                        ForwardContext())
                .carried;
  model.parameters().device().allocator().trim();
  model.parameters().device().allocator().reset_peak();
  IncrementalReader reader(model, segment);
  reader.begin(begun);
  for (std::int64_t step = 0; step < segment; ++step) reader.read(fields(1));
  return {begun, reader.carried()};
}

}  // namespace longspan
