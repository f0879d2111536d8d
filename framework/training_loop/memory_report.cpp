#include "framework/training_loop/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "framework/core/format.h"
#include "framework/planning/machine.h"
#include "framework/training_loop/progress.h"

namespace longspan {

namespace {

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t* const wanted =
        word == "VmHWM:" ? &memory.peak : (word == "VmRSS:" ? &memory.now : nullptr);
    if (wanted == nullptr) continue;
    status >> *wanted;
    *wanted *= 1024;
  }
  return memory;
}

std::string memory_text(const MemoryUsage& account) {
  const MemoryReport& report = account.report;
  std::string text;
  for (std::size_t i = 0; i < memory_tags; ++i)
    text += fmt::format(
        "{} {:.1f} MB, ", name_of(static_cast<MemoryTag>(i)), megabytes(report.by_tag[i].peak));
  return text + fmt::format("peak {:.1f} MB, cached {:.1f} MB, program {:.1f} MB",
                            megabytes(report.total.peak),
                            megabytes(report.reserved - report.total.peak),
                            megabytes(account.program));
}

void log_memory(const Log& log, const MemoryUsage& account) {
  const std::int64_t peak = process_memory().peak;
  log.info("Peak resident memory of rank 0: {}", format_bytes(static_cast<double>(peak)));
  log.note("Accounted for: {:.1f} MB ({})", megabytes(account.known()), memory_text(account));
}

namespace {

// Planned memory of a rank. With a refusal it is a lower bound, as the plan is incomplete.
struct PlannedMemory {
  StepPlan plan;
  std::string refusal = {};
};

PlannedMemory planned_memory(const RunConfig& settings,
                             const MeshShape& mesh,
                             const DataSizes& ids,
                             const Device& device) try {
  return {plan_step(settings, mesh, ids, device.processor())};
} catch (const OutOfAddressSpace& error) {
  StepPlan plan;
  plan.mesh = mesh;
  plan.processor = device.processor();
  plan.memory = error.report();
  return {std::move(plan), error.what()};
}

std::string needs(const StepPlan& plan, const char* at_least) {
  return fmt::format(
      "a rank requires {}{} ({})", at_least, format_bytes(plan.bytes()), bytes_by_tag(plan));
}

}  // namespace

std::string needs(const StepPlan& plan) { return needs(plan, ""); }

std::string memory_advice(const StepPlan& plan,
                          double there,
                          const DataSizes& ids,
                          const Reconfigure& reconfigure) {
  const std::vector<MemorySaving> savings = plan_savings(reconfigure, plan, there, ids);
  const auto bytes = [](const MemorySaving& saving) { return saving.plan.bytes(); };
  auto chosen = std::ranges::find_if(
      savings, [&](double needed) { return needed <= there; }, bytes);
  const bool fits = chosen != savings.end();
  if (!fits) chosen = std::ranges::min_element(savings, std::less<>(), bytes);
  const std::shared_ptr<const RunConfig> settings = reconfigure({});
  std::string help = fmt::format("use more machines, or a smaller {} or model.hidden_size",
                                 settings->task_kind().words(settings->data).keys);
  // The bytes of an incomplete plan are a lower bound only.
  if (chosen != savings.end() && (fits || chosen->plan.bytes() < plan.bytes())) {
    const std::string saving = fmt::format(
        "with {} it requires {}", fmt::join(chosen->keys, " "), format_bytes(chosen->plan.bytes()));
    help = fits ? saving : saving + ", the minimum; " + help;
  }
  return help;
}

void check_memory_fits(const RunConfig& settings,
                       const ProcessMesh& mesh,
                       const Device& device,
                       int local_ranks,
                       const DataSizes& ids,
                       const Reconfigure& reconfigure) {
  const bool on_gpu = device.on_gpu();
  const PlannedMemory planned = planned_memory(settings, mesh.shape, ids, device);
  const StepPlan& plan = planned.plan;
  // All ranks query at the same time, before any of them allocates.
  const MemoryShare there = memory_share(mesh.world, device, local_ranks);
  const bool whole = planned.refusal.empty();
  if (there.bytes == 0) throw_if_error(planned.refusal);
  if (whole && (there.bytes == 0 || plan.bytes() <= there.bytes)) return;
  throw ConfigurationError("{}, but only {} of {}memory free{}; {}",
                           needs(plan, whole ? "" : "more than "),
                           format_bytes(there.bytes),
                           on_gpu ? "GPU " : "",
                           there.ranks > 1 ? fmt::format(" for each of the {} ranks of a {}",
                                                         there.ranks,
                                                         on_gpu ? "GPU" : "machine")
                                           : "",
                           memory_advice(plan, there.bytes, ids, reconfigure));
}

std::string advice_after(const OutOfMemory& error,
                         const RunConfig& settings,
                         int ranks,
                         const Reconfigure& reconfigure) try {
  if (error.backing() == AllocatorKind::pinned) return "";  // no key of a step affects it
  constexpr double max_seconds = 10;                        // signals are no longer handled
  const DataSizes ids = planned_ids(settings.task_kind(),
                                    settings.data,
                                    static_cast<std::uint64_t>(settings.run.seed),
                                    with_time_limit(max_seconds));
  const StepPlan plan =
      plan_step(settings,
                mesh_shape(settings.parallel, ranks),
                ids,
                error.backing() == AllocatorKind::gpu ? Processor::gpu : Processor::cpu);
  return fmt::format(
      "; by the plan, {}; {}", needs(plan), memory_advice(plan, error.held(), ids, reconfigure));
} catch (const std::exception&) {
  return "";  // the original error must be reported even if no plan can be computed
}

}  // namespace longspan
