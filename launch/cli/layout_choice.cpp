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
#include "framework/planning/plan.h"

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

}  // namespace longspan
