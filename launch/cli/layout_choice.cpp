#include "launch/cli/layout_choice.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "framework/core/format.h"
#include "framework/core/gpu.h"
#include "framework/core/quote.h"
#include "framework/planning/machine.h"

namespace longspan {
namespace {

// Typical speeds, which need only rank layouts correctly.
constexpr double usual_flops = 1e11;
constexpr double usual_memory_bandwidth = 2e10;
constexpr double usual_bandwidth = 5e9;
constexpr std::int64_t usual_vocabulary = 256;
constexpr std::int64_t usual_classes = 32;

// Whether this process may use one of the processors of a list such as "0-3,8".
bool may_use(const std::string& list, const cpu_set_t& allowed) {
  for (const std::string& range : split(list, ',')) {
    unsigned first = 0, last = 0;
    const int read = std::sscanf(range.c_str(), "%u-%u", &first, &last);
    if (read < 1) continue;
    for (unsigned core = first; core <= (read == 2 ? last : first) && core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed)) return true;
  }
  return false;
}

int memories() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", error)) {
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    if (std::getline(file, list) && may_use(list, allowed)) ++count;
  }
  return std::max(count, 1);
}

std::optional<int> ranks_of(const ParallelOptions& parallel) {
  if (!parallel.data) return std::nullopt;
  return static_cast<int>(*parallel.data * parallel.context * parallel.tensor);
}

std::string reason_of(const DeviceSlots& places, int ranks) {
  const char* const what = places.processor == Processor::gpu ? "GPU" : "NUMA node";
  const char* const several = places.processor == Processor::gpu ? "GPUs" : "NUMA nodes";
  if (ranks > places.count) return "parallel.* requires at least that many";
  if (places.count == 1) return fmt::format("this machine has one {}", what);
  if (ranks == places.count) return fmt::format("this machine has {} {}", ranks, several);
  return fmt::format(
      "no layout of more ranks fits the {} {} of this machine", places.count, several);
}

// `sharing`: the ranks that share the memory of this machine; empty if they are on others.
MachineProfile usual_machine(const DeviceSlots& places, std::optional<int> sharing) {
  MachineProfile machine;
  machine.processor = places.processor;
  machine.flops = machine.bf16_flops = machine.f16_flops = usual_flops;
  machine.memory_bandwidth = usual_memory_bandwidth;
  machine.bandwidth = usual_bandwidth;
  // Querying a GPU's memory would allocate some of it for the lifetime of this process.
  const bool is_known = sharing && places.processor != Processor::gpu;
  machine.memory = is_known ? memory_of_rank(*sharing) : 0;
  return machine;
}

constexpr std::size_t max_layouts = 12;
constexpr std::size_t max_savings = 6;

std::string step_time_text(const StepPlan& plan, const MachineProfile& machine) {
  if (machine.flops_of(plan.compute) == 0) return "unknown";
  return fmt::format("{:.3g} s", step_time(plan, machine).total());
}

std::string rate_text(const StepPlan& plan, const MachineProfile& machine) {
  if (machine.flops_of(plan.compute) == 0) return "";
  return format_si(plan.tokens / step_time(plan, machine).total());
}

