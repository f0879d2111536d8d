#include "framework/training_loop/training_context.h"

#include <omp.h>

#include <chrono>

#include "framework/core/crash_handler.h"
#include "framework/core/span.h"
#include "framework/planning/machine.h"
#include "framework/training_loop/memory_report.h"
#include "framework/training_loop/progress.h"
#include "framework/training_loop/run_device.h"

namespace longspan {

namespace {

ProcessMesh make_mesh(Session& session, const RunConfig& settings) {
  session.set_time_limit(std::chrono::duration<double>(settings.run.time_limit));
  set_threads(settings.run.threads, session.local_size());
  const Communicator& world = session.world();
  const ProcessMesh mesh(world, mesh_shape(settings.parallel, world.size()));
  require_divisible(settings, mesh.shape);
  return mesh;
}

RunDirectory& opened(std::optional<RunDirectory>& directory,
                     const ConfigPath& path,
                     const ProcessMesh& mesh) {
  if (!directory) {
    directory.emplace(path, mesh.world);
    directory->mark_running(mesh.shape);
  }
  return *directory;
}

// Silent on all ranks but one. The message that ends a failed run is also in the file, from
// whichever rank it comes, and however the run ends.
Log open_log(Session& session,
             const Console& console,
             const RunDirectory& directory,
             LogLevel least) {
  session.set_listener([file = directory.log()](const char* sentence) {
    append_to_log(file, LogLevel::error, sentence);
  });
  set_crash_log(directory.log());
  if (session.world().rank() != 0) return {};
  return Log(console, directory.log(), least);
}

std::unique_ptr<Task> open_task(const RunConfig& settings,
                                const ProcessMesh& mesh,
                                const Device& device,
                                const ProgressCallback& listener,
                                const DocumentStreamFactory& documents) {
  if (documents && !settings.task_kind().supports_documents)
    throw ConfigurationError(
        "run.task: {} does not support documents passed by a program; set it to language_modeling",
        settings.task);
  return settings.task_kind().open({.data = settings.data,
                                    .run = settings.run.directory.text(),
                                    .mesh = mesh,
                                    .host = device.host(),
                                    .seed = static_cast<std::uint64_t>(settings.run.seed),
                                    .parts = settings.training.accumulation,
                                    .validation_batches = settings.training.validation_batches,
                                    .validation_decoded = settings.training.validation_decoded,
                                    .listener = listener,
                                    .documents = documents});
}

std::unique_ptr<Model> make_model(const Session& session,
                                  const RunConfig& settings,
                                  const Reconfigure& reconfigure,
                                  const DataSizes& ids,
                                  const ProcessMesh& mesh,
                                  const Device& device) {
  check_memory_fits(settings, mesh, device, session.local_size(), ids, reconfigure);
  return settings.make_model(model_setting(settings, ids, mesh, device));
}

// Data that the model or the program generates is not read ahead.
std::size_t batches_ahead(const RunConfig& settings, const TrainingHooks& hooks) {
  const bool is_made =
      settings.task_kind().is_policy || hooks.documents || settings.data.sequence_level.is_used();
  return is_made ? 0 : static_cast<std::size_t>(settings.data.read_ahead);
}

}  // namespace

TrainingContext::TrainingContext(const RunInputs& inputs)
    : RunInputs(inputs),
      mesh(make_mesh(session, settings)),
      threads(mesh.world.all_reduce(std::int64_t{omp_get_max_threads()}, Reduction::maximum)),
      spinning(session.local_size()),
      device(run_device(settings.run, settings.precision, mesh.world, session.local_rank())),
      collectives(settings.parallel.transport, mesh, device),
      directory(opened(life.directory, settings.run.directory, mesh)),
      console(is_root() && !hooks.is_quiet ? Console(stdout, terminal_of_output()) : Console()),
      log(open_log(session, console, directory, settings.run.log_level)),
      profiler(hooks.profiled, mesh, directory, log),
      tracker(settings, directory, mesh.world),
      task(open_task(settings, mesh, device, reading(stop_request, log), hooks.documents)),
      trainer(make_model(session, settings, text.reconfigure, ids(), mesh, device),
              settings.training,
              Random(static_cast<std::uint64_t>(settings.run.seed)).child("steps"),
              settings.precision),
      loader(task->source_by(trainer.model()), batches_ahead(settings, hooks), profiler.reader()),
      progress(console, log, settings.metrics.console),
      saver(settings.checkpoint,
            directory.checkpoints(),
            mesh.world,
            session.local_size(),
            log,
            profiler.saver()),
      speed(settings, ids(), mesh, device) {}

DataSizes TrainingContext::ids() const {
  DataSizes ids(settings.task_kind().vocabulary(task->tokenizer(), settings.data), task->classes());
  ids.batches = task->batches();
  ids.image = task->image();
  return ids;
}

RunLayout TrainingContext::layout() const {
  return {mesh.shape,
          threads,
          settings.parallel.zero,
          !device.on_gpu()     ? "cpu"
          : collectives.nccl() ? "cuda with NCCL"
                               : "cuda"};
}

ResumeContext TrainingContext::resuming() const {
  return {settings, text, directory, mesh.world, log, stop_request};
}

double ThroughputMeter::measure_peak() {
  peak_ = mesh_.world.all_reduce(matmul_peak(device_, dtype_), Reduction::sum);
  return peak_;
}

double ThroughputMeter::flops_of(const Batch& batch, std::int64_t remembered, std::int64_t steps) {
  if (mesh_.world.rank() != 0) return 0;
  const Span span({.name = "counting operations"});
  const TimelineScope nowhere(nullptr);  // no computation runs
  const auto count = needed_flops_.of(batch.fields, mesh_.data.size(), remembered, steps);
  return count ? count->total() : 0;
}

StepTiming ThroughputMeter::timing() {
  const std::int64_t memory = device_.allocator().report().total.peak;
  const StepTiming timing = {
      .tokens_per_second = tokens_per_second(),
      .mfu = utilization(),
      .peak_memory_bytes = mesh_.world.all_reduce(memory, Reduction::maximum),
      .times = meter_.mean_times()};
  reset();
  return timing;
}

}  // namespace longspan
