#include "framework/train/memory_advice.h"

#include <algorithm>

#include "framework/comm/gpu_collectives.h"
#include "framework/core/byte_text.h"

namespace longspan {

std::string needs(const StepPlan& plan) {
  return fmt::format(
      "a rank of this run needs {} ({})", byte_text(plan.bytes()), bytes_by_tag(plan));
}

std::string memory_advice(const StepPlan& plan,
                          double there,
                          std::int64_t vocabulary,
                          const Reconfigure& reconfigure) {
  const std::vector<Saving> savings = plan_savings(reconfigure, plan, vocabulary);
  const auto bytes = [](const Saving& saving) { return saving.plan.bytes(); };
  auto chosen = std::ranges::find_if(
      savings, [&](double needed) { return needed <= there; }, bytes);
  const bool fits = chosen != savings.end();
  if (!fits) chosen = std::ranges::min_element(savings, std::less<>(), bytes);
  std::string help = "use more machines, or a smaller data.segment, data.batch or model.width";
  if (chosen != savings.end() && chosen->plan.bytes() < plan.bytes()) {
    const std::string saving = fmt::format(
        "with {} it needs {}", fmt::join(chosen->keys, " "), byte_text(chosen->plan.bytes()));
    help = fits ? saving : saving + ", the least; " + help;
  }
  return help;
}

void require_fits(const Settings& settings,
                  const ProcessMesh& mesh,
                  const Device& device,
                  int local_ranks,
                  std::int64_t vocabulary,
                  const Reconfigure& reconfigure) {
  const bool on_gpu = device.on_gpu();
  const StepPlan plan =
      plan_step(settings, mesh.shape, vocabulary, on_gpu ? Processor::gpu : Processor::cpu);
  // Ranks of one machine ask at the same time, before any of them takes what it needs.
  const int sharing = on_gpu ? ranks_of_gpu(mesh.world, device) : local_ranks;
  const double there = mesh.world.all_reduce(
      on_gpu ? memory_of_gpu(device.state().gpu(), sharing) : memory_of_rank(sharing),
      Reduction::minimum);
  if (there == 0 || plan.bytes() <= there) return;
  throw ConfigurationError(
      "{}, but only {} of {}memory are free{}; {}",
      needs(plan),
      byte_text(there),
      on_gpu ? "GPU " : "",
      sharing > 1
          ? fmt::format(" for each of the {} ranks of a {}", sharing, on_gpu ? "GPU" : "machine")
          : "",
      memory_advice(plan, there, vocabulary, reconfigure));
}

std::string advice_after(const OutOfMemory& error,
                         const Settings& settings,
                         int ranks,
                         const Reconfigure& reconfigure) try {
  if (error.backing() == Backing::pinned) return "";  // no key of a step is about it
  const std::int64_t vocabulary = make_tokenizer(settings.data).vocabulary();
  const StepPlan plan =
      plan_step(settings,
                mesh_shape(settings.parallel, ranks),
                vocabulary,
                error.backing() == Backing::gpu ? Processor::gpu : Processor::cpu);
  return fmt::format("; by the plan {}; {}",
                     needs(plan),
                     memory_advice(plan, error.held(), vocabulary, reconfigure));
} catch (const std::exception&) {
  return "";  // what went wrong is to be said, though no plan can be made
}

}  // namespace longspan
