#include "framework/train/plan.h"

#include <algorithm>
#include <cmath>

#include "framework/train/memory_table.h"
#include "framework/train/trainer.h"

namespace longspan {
namespace {

// A batch of this rank's streams, `segment` long; the first one of all, whose memory is empty, has
// `is_first`.
Batch dry_batch(const StreamRange& streams,
                std::int64_t segment,
                const Device& device,
                bool is_first) {
  const Shape shape = {streams.count(), segment};
  Batch batch;
  batch.tokens = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  batch.targets = Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  batch.first_stream = streams.begin;
  batch.epoch_start = is_first;
  batch.predicted_tokens = shape.elements();
  return batch;
}

bool fits(const StepPlan& plan, double memory) { return memory == 0 || plan.bytes() <= memory; }

// The zero levels and sequence parallelism that a layout may need to fit, the cheapest first.
std::vector<std::pair<bool, std::int64_t>> variants_of(const Settings& settings,
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

void sort_by(std::vector<StepPlan>& plans, const auto& measure) {
  std::ranges::stable_sort(plans, std::less<>(), measure);
}

}  // namespace

StepPlan plan_step(const Settings& settings, const MeshShape& mesh, std::int64_t vocabulary) {
  const auto traffic = std::make_shared<Traffic>();
  // The last rank has the larger part where something does not divide; but of the context ranks the
  // last has its time in one piece, which takes fewer copies.
  const int rank = mesh.size() - 1 - (mesh.context - 1) * mesh.tensor;
  const ProcessMesh ranks = dry_mesh(mesh, rank, traffic);
  const Device device = Device::dry();
  const std::int64_t segment = settings.data.segment;
  const StreamRange streams = streams_of_rank(
      settings.data.batch, ranks.data_coordinate(), ranks.data.size(), "data.batch");
  require_parts(settings, mesh);
  Trainer trainer(settings.make_model(model_setting(settings, vocabulary, ranks, device)),
                  settings.training,
                  Random(0),
                  settings.precision);
  // What the loader holds beside the batch in use.
  std::vector<Batch> read_ahead;
  for (std::int64_t i = 0; i <= settings.data.read_ahead; ++i)
    read_ahead.push_back(dry_batch(streams, segment, device, false));
  // One long segment fills the memory.
  const std::int64_t longest = trainer.model().longest_memory();
  if (longest > 0)
    trainer.step(dry_batch(streams, (longest + segment - 1) / segment * segment, device, true));
  device.allocator().trim();
  device.allocator().reset_peak();
  const Batch batch = dry_batch(streams, segment, device, longest == 0);
  // What is kept for reuse grows until every buffer has been used.
  trainer.step(batch);
  traffic->clear();
  const double flops = device.state().flops();
  const double allocated = device.allocator().report().allocated;
  trainer.step(batch);
  const MemoryReport memory = device.allocator().report();
  const FlopCount model = trainer.model().flops(settings.data.batch, segment, longest);
  return {.mesh = mesh,
          .zero = static_cast<int>(settings.parallel.zero),
          .compute = settings.precision.compute,
          .memory = memory,
          .parameters = trainer.model().parameters().global_elements(),
          .tokens = static_cast<double>(settings.data.batch * segment),
          .model_flops = model.total(),
          .flops = device.state().flops() - flops,
          .touched = 3 * (memory.allocated - allocated),
          .traffic = *traffic};
}

StepTime step_time(const StepPlan& plan, const Machine& machine) {
  const auto over = [](double amount, double rate) { return rate > 0 ? amount / rate : 0.0; };
  double sent = 0;
  for (const auto& [name, axis] : plan.traffic) sent += axis.bytes;
  return {.computing = over(plan.flops, machine.flops_of(plan.compute)),
          .memory = over(plan.touched, machine.memory_bandwidth),
          .sending = over(sent, machine.bandwidth)};
}

LayoutPlans plan_layouts(const Settings& settings,
                         int ranks,
                         const Machine& machine,
                         std::int64_t vocabulary) {
  LayoutPlans result;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor != 0) continue;
    for (int context = 1; context <= ranks / tensor; ++context) {
      if (ranks / tensor % context != 0) continue;
      const MeshShape shape = {ranks / tensor / context, context, tensor};
      std::optional<StepPlan> smallest;
      for (const auto& [sequence, zero] : variants_of(settings, shape)) {
        Settings tried = settings;
        tried.parallel.sequence = sequence;
        tried.parallel.zero = zero;
        MeshShape mesh = shape;
        mesh.sequence = sequence;
        try {
          StepPlan plan = plan_step(tried, mesh, vocabulary);
          if (!smallest || plan.bytes() < smallest->bytes()) smallest = std::move(plan);
        } catch (const ConfigurationError&) {
          continue;  // the model cannot be divided so
        }
        if (fits(*smallest, machine.memory)) break;
      }
      if (smallest)
        (fits(*smallest, machine.memory) ? result.fitting : result.too_large)
            .push_back(std::move(*smallest));
    }
  }
  const auto bytes = [](const StepPlan& plan) { return plan.bytes(); };
  sort_by(result.too_large, bytes);
  sort_by(result.fitting, bytes);
  sort_by(result.fitting, [&](const StepPlan& plan) { return step_time(plan, machine).total(); });
  return result;
}

