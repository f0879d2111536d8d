// longspan plan: memory and time of a run, for any number of ranks, before it starts.
#include "framework/planning/plan.h"

#include <fmt/format.h>
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

#include "framework/core/format.h"
#include "framework/core/gpu.h"
#include "framework/planning/machine.h"
#include "framework/planning/model_flops.h"
#include "framework/training_loop/progress.h"
#include "framework/training_loop/run_device.h"
#include "launch/cli/calibration_models.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/layout_choice.h"
#include "launch/cli/saved_tokenizer.h"

namespace longspan {
namespace {

// The machine profile that --calibrate writes.
constexpr const char* usual_table = "runs/machine-profile.json";

struct PlanArguments {
  ConfigurationArguments configuration;
  std::optional<int> ranks;
  std::string device;
  std::optional<double> memory;
  std::optional<double> flops;
  std::optional<double> bandwidth;
  std::optional<std::string> machine;
  bool calibrate = false;
  bool longest = false;

  std::string table() const { return machine.value_or(usual_table); }
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

std::string known_names() {
  std::vector<std::string> names;
  for (const MachineProfile& machine : known_gpus()) names.push_back(machine.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

MachineProfile known_machine(const std::string& name) {
  for (const MachineProfile& machine : known_gpus())
    if (machine.name == name) return machine;
  throw ConfigurationError(
      "longspan plan: unknown --device \"{}\" (choices: {}); for other devices set "
      "--memory-per-rank, "
      "--flops-per-rank and --bandwidth-per-rank, and for a GPU --set run.device=cuda",
      name,
      known_names());
}

bool is_given(const PlanArguments& arguments) {
  return arguments.memory || arguments.flops || arguments.bandwidth;
}

// Resources of the ranks unless the command line sets them. Collective: those that `train` would
// use here.
struct Here {
  Processor processor = Processor::cpu;
  double memory = 0;  // GPU memory of each rank
};
Here find_local_machine(const PlanArguments& arguments,
                        const RunConfig& settings,
                        const Session& session) {
  const DeviceChoice choice = settings.run.device;
  const Communicator& world = session.world();
  if (!arguments.device.empty()) return {Processor::gpu};
  if (is_given(arguments)) {
    bool uses_gpu = choice == DeviceChoice::cuda;
    if (choice == DeviceChoice::automatic)
      uses_gpu = world.all_reduce(std::int64_t{!gpu::usable().empty()}, Reduction::minimum) == 1;
    return {uses_gpu ? Processor::gpu : Processor::cpu};
  }
  const Device device = run_device(settings.run, settings.precision, world, session.local_rank());
  if (!device.on_gpu()) return {};
  if (arguments.machine && !arguments.calibrate)
    throw ConfigurationError(
        "longspan plan: --machine-profile does not support GPUs; set run.device=cpu");
  // If the number of ranks differs from this job's, each has its own GPU.
  return {Processor::gpu,
          arguments.ranks && *arguments.ranks != world.size()
              ? memory_of_gpu(device.state().gpu(), 1)
              : memory_share(world, device, session.local_size()).bytes};
}

// Returns the resources of each rank: a named device, or the share of one of `local_ranks` ranks of
// this machine. `assumed`: a message about that share of the measurement.
MachineProfile machine_of(const PlanArguments& arguments,
                          const PrecisionOptions& precision,
                          const Here& here,
                          int local_ranks,
                          std::string& assumed) {
  MachineProfile machine;
  if (!arguments.device.empty()) {
    machine = known_machine(arguments.device);
  } else if (is_given(arguments)) {
    machine.name = "given";
  } else if (here.processor == Processor::gpu) {
    machine.name = "GPU of this machine";
    machine.memory = here.memory;
  } else {
    machine.name = "this machine";
    if (arguments.machine || std::filesystem::exists(usual_table)) {
      const MachineProfile measured = read_machine(arguments.table());
      machine = shared_among(measured, local_ranks, omp_get_max_threads());
      assumed = fmt::format("{}: measured with {} of {}; assumes {} on this machine\n",
                            arguments.table(),
                            pluralize(measured.ranks, "rank"),
                            pluralize(measured.threads, "thread"),
                            pluralize(local_ranks, "rank"));
      if (const int cores = omp_get_num_procs(); measured.ranks * measured.threads < cores)
        assumed += fmt::format(
            "measured on {} of {} cores; run longspan plan --calibrate to measure all of them\n",
            measured.ranks * measured.threads,
            cores);
    }
    machine.memory = memory_of_rank(local_ranks);
  }
  machine.processor = here.processor;
  if (precision.tf32 && precision.compute == DType::f32 && machine.tf32_flops > 0)
    machine.flops = machine.tf32_flops;
  if (arguments.memory) machine.memory = *arguments.memory;
  if (arguments.flops) machine.flops = machine.bf16_flops = machine.f16_flops = *arguments.flops;
  if (arguments.bandwidth) machine.bandwidth = *arguments.bandwidth;
  return machine;
}

// Returns how to obtain times if they are unknown.
std::string without_times(const PlanArguments& arguments, const MachineProfile& machine) {
  if (is_given(arguments))
    return "times require --flops-per-rank, and for several ranks --bandwidth-per-rank\n";
  if (machine.processor == Processor::gpu)
    return fmt::format(
        "times of a GPU require --flops-per-rank and --bandwidth-per-rank, or --device (choices: "
        "{})\n",
        known_names());
  return "times require a calibration; run longspan plan --calibrate once (takes seconds)\n";
}

std::string parameters_text(const StepPlan& plan) {
  return fmt::format(
      "{} parameters ({})\n", plan.parameters, format_si(static_cast<double>(plan.parameters)));
}

bool fits(const StepPlan& plan, const MachineProfile& machine) {
  return machine.memory == 0 || plan.bytes() <= machine.memory;
}

// Appends the cost of the configuration's layout and returns it if it has that many ranks.
// Otherwise appends why it does not apply.
std::optional<StepPlan> add_own_layout(std::string& text,
                                       const RunConfig& settings,
                                       const ConfigurationText& source,
                                       int ranks,
                                       const MachineProfile& machine,
                                       const DataSizes& ids) try {
  StepPlan plan = plan_step(settings, mesh_shape(settings.parallel, ranks), ids, machine.processor);
  const auto needed = ModelFlops(settings, ids).of_full_step(plan.mesh);
  text += parameters_text(plan);
  text += describe(plan, needed ? std::optional(needed->total()) : std::nullopt, machine);
  if (settings.task_kind().reads_streams && settings.data.reset_attention_mask)
    text +=
        "data.documents.reset_attention_mask: FLOPs and times include attention across documents, "
        "which a run skips\n";
  if (!fits(plan, machine)) text += savings_text(reconfiguration(source), plan, machine, ids);
  return plan;
} catch (const ConfigurationError& error) {
  text += fmt::format("\nlayout of the config does not apply: {}\n", error.what());
  return std::nullopt;
}

// Returns the table of the layouts of that many ranks. If none fits, adds the keys with which the
// smallest would. Throws ConfigurationError if the model has no layout.
std::string layouts_text(const LayoutPlans& layouts,
                         const ConfigurationText& source,
                         int ranks,
                         const MachineProfile& machine,
                         const DataSizes& ids) {
  if (!layouts.fitting.empty()) {
    const bool has_time = machine.flops_of(layouts.fitting.front().compute) > 0;
    return fmt::format("\nlayouts of {} that fit, {} first\n{}",
                       pluralize(ranks, "rank"),
                       has_time ? "fastest" : "smallest",
                       table(layouts.fitting, machine));
  }
  if (layouts.too_large.empty())
    throw ConfigurationError("{}: no layout of {} supports this model; last one tried: {}",
                             source.file,
                             pluralize(ranks, "rank"),
                             layouts.refused);
  const StepPlan& smallest = layouts.too_large.front();
  ConfigurationText as_smallest = source;
  std::ranges::move(layout_settings(smallest), std::back_inserter(as_smallest.settings));
  return fmt::format("\nno layout of {} fits; the smallest\n{}for the first one: {}",
                     pluralize(ranks, "rank"),
                     table(layouts.too_large, machine),
                     savings_text(reconfiguration(as_smallest), smallest, machine, ids));
}

int ranks_of(const PlanArguments& arguments, const RunConfig& settings, int job) {
  if (arguments.ranks) return *arguments.ranks;
  if (job > 1) return job;
  const ParallelOptions& parallel = settings.parallel;
  const std::int64_t ranks = parallel.data.value_or(1) * parallel.context * parallel.tensor;
  if (ranks > (1 << 20))
    throw ConfigurationError("longspan plan: expected at most 2^20 ranks in parallel.*, found {}",
                             ranks);
  return static_cast<int>(ranks);
}

// Sets as many threads as a rank of such a run would have, as attention buffers depend on them.
std::string assume_threads(const RunConfig& settings, int local_ranks) {
  set_threads(settings.run.threads, local_ranks);
  const char* const source = settings.run.threads > 0 ? "run.num_threads"
                             : std::getenv("OMP_NUM_THREADS") != nullptr
                                 ? "OMP_NUM_THREADS"
                                 : "an equal share of the cores";
  return fmt::format("{} per rank ({})\n", pluralize(omp_get_max_threads(), "thread"), source);
}

#ifdef LONGSPAN_WITH_CUDA
constexpr const char* gpu_assumed = "on GPUs, without the memory that libraries allocate\n";
#else
constexpr const char* gpu_assumed =
    "on GPUs, with the workspaces of CPU kernels, as this program was built without CUDA\n";
#endif

// The text, and the plan of a rank if no layout fits.
struct Planned {
  std::string text;
  std::optional<StepPlan> too_large = std::nullopt;
  double memory = 0;
};

Planned plan(const PlanArguments& arguments,
             const ConfigurationText& source,
             const RunConfig& settings,
             const Here& here,
             Session& session) {
  const int job = session.world().size();
  const int ranks = ranks_of(arguments, settings, job);
  const int local_ranks = ranks == job ? session.local_size() : ranks;
  const std::string threads = assume_threads(settings, local_ranks);
  std::string speeds;
  const MachineProfile machine =
      machine_of(arguments, settings.precision, here, local_ranks, speeds);
  if (arguments.longest && machine.memory == 0)
    throw ConfigurationError(
        "longspan plan: --longest requires the memory of a rank; set --memory-per-rank");
  if (arguments.longest && !settings.task_kind().reads_streams)
    throw ConfigurationError(
        "longspan plan: --longest requires a task with data.seq_length, such as language_modeling");
  const auto say = [&](const std::string& sentence) { inform(session, sentence); };
  const DataSizes ids = planned_ids(settings.task_kind(),
                                    settings.data,
                                    static_cast<std::uint64_t>(settings.run.seed),
                                    throttled_progress(say));
  std::string text = fmt::format(
      "{}: {} {}, {} on {}, {}{}\n",
      source.file,
      settings.family,
      config_name_of(settings.precision.compute),
      settings.task_kind().words(settings.data).text,
      pluralize(ranks, "rank"),
      machine.name,
      machine.memory > 0 ? fmt::format(" with {} per rank", format_bytes(machine.memory)) : "");
  text += machine.processor == Processor::cpu ? threads : gpu_assumed;
  text += speeds;
  if (machine.flops_of(settings.precision.compute) == 0) text += without_times(arguments, machine);
  const auto own = add_own_layout(text, settings, source, ranks, machine, ids);
  Planned result = {.text = {}, .memory = machine.memory};
  if (arguments.longest) {
    if (!own)
      throw ConfigurationError(
          "longspan plan: --longest requires a layout of {} in parallel.*; set its keys, or omit "
          "--ranks",
          pluralize(ranks, "rank"));
    result.text = text + longest_text(reconfiguration(source), *own, machine, ids);
    return result;
  }
  if (ranks > 1 || !own) {
    const LayoutPlans layouts = plan_layouts(settings, ranks, machine, ids);
    if (!own && !layouts.fitting.empty()) text += parameters_text(layouts.fitting.front());
    if (!own && !layouts.too_large.empty()) text += parameters_text(layouts.too_large.front());
    text += layouts_text(layouts, source, ranks, machine, ids);
    if (layouts.fitting.empty()) result.too_large = layouts.too_large.front();
  } else if (!fits(*own, machine)) {
    result.too_large = own;
  }
  result.text = std::move(text);
  return result;
}

void calibrate(const PlanArguments& arguments, const Session& session) {
  const Communicator& world = session.world();
  // Uses all cores at once, whatever OMP_NUM_THREADS is set to. A core alone is faster than in
  // parallel with the others, and idle cores would be assigned to fewer ranks in a run.
  const int threads = omp_get_max_threads();
  omp_set_num_threads(static_cast<int>(core_share(session.local_size())));
  MachineProfile machine = measure_machine(world, session.local_size(), calibration_models());
  omp_set_num_threads(threads);
  machine.memory = memory_of_rank(session.local_size());
  if (world.rank() == 0) write_machine(machine, arguments.table());
  const bool is_far_off = machine.min_trial < 0.75 || machine.max_trial > 1.33;
  print(session,
        fmt::format("{} with {} each: {}FLOP/s float32, {}FLOP/s bfloat16, {}FLOP/s float16, {}B/s "
                    "memory{}; {}{}; saved to {}\n",
                    pluralize(world.size(), "rank"),
                    pluralize(machine.threads, "thread"),
                    format_si(machine.flops),
                    format_si(machine.bf16_flops),
                    format_si(machine.f16_flops),
                    format_si(machine.memory_bandwidth),
                    world.size() > 1
                        ? fmt::format(", {}B/s between ranks", format_si(machine.bandwidth))
                        : "",
                    trial_text(machine),
                    is_far_off ? " (calibrate again on an idle machine)" : "",
                    arguments.table()));
}

ExitCode run_plan(const PlanArguments& arguments, Session& session) {
  const Communicator& world = session.world();
  set_threads(0, session.local_size());
  if (arguments.calibrate) {
    const SpinControl spinning(session.local_size());
    calibrate(arguments, session);
    if (arguments.configuration.file.empty()) return ExitCode::ok;
  }
  if (arguments.configuration.file.empty())
    throw ConfigurationError("longspan plan: requires CONFIG or --calibrate");
  const ConfigurationText source =
      read_configuration(arguments.configuration.file, arguments.configuration.settings, world);
  const auto configuration = configure(source);
  use_saved_tokenizer(*configuration, world);
  warn(session, configuration->table.warnings());
  const Here here = find_local_machine(arguments, *configuration, session);
  if (world.rank() == 0) {
    const Planned planned = plan(arguments, source, *configuration, here, session);
    print(session, planned.text);
    if (planned.too_large)
      throw ConfigurationError(
          "{}: expected at most {} per rank, found {}; set the keys listed above, or use more "
          "ranks or a smaller model",
          source.file,
          format_bytes(planned.memory),
          format_bytes(planned.too_large->bytes()));
  }
  world.barrier();
  return ExitCode::ok;
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .description =
          "Estimate the parameters, memory, FLOPs, traffic and time of a run in each layout; the "
          "exit code is 2 if no layout fits",
      .examples =
          "  longspan plan configs/quickstart.yaml\n"
          "  longspan plan configs/gpt2-124m.yaml --ranks 64 --device h100\n"
          "  longspan plan configs/gpt2-124m.yaml --ranks 8 --memory-per-rank 16GiB "
          "--flops-per-rank 5e13 --bandwidth-per-rank 1e10\n"
          "  longspan plan configs/any-length-10m.yaml --memory-per-rank 8GB --longest\n"
          "  longspan launch -n 2 -- plan --calibrate\n",
      .bind = [](CLI::App& app) -> Action {
        const auto arguments = std::make_shared<PlanArguments>();
        add_configuration(app, arguments->configuration, false);
        app.add_option("-n,--ranks",
                       arguments->ranks,
                       "number of ranks (default: ranks of the job, or of parallel.*)")
            ->transform(whole_number(1, 1 << 20));
        auto* device =
            app.add_option("--device", arguments->device, "device of each rank: " + known_names());
        device->check(not_empty_text());
        app.add_option("--memory-per-rank",
                       arguments->memory,
                       "memory per rank, in bytes or with a unit, as in 80e9, 80GB or 16GiB")
            ->transform(CLI::AsNumberWithUnit(byte_units()))
            ->check(positive_number());
        app.add_option(
               "--flops-per-rank", arguments->flops, "compute throughput per rank, in FLOP/s")
            ->check(positive_number());
        app.add_option("--bandwidth-per-rank",
                       arguments->bandwidth,
                       "bandwidth from a rank to the others, in bytes per second")
            ->check(positive_number());
        app.add_option(
               "--machine-profile",
               arguments->machine,
               fmt::format("machine profile to read, or to write with --calibrate (default: {})",
                           usual_table))
            ->check(not_empty_text())
            ->excludes(device);
        app.add_flag("--longest",
                     arguments->longest,
                     "longest data.seq_length that fits in the memory of a rank, with and without "
                     "memory.bptt_chunk_length, instead of other layouts");
        app.add_flag("--calibrate",
                     arguments->calibrate,
                     "measurement of this machine with all its cores and all ranks of the job at "
                     "once, saved as its profile");
        return [arguments](Session& session) { return run_plan(*arguments, session); };
      }};
}

}  // namespace longspan
