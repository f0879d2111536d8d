#include "launch/cli/loaded_run.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/tasks/labeled_task.h"
#include "framework/training_loop/resume.h"
#include "framework/training_loop/run_device.h"
#include "framework/training_loop/run_directory.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/saved_config.h"
#include "launch/cli/text_table.h"

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
  app.add_option(
         "--set",
         arguments.settings,
         "configuration key and its value; repeatable. parallel.* of the run's configuration is "
         "ignored: only --set changes the layout.")
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
  for (const std::string& sentence : opened.skipped) warn(session, {"skipped: " + sentence});

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

std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& path) {
  std::error_code unused;
  if (!std::filesystem::exists(path, unused))
    throw DataError("{}: no such directory", path.string());
  if (!std::filesystem::is_directory(path, unused)) {
    throw DataError("{}: expected the directory of a checkpoint or run, found a file",
                    path.string());
  }
  for (const auto& directory : {path, path / "checkpoints"}) {
    std::vector<std::filesystem::path> steps;
    for (const std::int64_t step : steps_in(directory))
      steps.push_back(directory / step_name(step));
    if (!steps.empty()) return steps;
  }
  // A damaged step still has its name, and a valid one may have been renamed.
  const bool is_step_name = path.filename().string().starts_with("step-") ||
                            std::filesystem::exists(path / "manifest.json", unused);
  if (is_step_name) return {path};
  const bool is_folder_of_run = (path / "").parent_path().filename() == "checkpoints";
  const auto run = is_folder_of_run ? (path / "").parent_path().parent_path() : path;
  if (std::filesystem::exists(run / "config.yaml", unused) || is_running(run))
    throw DataError("{}", no_checkpoint_message(run));
  throw DataError("{}: expected the directory of a checkpoint or run, found no checkpoint",
                  path.string());
}

namespace {

namespace fs = std::filesystem;

// Returns the value as an integer, or -1.
std::int64_t count_of(const std::map<std::string, std::string>& words, const char* key) {
  const auto found = words.find(key);
  if (found == words.end()) return -1;
  const std::string& word = found->second;
  std::int64_t count = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  return error == std::errc() && end == word.data() + word.size() ? count : -1;
}

// Returns when it saves next, as a clause; empty if its configuration lacks the interval.
std::string next_save(std::int64_t logged, std::int64_t every, std::int64_t steps) {
  if (every < 0 || steps < 0) return "";
  if (every > 0 && (logged / every + 1) * every < steps)
    return fmt::format("; first save after step {}", (logged / every + 1) * every);
  return fmt::format("; saves at the end, after step {}", steps);
}

}  // namespace

std::string no_checkpoint_message(const fs::path& run) {
  const fs::path configuration = run / "config.yaml";
  std::error_code error;
  const bool is_known = fs::exists(configuration, error);
  const auto words = saved_configuration(configuration).values;
  const std::int64_t logged = last_logged_step(run);
  const std::int64_t steps = count_of(words, "training.max_steps");
  const auto family = words.find("model.family");
  std::string text = fmt::format("{}: no checkpoint yet", run.string());
  if (is_known)
    text += fmt::format(" ({}{})",
                        configuration.string(),
                        family == words.end() ? "" : ": " + truncated(family->second));
  const std::string of_steps = steps > 0 ? fmt::format(" of {}", steps) : "";
  const std::string so_far = logged > 0 ? fmt::format("last logged step {}{}", logged, of_steps)
                                        : fmt::format("no step{} logged", of_steps);
  if (is_running(run))
    return fmt::format("{}; training now: {}{}",
                       text,
                       so_far,
                       next_save(logged, count_of(words, "checkpoint.save_interval"), steps));
  return fmt::format("{}; not running: {}; {}",
                     text,
                     so_far,
                     is_known ? "run longspan train " + configuration.string() : "train it first");
}

}  // namespace longspan