std::vector<Saving> plan_savings(const Reconfigure& reconfigure,
                                 const MeshShape& mesh,
                                 std::int64_t vocabulary) {
  const std::string recompute = "memory.recompute=layer";
  const std::string reversible = "model.residual=reversible";
  const std::string feed_forward = "memory.feed_forward_chunks=16";
  const std::string loss = "memory.loss_chunks=16";
  const std::string accumulation =
      fmt::format("training.accumulation={}", reconfigure({})->data.batch / std::max(mesh.data, 1));
  const std::string narrow = "precision.compute=bf16";
  const std::string zero1 = "parallel.zero=1", zero2 = "parallel.zero=2";
  const std::vector<std::vector<std::string>> tried = {
      {"memory.recompute=attention"},
      {recompute},
      {reversible},
      {feed_forward},
      {loss},
      {accumulation},
      {narrow},
      {zero1},
      {zero2},
      {recompute, feed_forward, loss},
      {reversible, feed_forward, loss},
      {recompute, feed_forward, loss, accumulation},
      {reversible, feed_forward, loss, accumulation},
      {reversible, feed_forward, loss, accumulation, zero2},
      {reversible, feed_forward, loss, accumulation, zero2, narrow},
  };
  std::vector<Saving> result;
  for (const std::vector<std::string>& keys : tried) {
    try {
      result.push_back({keys, plan_step(*reconfigure(keys), mesh, vocabulary)});
    } catch (const ConfigurationError&) {
    }
  }
  std::ranges::stable_sort(
      result, std::less<>(), [](const Saving& saving) { return saving.plan.bytes(); });
  return result;
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  return fmt::format("{:.1f} MB", bytes / 1e6);
}

std::string bytes_by_tag(const StepPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < memory_tags; ++i) {
    const std::int64_t peak = plan.memory.by_tag[i].peak;
    if (peak == 0) continue;
    text += fmt::format("{}{} {}",
                        text.empty() ? "" : ", ",
                        name_of(static_cast<MemoryTag>(i)),
                        bytes_text(static_cast<double>(peak)));
  }
  return text;
}

void require_fits(const Settings& settings,
                  const ProcessMesh& mesh,
                  int local_ranks,
                  std::int64_t vocabulary,
                  const Reconfigure& reconfigure) {
  const StepPlan plan = plan_step(settings, mesh.shape, vocabulary);
  // Ranks of one machine ask at the same time, before any of them takes what it needs.
  const double there = mesh.world.all_reduce(available_memory() / local_ranks, Reduction::minimum);
  if (plan.bytes() <= there) return;
  std::string help;
  for (const Saving& saving : plan_savings(reconfigure, mesh.shape, vocabulary))
    if (saving.plan.bytes() <= there) {
      // The fewest keys that do.
      if (help.empty() || saving.keys.size() == 1)
        help = fmt::format(
            "{} would take {}", fmt::join(saving.keys, " "), bytes_text(saving.plan.bytes()));
      if (saving.keys.size() == 1) break;
    }
  throw ConfigurationError(
      "a rank of this run needs {} ({}), but only {} of memory are free for each of the {} ranks "
      "of a machine; {}",
      bytes_text(plan.bytes()),
      bytes_by_tag(plan),
      bytes_text(there),
      local_ranks,
      help.empty() ? "use more machines, or a smaller data.segment, data.batch or model.width"
                   : help);
}

}  // namespace longspan
