// longspan plan: what a run will take, on any number of ranks, before it is started.
#include "framework/train/plan.h"

#include <omp.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "framework/core/byte_text.h"
#include "framework/core/gpu.h"
#include "framework/train/machine.h"
#include "framework/train/threads.h"
#include "launch/command.h"
#include "launch/configuration.h"
#include "launch/number_check.h"

namespace longspan {
namespace {

constexpr std::size_t most_layouts = 12;
constexpr std::size_t most_savings = 6;

struct Arguments {
  ConfigurationArguments configuration;
  std::optional<int> ranks;
  std::string device;
  std::optional<double> memory;
  std::optional<double> flops;
  std::optional<double> bandwidth;
  std::string machine = "runs/machine.json";
  bool calibrate = false;
};

std::map<std::string, double> byte_units() {
  std::map<std::string, double> result = {{"B", 1}};
  double decimal = 1, binary = 1;
  for (const char* prefix : {"k", "M", "G", "T", "P"}) {
    result[fmt::format("{}B", prefix)] = decimal *= 1e3;
    result[fmt::format("{}iB", prefix)] = binary *= 1024;
  }
  return result;
}

// "1 rank", "2 ranks".
std::string count_of(std::int64_t count, std::string_view name) {
  return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
}

std::string known_names() {
  std::vector<std::string> names;
  for (const Machine& machine : known_machines()) names.push_back(machine.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Machine known_machine(const std::string& name) {
  for (const Machine& machine : known_machines())
    if (machine.name == name) return machine;
  throw ConfigurationError(
      "longspan plan: --device is \"{}\"; known are {}; for another give --memory, --flops and "
      "--bandwidth",
      name,
      known_names());
}

// What each rank has, a named device or the share of one of `local_ranks` ranks of this machine;
// `assumed`: that share of what was measured, as a sentence.
Machine machine_of(const Arguments& arguments,
                   const Settings& settings,
                   int local_ranks,
                   std::string& assumed) {
  const DeviceChoice device = settings.run.device;
  const bool is_given = arguments.memory || arguments.flops || arguments.bandwidth;
  const std::vector<int> gpus =
      is_given || device == DeviceChoice::cpu ? std::vector<int>() : gpu::usable();
  Machine machine;
  if (!arguments.device.empty()) {
    machine = known_machine(arguments.device);
  } else if (!gpus.empty()) {
    const int count = static_cast<int>(gpus.size());
    machine.name = "a GPU of this machine";
    machine.processor = Processor::gpu;
    machine.memory = memory_of_gpu(gpus.front(), (local_ranks + count - 1) / count);
  } else if (!is_given) {
    machine.name = "this machine";
    if (std::filesystem::exists(arguments.machine)) {
      const Machine measured = read_machine(arguments.machine);
      machine = shared_among(measured, local_ranks, omp_get_max_threads());
      assumed = fmt::format("{}: measured with {} of {}; here {} share the machine\n",
                            arguments.machine,
                            count_of(measured.ranks, "rank"),
                            count_of(measured.threads, "thread"),
                            count_of(local_ranks, "rank"));
    }
    machine.memory = memory_of_rank(local_ranks);
  } else {
    machine.name = "given";
  }
  if (device == DeviceChoice::cuda) machine.processor = Processor::gpu;
  if (settings.precision.tf32 && machine.tf32_flops > 0) machine.flops = machine.tf32_flops;
  if (arguments.memory) machine.memory = *arguments.memory;
  if (arguments.flops) machine.flops = machine.bf16_flops = machine.f16_flops = *arguments.flops;
  if (arguments.bandwidth) machine.bandwidth = *arguments.bandwidth;
  return machine;
}

std::string count_text(double count) {
  for (const auto& [unit, name] :
       {std::pair{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (count >= unit) return fmt::format("{:.3g} {}", count / unit, name);
  return fmt::format("{:.3g}", count);
}

std::string time_text(const StepPlan& plan, const Machine& machine) {
  if (machine.flops_of(plan.compute) == 0) return "not known";
  const double seconds = step_time(plan, machine).total();
  return fmt::format("{:.3g} s", seconds);
}

std::string rate_text(const StepPlan& plan, const Machine& machine) {
  if (machine.flops_of(plan.compute) == 0) return "";
  return count_text(plan.tokens / step_time(plan, machine).total());
}

// `model_flops`: of the global batch, as the mathematics needs them.
std::string describe(const StepPlan& plan, double model_flops, const Machine& machine) {
  const MeshShape& mesh = plan.mesh;
  std::string text = fmt::format("\ndata {} x context {} x tensor {}{}, ZeRO {}: bytes of a rank\n",
                                 mesh.data,
                                 mesh.context,
                                 mesh.tensor,
                                 mesh.sequence ? " (which share time)" : "",
                                 plan.zero);
  for (std::size_t i = 0; i < memory_tags; ++i)
    text += fmt::format("  {:<14}{:>12}\n",
                        name_of(static_cast<MemoryTag>(i)),
                        byte_text(static_cast<double>(plan.memory.by_tag[i].peak)));
  // On a GPU what is at once decides, elsewhere what is held with it.
  const auto held = static_cast<double>(plan.memory.reserved);
  const bool on_gpu = plan.processor == Processor::gpu;
  const auto line = [&](const char* name, double bytes, bool decides) {
    const std::string verdict = decides && machine.memory > 0
                                    ? fmt::format(" of {}: {}",
                                                  byte_text(machine.memory),
                                                  bytes <= machine.memory ? "fits" : "does not fit")
                                    : "";
    text += fmt::format("  {:<14}{:>12}{}\n", name, byte_text(bytes), verdict);
  };
  line("at once", static_cast<double>(plan.memory.total.peak), on_gpu);
  line("with reserve", held, !on_gpu);
  if (machine.memory > 0 && plan.bytes() <= machine.memory && held > machine.memory)
    text +=
        "  without room for the reserve, blocks go back to the system and are asked for again in "
        "every step, which takes time\n";
  text += fmt::format(
      "FLOPs a token: {} of the model, {} with what is computed again or by several ranks\n",
      count_text(model_flops / plan.tokens),
      count_text(plan.flops * mesh.size() / plan.tokens));
  for (const auto& [name, axis] : plan.traffic)
    text += fmt::format("sent by a rank each step over {} ({} ranks): {} in {} collectives\n",
                        name,
                        axis.ranks,
                        byte_text(axis.bytes),
                        axis.collectives);
  if (machine.flops_of(plan.compute) == 0) return text;
  const StepTime time = step_time(plan, machine);
  text += fmt::format(
      "a step: {:.3g} s = {:.3g} s of products + {:.3g} s of reading and writing + {:.3g} s of "
      "sending; {} tokens a second\n",
      time.total(),
      time.computing,
      time.memory,
      time.sending,
      count_text(plan.tokens / time.total()));
  if (machine.bandwidth == 0 && mesh.size() > 1)
    text += "what is sent is not in this time: the bandwidth between ranks is not known\n";
  return text;
}

std::string table(const std::vector<StepPlan>& plans, const Machine& machine) {
  std::string text = fmt::format("  {:>5} {:>7} {:>6} {:>8} {:>4} {:>12} {:>10} {:>10}\n",
                                 "data",
                                 "context",
                                 "tensor",
                                 "sequence",
                                 "ZeRO",
                                 "a rank",
                                 "a step",
                                 "tokens/s");
  for (std::size_t i = 0; i < std::min(plans.size(), most_layouts); ++i) {
    const StepPlan& plan = plans[i];
    text += fmt::format("  {:>5} {:>7} {:>6} {:>8} {:>4} {:>12} {:>10} {:>10}\n",
                        plan.mesh.data,
                        plan.mesh.context,
                        plan.mesh.tensor,
                        plan.mesh.sequence ? "yes" : "no",
                        plan.zero,
                        byte_text(plan.bytes()),
                        time_text(plan, machine),
                        rate_text(plan, machine));
  }
  if (plans.size() > most_layouts)
    text += fmt::format("  and {} more\n", plans.size() - most_layouts);
  return text;
}

std::string savings_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const Machine& machine,
                         std::int64_t vocabulary) {
  const std::vector<Saving> all = plan_savings(reconfigure, plan, vocabulary);
  std::string text;
  std::size_t found = 0;
  for (const Saving& saving : all) {
    if (saving.plan.bytes() > machine.memory || found == most_savings) continue;
    ++found;
    text += fmt::format("  {:>12}  {:>10}  {}\n",
                        byte_text(saving.plan.bytes()),
                        time_text(saving.plan, machine),
                        fmt::join(saving.keys, " "));
  }
  if (found > 0) return "keys that would make it fit\n" + text;
  const auto least = std::ranges::min_element(
      all, std::less<>(), [](const Saving& saving) { return saving.plan.bytes(); });
  if (least == all.end()) return "";
  return fmt::format("no key makes it fit; the least is {} with {}\n",
                     byte_text(least->plan.bytes()),
                     fmt::join(least->keys, " "));
}

// What the layout of the configuration takes, where it is one of that many ranks; or why it is
// none.
bool add_own_layout(std::string& text,
                    const Settings& settings,
                    const ConfigurationText& source,
                    int ranks,
                    const Machine& machine,
                    std::int64_t vocabulary) try {
  const StepPlan plan =
      plan_step(settings, mesh_shape(settings.parallel, ranks), vocabulary, machine.processor);
  text += describe(plan, model_flops(settings, plan.mesh, vocabulary), machine);
  if (machine.memory > 0 && plan.bytes() > machine.memory)
    text += savings_text(reconfiguration(source), plan, machine, vocabulary);
  return true;
} catch (const ConfigurationError& error) {
  text += fmt::format("\nnot as the configuration has it: {}\n", error.what());
  return false;
}

int ranks_of(const Arguments& arguments, const Settings& settings, int job) {
  if (arguments.ranks) return *arguments.ranks;
  if (job > 1) return job;
  const ParallelOptions& parallel = settings.parallel;
  const std::int64_t ranks = parallel.data.value_or(1) * parallel.context * parallel.tensor;
  if (ranks > (1 << 20))
    throw ConfigurationError("longspan plan: the configuration names {} ranks, more than 2^20",
                             ranks);
  return static_cast<int>(ranks);
}

// As many threads as a rank of such a run would have: what attention holds depends on them.
std::string assume_threads(const Settings& settings, int local_ranks) {
  set_threads(settings.run.threads, local_ranks);
  const char* const source = settings.run.threads > 0 ? "run.threads"
                             : std::getenv("OMP_NUM_THREADS") != nullptr
                                 ? "OMP_NUM_THREADS"
                                 : "an even share of this machine's cores";
  return fmt::format(
      "each rank computes with {}: {}\n", count_of(omp_get_max_threads(), "thread"), source);
}

#ifdef LONGSPAN_WITH_CUDA
constexpr const char* gpu_assumed = "on GPUs; what NCCL takes for itself is not in it\n";
#else
constexpr const char* gpu_assumed =
    "on GPUs, with the scratch of the CPU's kernels: this program was built without CUDA\n";
#endif

std::string plan(const Arguments& arguments, const ConfigurationText& source, Session& session) {
  const auto configuration = configure(source);
  const Settings& settings = *configuration;
  warn(session, configuration->table.warnings());
  const int job = session.world().size();
  const int ranks = ranks_of(arguments, settings, job);
  const int local_ranks = ranks == job ? session.local_size() : ranks;
  const std::string threads = assume_threads(settings, local_ranks);
  std::string speeds;
  const Machine machine = machine_of(arguments, settings, local_ranks, speeds);
  const std::int64_t vocabulary = make_tokenizer(settings.data).vocabulary();
  std::string text = fmt::format(
      "{}: {} {} of {} streams of {} tokens on {}, {}{}\n",
      source.file,
      settings.family,
      name_of(settings.precision.compute),
      settings.data.batch,
      settings.data.segment,
      count_of(ranks, "rank"),
      machine.name,
      machine.memory > 0 ? fmt::format(" with {} for each", byte_text(machine.memory)) : "");
  text += machine.processor == Processor::cpu ? threads : gpu_assumed;
  text += speeds;
  const bool planned = add_own_layout(text, settings, source, ranks, machine, vocabulary);
  if (ranks == 1 && planned) return text;
  const LayoutPlans layouts = plan_layouts(settings, ranks, machine, vocabulary);
  const bool has_time = machine.flops_of(settings.precision.compute) > 0;
  if (!layouts.fitting.empty())
    text += fmt::format("\nlayouts of {} ranks that fit, {} first\n{}",
                        ranks,
                        has_time ? "fastest" : "smallest",
                        table(layouts.fitting, machine));
  else if (!layouts.too_large.empty())
    text += fmt::format(
        "\nno layout of {} ranks fits; the smallest\n{}", ranks, table(layouts.too_large, machine));
  else
    throw ConfigurationError("{}: the model has no layout of {} ranks; of the last one tried: {}",
                             source.file,
                             ranks,
                             layouts.refused);
  return text;
}

ExitCode run(const Arguments& arguments, Session& session) {
  const Communicator& world = session.world();
  set_threads(0, session.local_size());
  if (arguments.calibrate) {
    Machine machine = measure_machine(world, session.local_size());
    machine.memory = memory_of_rank(session.local_size());
    if (world.rank() == 0) write_machine(machine, arguments.machine);
    print(
        session,
        fmt::format(
            "a rank of {} with {}: {}FLOP/s in float32, {}FLOP/s in bf16, {}FLOP/s in f16, {}B/s "
            "of "
            "memory{}; written to {}\n",
            world.size(),
            count_of(machine.threads, "thread"),
            count_text(machine.flops),
            count_text(machine.bf16_flops),
            count_text(machine.f16_flops),
            count_text(machine.memory_bandwidth),
            world.size() > 1 ? fmt::format(", {}B/s to others", count_text(machine.bandwidth)) : "",
            arguments.machine));
    if (arguments.configuration.file.empty()) return ExitCode::ok;
  }
  if (arguments.configuration.file.empty())
    throw ConfigurationError("longspan plan: CONFIG or --calibrate is required");
  const ConfigurationText source =
      read_configuration(arguments.configuration.file, arguments.configuration.settings, world);
  if (world.rank() == 0) print(session, plan(arguments, source, session));
  world.barrier();
  return ExitCode::ok;
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .description =
          "Say what a run takes before it is started: memory, work, traffic and time of each "
          "layout",
      .examples =
          "  longspan plan configs/quickstart.yaml\n"
          "  longspan plan configs/gpt2-124m.yaml --ranks 64 --device h100\n"
          "  longspan plan configs/gpt2-124m.yaml --ranks 8 --memory 16GiB --flops 5e13 "
          "--bandwidth 1e10\n"
          "  mpirun -n 2 longspan plan --calibrate\n",
      .bind = [](CLI::App& app) -> Action {
        const auto arguments = std::make_shared<Arguments>();
        add_configuration(app, arguments->configuration, false);
        app.add_option("--ranks",
                       arguments->ranks,
                       "how many; without it those of the job, or of parallel.*")
            ->check(CLI::Range(1, 1 << 20));
        auto* device = app.add_option(
            "--device", arguments->device, "what each rank runs on: " + known_names());
        app.add_option("--memory", arguments->memory, "bytes of a rank, as in 16GiB, 80GB or 80e9")
            ->transform(CLI::AsNumberWithUnit(byte_units()))
            ->check(positive_number());
        app.add_option("--flops", arguments->flops, "FLOP/s of a rank")->check(positive_number());
        app.add_option("--bandwidth", arguments->bandwidth, "bytes a second from a rank to others")
            ->check(positive_number());
        app.add_option(
               "--machine", arguments->machine, "the table of this machine that --calibrate writes")
            ->capture_default_str()
            ->excludes(device);
        app.add_flag("--calibrate",
                     arguments->calibrate,
                     "measure this machine, with all ranks of the job at once");
        return [arguments](Session& session) { return run(*arguments, session); };
      }};
}

}  // namespace longspan
