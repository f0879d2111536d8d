// longspan plan: what a run will take, on any number of ranks, before it is started.
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

#include "framework/core/byte_text.h"
#include "framework/core/gpu.h"
#include "framework/planning/calibration.h"
#include "framework/planning/model_flops.h"
#include "framework/training_loop/reading_progress.h"
#include "framework/training_loop/run_device.h"
#include "framework/training_loop/threads.h"
#include "launch/cli/calibration_models.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/layout_choice.h"
#include "launch/cli/plan_text.h"
#include "launch/cli/saved_tokenizer.h"

namespace longspan {
namespace {

// The table of a machine that --calibrate writes.
constexpr const char* usual_table = "runs/machine.json";

struct PlanArguments {
  ConfigurationArguments configuration;
  std::optional<int> ranks;
  std::string device;
  std::optional<double> memory;
  std::optional<double> flops;
  std::optional<double> bandwidth;
  std::optional<std::string> machine;
  bool calibrate = false;

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
      "longspan plan: --device is \"{}\"; known are {}; for another give --memory, --flops and "
      "--bandwidth, and --set run.device=cuda where it is a GPU",
      name,
      known_names());
}

bool is_given(const PlanArguments& arguments) {
  return arguments.memory || arguments.flops || arguments.bandwidth;
}

// What the ranks have as far as the command line does not say. Collective: what `train` would take
// here, if nothing else is said.
struct Here {
  Processor processor = Processor::cpu;
  double memory = 0;  // of a GPU for each rank
};
Here find_here(const PlanArguments& arguments, const RunConfig& settings, const Session& session) {
  const DeviceChoice choice = settings.run.device;
  const Communicator& world = session.world();
  if (!arguments.device.empty()) return {Processor::gpu};
  if (is_given(arguments)) {
    bool takes_gpu = choice == DeviceChoice::cuda;
    if (choice == DeviceChoice::automatic)
      takes_gpu = world.all_reduce(std::int64_t{!gpu::usable().empty()}, Reduction::minimum) == 1;
    return {takes_gpu ? Processor::gpu : Processor::cpu};
  }
  const Device device = run_device(settings.run, settings.precision, world, session.local_rank());
  if (!device.on_gpu()) return {};
  if (arguments.machine && !arguments.calibrate)
    throw ConfigurationError(
        "longspan plan: --machine is about CPUs, and this run would take a GPU; set "
        "run.device=cpu");
  // Other ranks than those of this job have a GPU each.
  return {Processor::gpu,
          arguments.ranks && *arguments.ranks != world.size()
              ? memory_of_gpu(device.state().gpu(), 1)
              : memory_share(world, device, session.local_size()).bytes};
}

// What each rank has, a named device or the share of one of `local_ranks` ranks of this machine;
// `assumed`: that share of what was measured, as a sentence.
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
    machine.name = "a GPU of this machine";
    machine.memory = here.memory;
  } else {
    machine.name = "this machine";
    if (arguments.machine || std::filesystem::exists(usual_table)) {
      const MachineProfile measured = read_machine(arguments.table());
      machine = shared_among(measured, local_ranks, omp_get_max_threads());
      assumed = fmt::format("{}: measured with {} of {}; here {} share the machine\n",
                            arguments.table(),
                            pluralize(measured.ranks, "rank"),
                            pluralize(measured.threads, "thread"),
                            pluralize(local_ranks, "rank"));
      if (const int cores = omp_get_num_procs(); measured.ranks * measured.threads < cores)
        assumed += fmt::format(
            "that was with {} of {} cores: longspan plan --calibrate measures all at once\n",
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

// How times would become known, where they are not.
std::string without_times(const PlanArguments& arguments, const MachineProfile& machine) {
  if (is_given(arguments)) return "times need --flops, and --bandwidth between ranks\n";
  if (machine.processor == Processor::gpu)
    return fmt::format("times need --flops and --bandwidth of a GPU, or --device: {}\n",
                       known_names());
  return "times are not known yet: longspan plan --calibrate measures this machine once, in some "
         "seconds\n";
}

std::string parameters_text(const StepPlan& plan) {
  return fmt::format(
      "{} parameters ({})\n", plan.parameters, format_si(static_cast<double>(plan.parameters)));
}

bool fits(const StepPlan& plan, const MachineProfile& machine) {
  return machine.memory == 0 || plan.bytes() <= machine.memory;
}

// Adds what the layout of the configuration takes and returns it, where it is one of that many
// ranks; else adds why it is none.
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
        "data.documents.reset_attention_mask: FLOPs and times count attention between tokens of "
        "different "
        "documents too, which a run leaves out\n";
  if (!fits(plan, machine)) text += savings_text(reconfiguration(source), plan, machine, ids);
  return plan;
} catch (const ConfigurationError& error) {
  text += fmt::format("\nnot as the configuration has it: {}\n", error.what());
  return std::nullopt;
}

// The table of the layouts of that many ranks, and where none fits the keys with which the smallest
// would. Throws ConfigurationError where the model has none.
std::string layouts_text(const LayoutPlans& layouts,
                         const ConfigurationText& source,
                         int ranks,
                         const MachineProfile& machine,
                         const DataSizes& ids) {
  if (!layouts.fitting.empty()) {
    const bool has_time = machine.flops_of(layouts.fitting.front().compute) > 0;
    return fmt::format("\nlayouts of {} ranks that fit, {} first\n{}",
                       ranks,
                       has_time ? "fastest" : "smallest",
                       table(layouts.fitting, machine));
  }
  if (layouts.too_large.empty())
    throw ConfigurationError("{}: the model has no layout of {} ranks; of the last one tried: {}",
                             source.file,
                             ranks,
                             layouts.refused);
  const StepPlan& smallest = layouts.too_large.front();
  ConfigurationText as_smallest = source;
  std::ranges::move(layout_settings(smallest), std::back_inserter(as_smallest.settings));
  return fmt::format("\nno layout of {} ranks fits; the smallest\n{}for the first of them: {}",
                     ranks,
                     table(layouts.too_large, machine),
                     savings_text(reconfiguration(as_smallest), smallest, machine, ids));
}

int ranks_of(const PlanArguments& arguments, const RunConfig& settings, int job) {
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
std::string assume_threads(const RunConfig& settings, int local_ranks) {
  set_threads(settings.run.threads, local_ranks);
  const char* const source = settings.run.threads > 0 ? "run.num_threads"
                             : std::getenv("OMP_NUM_THREADS") != nullptr
                                 ? "OMP_NUM_THREADS"
                                 : "an even share of this machine's cores";
  return fmt::format(
      "each rank computes with {}: {}\n", pluralize(omp_get_max_threads(), "thread"), source);
}

#ifdef LONGSPAN_WITH_CUDA
constexpr const char* gpu_assumed = "on GPUs; what libraries take for themselves is not in it\n";
#else
constexpr const char* gpu_assumed =
    "on GPUs, with the scratch of the CPU's kernels: this program was built without CUDA\n";
#endif

// The text, and the bytes of a rank where no layout fits.
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
  const auto say = [&](const std::string& sentence) { inform(session, sentence); };
  const DataSizes ids = planned_ids(settings.task_kind(),
                                    settings.data,
                                    static_cast<std::uint64_t>(settings.run.seed),
                                    throttled_progress(say));
  std::string text = fmt::format(
      "{}: {} {} of {} on {}, {}{}\n",
      source.file,
      settings.family,
      name_of(settings.precision.compute),
      settings.task_kind().words(settings.data).text,
      pluralize(ranks, "rank"),
      machine.name,
      machine.memory > 0 ? fmt::format(" with {} for each", format_bytes(machine.memory)) : "");
  text += machine.processor == Processor::cpu ? threads : gpu_assumed;
  text += speeds;
  if (machine.flops_of(settings.precision.compute) == 0) text += without_times(arguments, machine);
  const auto own = add_own_layout(text, settings, source, ranks, machine, ids);
  Planned result;
  result.memory = machine.memory;
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
  // All cores at once, whatever OMP_NUM_THREADS says: what a core reaches alone is not what each
  // reaches beside the others, nor do those that rest belong to fewer ranks in a run.
  const int threads = omp_get_max_threads();
  omp_set_num_threads(static_cast<int>(core_share(session.local_size())));
  MachineProfile machine = measure_machine(world, session.local_size(), calibration_models());
  omp_set_num_threads(threads);
  machine.memory = memory_of_rank(session.local_size());
  if (world.rank() == 0) write_machine(machine, arguments.table());
  const bool is_far_off = machine.least_trial < 0.75 || machine.most_trial > 1.33;
  print(session,
        fmt::format(
            "each of {} with {}: {}FLOP/s in float32, {}FLOP/s in bfloat16, {}FLOP/s in float16, "
            "{}B/s of memory{}; {}{}; written to {}\n",
            pluralize(world.size(), "rank"),
            pluralize(machine.threads, "thread"),
            format_si(machine.flops),
            format_si(machine.bf16_flops),
            format_si(machine.f16_flops),
            format_si(machine.memory_bandwidth),
            world.size() > 1 ? fmt::format(", {}B/s to others", format_si(machine.bandwidth)) : "",
            trial_text(machine),
            is_far_off ? " (if something else ran meanwhile, calibrate again)" : "",
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
    throw ConfigurationError("longspan plan: CONFIG or --calibrate is required");
  const ConfigurationText source =
      read_configuration(arguments.configuration.file, arguments.configuration.settings, world);
  const auto configuration = configure(source);
  take_saved_tokenizer(*configuration, world);
  warn(session, configuration->table.warnings());
  const Here here = find_here(arguments, *configuration, session);
  if (world.rank() == 0) {
    const Planned planned = plan(arguments, source, *configuration, here, session);
    print(session, planned.text);
    if (planned.too_large)
      throw ConfigurationError(
          "{}: expected at most {} for each rank, found {}; set keys that the plan names, use "
          "more ranks or a smaller model",
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
          "Say what a run takes before it is started: parameters, memory, work, traffic and time "
          "of "
          "each layout. The exit code is 2 where no layout fits",
      .examples =
          "  longspan plan configs/quickstart.yaml\n"
          "  longspan plan configs/gpt2-124m.yaml --ranks 64 --device h100\n"
          "  longspan plan configs/gpt2-124m.yaml --ranks 8 --memory 16GiB --flops 5e13 "
          "--bandwidth 1e10\n"
          "  longspan run -n 2 -- plan --calibrate\n",
      .bind = [](CLI::App& app) -> Action {
        const auto arguments = std::make_shared<PlanArguments>();
        add_configuration(app, arguments->configuration, false);
        app.add_option("--ranks",
                       arguments->ranks,
                       "how many; without it those of the job, or of parallel.*")
            ->transform(whole_number(1, 1 << 20));
        auto* device = app.add_option(
            "--device", arguments->device, "what each rank runs on: " + known_names());
        device->check(not_empty_text());
        app.add_option("--memory", arguments->memory, "bytes of a rank, as in 16GiB, 80GB or 80e9")
            ->transform(CLI::AsNumberWithUnit(byte_units()))
            ->check(positive_number());
        app.add_option("--flops", arguments->flops, "FLOP/s of a rank")->check(positive_number());
        app.add_option("--bandwidth", arguments->bandwidth, "bytes a second from a rank to others")
            ->check(positive_number());
        app.add_option(
               "--machine",
               arguments->machine,
               fmt::format("the table of this machine that --calibrate writes; without it {}",
                           usual_table))
            ->check(not_empty_text())
            ->excludes(device);
        app.add_flag("--calibrate",
                     arguments->calibrate,
                     "measure this machine, with all its cores and all ranks of the job at once");
        return [arguments](Session& session) { return run_plan(*arguments, session); };
      }};
}

}  // namespace longspan
