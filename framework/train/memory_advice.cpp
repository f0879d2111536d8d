#include "framework/train/memory_advice.h"

#include <algorithm>

#include "framework/core/byte_text.h"
#include "framework/train/machine.h"

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
  const StepPlan plan = plan_step(settings, mesh.shape, vocabulary, device.processor());
  // All ask at the same time, before any of them takes what it needs.
  const MemoryShare there = memory_share(mesh.world, device, local_ranks);
  if (there.bytes == 0 || plan.bytes() <= there.bytes) return;
  throw ConfigurationError("{}, but only {} of {}memory are free{}; {}",
                           needs(plan),
                           byte_text(there.bytes),
                           on_gpu ? "GPU " : "",
                           there.ranks > 1 ? fmt::format(" for each of the {} ranks of a {}",
                                                         there.ranks,
                                                         on_gpu ? "GPU" : "machine")
                                           : "",
                           memory_advice(plan, there.bytes, vocabulary, reconfigure));
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
