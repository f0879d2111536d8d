#include "launch/cli/loaded_run.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "framework/tasks/labeled_task.h"
#include "framework/training_loop/resume.h"
#include "framework/training_loop/run_device.h"
#include "framework/training_loop/threads.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/no_checkpoint.h"
#include "launch/cli/reading_progress.h"

namespace longspan {
namespace {

MeshShape layout(const Configuration& configuration, int ranks, DefaultAxis axis) {
  ParallelOptions parallel = configuration.parallel;
  const OptionTable& table = configuration.table;
  if (axis == DefaultAxis::tensor && !table.is_given("parallel.tensor_parallel_size") &&
      !table.is_given("parallel.data_parallel_size"))
    parallel.tensor = std::max<std::int64_t>(1, ranks / parallel.context);
  return mesh_shape(parallel, ranks);
}

// The configuration in the run's directory is data: only what the command line sets may be a user
// error.
std::unique_ptr<Configuration> understood(const ConfigurationText& source,
                                          const RunLocation& location) {
  if (!location.run) return configure(source);
  ConfigurationText written = source;
  written.settings.clear();
  try {
    configure(written);
  } catch (const ConfigurationError& error) {
    throw DataError("{}", error.what());
  }
  return configure(source);
}

}  // namespace

void add_run(CLI::App& app, RunArguments& arguments) {
  app.add_option("RUN",
                 arguments.path,
                 "run directory, one of its checkpoints, or the YAML configuration file of a run")
      ->required()
      ->check(not_empty_text());
  app.add_option(
         "--checkpoint",
         arguments.checkpoint,
         "checkpoint to use: a directory, the name or number of a step of the run, or best, by "
         "checkpoint.best_metric (default: newest valid checkpoint)")
      ->check(not_empty_text());
  app.add_option("--set",
                 arguments.settings,
                 "configuration key and its value; repeatable. Keys of parallel.* have effect only "
                 "here, not in the configuration.")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

LoadedRun load_run(const RunArguments& arguments, Session& session, DefaultAxis axis) {
  const Communicator& world = session.world();
  const RunLocation location = locate_run(arguments.path);
  ConfigurationText source =
      read_configuration(location.configuration.string(), arguments.settings, world);
  source.of_another_job = true;
  auto configuration = understood(source, location);
  set_threads(configuration->run.threads, session.local_size());
  auto spinning = std::make_unique<SpinControl>(session.local_size());
  session.set_time_limit(std::chrono::duration<double>(configuration->run.time_limit));

  std::optional<std::string> named;
  if (location.checkpoint) named = location.checkpoint->string();
  if (!arguments.checkpoint.empty()) named = arguments.checkpoint;
  const std::filesystem::path run = location.run.value_or(configuration->run.directory.text());
  std::optional<OpenedCheckpoint> found =
      open_checkpoint(named, run, world, reading_progress(run.string(), session));
  if (!found) throw DataError("{}", no_checkpoint_message(run));
  OpenedCheckpoint& opened = *found;
  if (world.rank() == 0) {
    for (const std::string& sentence : opened.skipped)
      std::fprintf(stderr, "longspan: skipped: %s\n", sentence.c_str());
  }

  // Another program may have saved it without a configuration.
  if (const std::string& trained = opened.checkpoint.info().configuration; !trained.empty())
    require_same_model(
        opened.checkpoint,
        change_since(opened.checkpoint,
                     [&](const std::string& saved) { return compare(*configuration, saved); }),
        "use the model of the checkpoint");
  Tokenizer tokenizer = tokenizer_of(opened.checkpoint, configuration->data);
  const ProcessMesh mesh(world, layout(*configuration, world.size(), axis));
  const Device device =
      run_device(configuration->run, configuration->precision, world, session.local_rank());
  auto collectives =
      std::make_unique<GpuCollectives>(configuration->parallel.transport, mesh, device);
  const LabelSet labels = labels_of(opened.checkpoint.scalars(), opened.checkpoint.path().string());
  if (configuration->task_kind().has_labels && labels.size() == 0)
    throw DataError(
        "{}: expected a classification head, found only the weights of a backbone; fine-tune them "
        "in a run with training.init_from.path",
        opened.checkpoint.path().string());
  const std::optional<ImageShape> image = image_of(opened.checkpoint.scalars());
  const std::int64_t ids = configuration->task_kind().vocabulary(tokenizer, configuration->data);
  auto model = configuration->make_model({.vocabulary = ids,
                                          .classes = labels.size(),
                                          .is_policy = configuration->task_kind().is_policy,
                                          .segment = configuration->longest(),
                                          .compute = configuration->precision.compute,
                                          .device = device,
                                          .mesh = mesh,
                                          .memory = configuration->memory,
                                          .tuning = configuration->training.tuning,
                                          .image = image});
  load_weights(opened.checkpoint, model->parameters());
  model->parameters().set_steps(
      opened.checkpoint.scalars().get_or<std::int64_t>("trainer/steps", 0));
  return {std::move(spinning),
          std::move(configuration),
          run,
          std::move(opened.checkpoint),
          std::move(tokenizer),
          labels,
          image,
          std::move(collectives),
          std::move(model)};
}

}  // namespace longspan
