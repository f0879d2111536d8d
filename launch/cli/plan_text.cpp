#include "launch/cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/format.h"

namespace longspan {
namespace {

constexpr std::size_t max_layouts = 12;
constexpr std::size_t max_savings = 6;

std::string time_text(const StepPlan& plan, const MachineProfile& machine) {
  if (machine.flops_of(plan.compute) == 0) return "unknown";
  return fmt::format("{:.3g} s", step_time(plan, machine).total());
}

std::string rate_text(const StepPlan& plan, const MachineProfile& machine) {
  if (machine.flops_of(plan.compute) == 0) return "";
  return format_si(plan.tokens / step_time(plan, machine).total());
}

}  // namespace

std::string format_si(double count) {
  for (const auto& [unit, name] :
       {std::pair{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (count >= unit) return fmt::format("{:.3g} {}", count / unit, name);
  return fmt::format("{:.3g}", count);
}

std::string trial_text(const MachineProfile& machine) {
  const std::string least = fmt::format("{:.2f}", machine.min_trial);
  const std::string most = fmt::format("{:.2f}", machine.max_trial);
  return fmt::format("in the calibration steps, predicted time was {} of measured time",
                     least == most ? least : least + " to " + most);
}

std::string describe(const StepPlan& plan,
                     std::optional<double> model_flops,
                     const MachineProfile& machine) {
  const MeshShape& mesh = plan.mesh;
  std::string text = fmt::format("\ndata {} x context {} x tensor {}{}, ZeRO {}: memory per rank\n",
                                 mesh.data,
                                 mesh.context,
                                 mesh.tensor,
                                 mesh.sequence ? " (sequence parallel)" : "",
                                 plan.zero);
  for (std::size_t i = 0; i < memory_tags; ++i)
    text += fmt::format("  {:<16}{:>12}\n",
                        name_of(static_cast<MemoryTag>(i)),
                        format_bytes(static_cast<double>(plan.memory.by_tag[i].peak)));
  text += fmt::format(
      "  {:<16}{:>12}\n", "peak", format_bytes(static_cast<double>(plan.memory.total.peak)));
  text += fmt::format("  {:<16}{:>12}", "with reserve", format_bytes(plan.bytes()));
  if (machine.memory > 0)
    text += fmt::format(" of {}: {}",
                        format_bytes(machine.memory),
                        plan.bytes() <= machine.memory ? "fits" : "does not fit");
  text += fmt::format(
      "\nFLOPs per token: {} of the model, {} with recomputation and redundant work of ranks\n",
      model_flops ? format_si(*model_flops / plan.tokens) : "unknown",
      format_si(plan.flops * mesh.size() / plan.tokens));
  for (const auto& [name, axis] : plan.traffic)
    text += fmt::format("sent per rank and step over {} ({}): {} in {}\n",
                        name,
                        pluralize(axis.ranks, "rank"),
                        format_bytes(axis.bytes),
                        pluralize(axis.collectives, "collective"));
  if (machine.flops_of(plan.compute) == 0) return text;
  const StepTime time = step_time(plan, machine);
  text += fmt::format(
      "step time: {:.3g} s = {:.3g} s compute + {:.3g} s memory + {:.3g} s communication; {} "
      "tokens per second\n",
      time.total(),
      time.computing,
      time.memory,
      time.sending,
      format_si(plan.tokens / time.total()));
  if (machine.max_trial > 0) text += trial_text(machine) + "\n";
  if (machine.bandwidth == 0 && mesh.size() > 1)
    text += fmt::format(
        "step time excludes communication, as the bandwidth between ranks is unknown{}\n",
        machine.threads > 0 ? "; run longspan launch -n 2 -- plan --calibrate" : "");
  return text;
}

std::string table(const std::vector<StepPlan>& plans, const MachineProfile& machine) {
  std::string text = fmt::format("  {:>5} {:>7} {:>6} {:>8} {:>4} {:>12} {:>10} {:>10}\n",
                                 "data",
                                 "context",
                                 "tensor",
                                 "sequence",
                                 "ZeRO",
                                 "per rank",
                                 "step time",
                                 "tokens/s");
  for (std::size_t i = 0; i < std::min(plans.size(), max_layouts); ++i) {
    const StepPlan& plan = plans[i];
    text += fmt::format("  {:>5} {:>7} {:>6} {:>8} {:>4} {:>12} {:>10} {:>10}\n",
                        plan.mesh.data,
                        plan.mesh.context,
                        plan.mesh.tensor,
                        plan.mesh.sequence ? "yes" : "no",
                        plan.zero,
                        format_bytes(plan.bytes()),
                        time_text(plan, machine),
                        rate_text(plan, machine));
  }
  if (plans.size() > max_layouts)
    text += fmt::format("  and {} more\n", plans.size() - max_layouts);
  return text;
}

namespace {

std::string saving_line(const MemorySaving& saving, const MachineProfile& machine) {
  return fmt::format("  {:>12}  {:>10}  {}\n",
                     format_bytes(saving.plan.bytes()),
                     time_text(saving.plan, machine),
                     fmt::join(saving.keys, " "));
}

// Returns, for each batch size key, the largest half, quarter, ... that fits together with `keys`.
std::vector<MemorySaving> smaller_batches(const Reconfigure& reconfigure,
                                          const std::vector<std::string>& keys,
                                          const StepPlan& plan,
                                          const MachineProfile& machine,
                                          const DataSizes& ids) {
  const std::shared_ptr<const RunConfig> settings = reconfigure({});
  std::vector<std::pair<const char*, std::int64_t>> sizes = {
      {"data.global_batch_tokens", settings->data.buckets.batch_tokens}};
  if (settings->task_kind().reads_streams)
    sizes = {{"data.global_batch_size", settings->data.batch},
             {"data.seq_length", settings->data.segment}};
  std::vector<MemorySaving> result;
  for (const auto& [key, size] : sizes)
    for (std::int64_t less = size / 2; less > 0; less /= 2) {
      MemorySaving saving = {keys, {}};
      std::erase_if(saving.keys, [](const std::string& each) {  // of the global batch
        return each.starts_with("training.gradient_accumulation_steps=");
      });
      saving.keys.push_back(fmt::format("{}={}", key, less));
      try {
        saving.plan = plan_step(*reconfigure(saving.keys), plan.mesh, ids, plan.processor);
      } catch (const ConfigurationError&) {
        continue;
      }
      if (saving.plan.bytes() > machine.memory) continue;
      result.push_back(std::move(saving));
      break;
    }
  return result;
}

}  // namespace

std::string savings_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const MachineProfile& machine,
                         const DataSizes& ids) {
  const std::vector<MemorySaving> all = plan_savings(reconfigure, plan, ids);
  std::string text;
  std::size_t found = 0;
  for (const MemorySaving& saving : all) {
    if (saving.plan.bytes() > machine.memory || found == max_savings) continue;
    ++found;
    text += saving_line(saving, machine);
  }
  if (found > 0) return "settings that make it fit\n" + text;
  const auto least = std::ranges::min_element(
      all, std::less<>(), [](const MemorySaving& saving) { return saving.plan.bytes(); });
  const std::vector<std::string> keys =
      least == all.end() ? std::vector<std::string>() : least->keys;
  for (const MemorySaving& saving : smaller_batches(reconfigure, keys, plan, machine, ids))
    text += saving_line(saving, machine);
  if (!text.empty()) return "settings that make it fit, with smaller batches\n" + text;
  if (least == all.end()) return "no setting makes it fit; use a smaller model\n";
  return fmt::format("no setting makes it fit; the smallest is {} with {}; use a smaller model\n",
                     format_bytes(least->plan.bytes()),
                     fmt::join(least->keys, " "));
}

}  // namespace longspan