std::string saving_line(const MemorySaving& saving, const MachineProfile& machine) {
  return fmt::format("  {:>12}  {:>10}  {}\n",
                     format_bytes(saving.plan.bytes()),
                     step_time_text(saving.plan, machine),
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

std::vector<std::string> layout_settings(const StepPlan& plan) {
  return {fmt::format("parallel.data_parallel_size={}", plan.mesh.data),
          fmt::format("parallel.context_parallel_size={}", plan.mesh.context),
          fmt::format("parallel.tensor_parallel_size={}", plan.mesh.tensor),
          fmt::format("parallel.sequence_parallel={}", plan.mesh.sequence),
          fmt::format("parallel.zero_stage={}", plan.zero)};
}

DeviceSlots visible_devices(DeviceChoice choice) {
  if (choice != DeviceChoice::cpu)
    if (const auto gpus = gpu::usable(); !gpus.empty())
      return {static_cast<int>(gpus.size()), Processor::gpu};
  return {memories()};
}

std::optional<int> configured_ranks(const ConfigurationText& source) {
  return ranks_of(configure(source)->parallel);
}

ChosenLayout choose_ranks() {
  const DeviceSlots places = visible_devices(DeviceChoice::automatic);
  return {places.count, {}, reason_of(places, places.count)};
}

ChosenLayout choose_layout(const ConfigurationText& source, std::optional<DeviceSlots> given) {
  const auto configuration = configure(source);
  const ParallelOptions& parallel = configuration->parallel;
  const auto others = static_cast<int>(parallel.context * parallel.tensor);
  if (const auto named = ranks_of(parallel)) return {*named, {}, "parallel.* sets them"};
  const DeviceSlots places = given ? *given : visible_devices(configuration->run.device);
  if (others > 1) {
    int data = std::max(places.count / others, 1);
    while (!validate_batch(*configuration, data).empty()) --data;
    return {data * others, {}, reason_of(places, data * others)};
  }
  for (int ranks = places.count; ranks > 1; --ranks) {
    const LayoutPlans plans = plan_layouts(
        *configuration, ranks, usual_machine(places, ranks), {usual_vocabulary, usual_classes});
    if (!plans.fitting.empty())
      return {ranks, layout_settings(plans.fitting.front()), reason_of(places, ranks)};
  }
  return {1, {}, reason_of(places, 1)};
}

ChosenLayout choose_layout_of_fewer(const ConfigurationText& source,
                                    int most,
                                    std::optional<int> local) {
  const auto configuration = configure(source);
  const ParallelOptions& parallel = configuration->parallel;
  const DeviceSlots places = visible_devices(configuration->run.device);
  std::string trouble;
  for (int ranks = most; ranks >= 1; --ranks) {
    const std::optional<int> sharing = local ? std::optional(std::min(ranks, *local)) : local;
    const MachineProfile machine = usual_machine(places, sharing);
    const LayoutPlans plans =
        plan_layouts(*configuration, ranks, machine, {usual_vocabulary, usual_classes});
    const auto as_named = std::ranges::find_if(plans.fitting, [&](const StepPlan& plan) {
      return plan.mesh.context == parallel.context && plan.mesh.tensor == parallel.tensor;
    });
    if (as_named != plans.fitting.end())
      return {ranks, layout_settings(*as_named), "same model sharding"};
    if (!plans.fitting.empty())
      return {ranks, layout_settings(plans.fitting.front()), "changed model sharding"};
    trouble = plans.too_large.empty() ? plans.refused
                                      : fmt::format("a rank requires {}, but has {}",
                                                    format_bytes(plans.too_large.front().bytes()),
                                                    format_bytes(machine.memory));
  }
  return {0, {}, trouble};
}

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
                        step_time_text(plan, machine),
                        rate_text(plan, machine));
  }
  if (plans.size() > max_layouts)
    text += fmt::format("  and {} more\n", plans.size() - max_layouts);
  return text;
}

std::string longest_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const MachineProfile& machine,
                         const DataSizes& ids) {
  std::string text =
      fmt::format("\nlongest sequences in {} per rank\n", format_bytes(machine.memory));
  for (const LongestSequence& longest : longest_sequences(reconfigure, plan, machine.memory, ids)) {
    const std::string keys = fmt::format("{}", fmt::join(longest.keys, " "));
    if (longest.tokens == 0)
      text += fmt::format("  none {}{}{}\n",
                          longest.in_chunks ? "in chunks" : "in one pass",
                          longest.limit.empty() ? "" : ": ",
                          longest.limit);
    else
      text += saving_line({{fmt::format("data.seq_length={}", longest.tokens), keys}, longest.plan},
                          machine);
    if (longest.tokens > 0 && !longest.limit.empty())
      text += fmt::format("  a longer one is not supported: {}\n", longest.limit);
  }
  return text;
}

std::string savings_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const MachineProfile& machine,
                         const DataSizes& ids) {
  const std::vector<MemorySaving> all = plan_savings(reconfigure, plan, machine.memory, ids);
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
