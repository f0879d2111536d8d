#include "framework/runs/training_run.h"

#include <omp.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "framework/comm/launcher.h"
#include "framework/core/stopwatch.h"
#include "framework/data/batch_loader.h"
#include "framework/data/document_supply.h"
#include "framework/decoding/sampling.h"
#include "framework/kernels/matmul.h"
#include "framework/planning/needed_flops.h"
#include "framework/planning/peak.h"
#include "framework/runs/best_step.h"
#include "framework/runs/checkpoint_saver.h"
#include "framework/runs/checkpoint_values.h"
#include "framework/runs/introduction.h"
#include "framework/runs/loading.h"
#include "framework/runs/log.h"
#include "framework/runs/memory_advice.h"
#include "framework/runs/memory_table.h"
#include "framework/runs/metrics.h"
#include "framework/runs/progress.h"
#include "framework/runs/reading.h"
#include "framework/runs/resume.h"
#include "framework/runs/run_device.h"
#include "framework/runs/run_directory.h"
#include "framework/runs/run_parts.h"
#include "framework/runs/saved_losses.h"
#include "framework/runs/skipped_data.h"
#include "framework/runs/start_from.h"
#include "framework/runs/step_meter.h"
#include "framework/runs/stop_request.h"
#include "framework/runs/stragglers.h"
#include "framework/runs/tracker.h"
#include "framework/tasks/labelled_task.h"
#include "framework/train/divergence.h"
#include "framework/train/trainer.h"

namespace longspan {
namespace {

constexpr std::int64_t memory_settles_after = 3;  // steps, until every buffer has been used

// What the model, or the program, makes itself it makes when it is asked for.
std::size_t batches_ahead(const Settings& settings, const TrainingHooks& hooks) {
  const bool is_made = settings.task_kind().acts || hooks.documents;
  return is_made ? 0 : static_cast<std::size_t>(settings.data.read_ahead);
}

// What stays when a run goes back and another one goes on from what it saved.
struct RunLife {
  NamedPath wish;                         // the user's own checkpoint.resume
  std::optional<RunDirectory> directory;  // its lock is held all the time
  std::string diverged;                   // why it went back; empty where it has not
};

RunDirectory& opened(std::optional<RunDirectory>& directory,
                     const NamedPath& path,
                     const Communicator& world) {
  if (!directory) directory.emplace(path, world);
  return *directory;
}

class TrainingRun {
 public:
  TrainingRun(Session& session,
              const Settings& settings,
              const TrainingRunText& text,
              const TrainingHooks& hooks,
              const StopRequest& stop_request,
              RunLife& life);
  // Nothing where it has diverged and is to begin again from what it saved, without the data on
  // which it did.
  std::optional<ExitCode> run();
  NamedPath resume_after_divergence() const {
    return longspan::resume_after_divergence(settings_.checkpoint.resume, has_saved());
  }

 private:
  ResumingRun resuming() const {
    return {settings_, text_, directory_, mesh_.world, log_, stop_request_};
  }
  ModelIds ids() const;
  ExitCode train();
  [[noreturn]] void end_diverged(const DivergedError& error) const;
  void end_what_is_under_way(const DivergedError& error);
  bool may_go_back() const { return skipped_.times < settings_.training.skip_after_divergence; }
  void go_back(const DivergedError& error);
  bool has_saved() const { return saver_.step() > first_step_; }
  Batch next_batch();
  void resume(const std::filesystem::path& path);
  void resume_best(const Scalars& scalars);
  bool is_best_so_far(const Measurement& validation);
  void step();
  bool due(std::int64_t every) const { return every > 0 && trainer_.steps() % every == 0; }
  bool last_step() const { return trainer_.steps() >= settings_.training.steps; }
  std::optional<Measurement> validate();
  void take_samples();
  StepMetrics metrics_after(const StepResult& result) const;
  void tell_program(const StepResult& result, const std::optional<Measurement>& validation) const;
  bool report(const StepResult& result);
  void show(const StepResult& result, bool is_logged);
  double flops_of_step(std::int64_t remembered);
  StepTiming timing();
  RunLayout layout() const;
  TrainingState state();
  bool save(bool beside);
  void finish_save();
  void remove_older();
  ExitCode end_unsaved() const;
  void judge_reconstruction(const StepResult& result) const;
  void keep_directory();
  void write_profile();

  bool speaks() const { return mesh_.world.rank() == 0; }
  bool wants_stop() const {
    return stop_request_.asked() || (hooks_.wants_stop && hooks_.wants_stop());
  }

  std::int64_t program_bytes_ = process_memory().now;
  const StopRequest& stop_request_;
  Session& session_;
  const Settings& settings_;
  const TrainingRunText& text_;
  const TrainingHooks& hooks_;
  RunLife& life_;
  ProcessMesh mesh_;
  std::int64_t threads_;  // of the rank that has most: nodes may differ
  Device device_;
  GpuCollectives collectives_;
  RunDirectory& directory_;
  Console console_;
  Log log_;
  Profiler profiler_;
  Tracker tracker_;
  std::unique_ptr<Task> task_;
  Trainer trainer_;
  BatchLoader loader_;
  Progress progress_;
  CheckpointSaver saver_;
  std::string run_id_;
  SavedLosses losses_;
  std::optional<BestSoFar> best_;
  SkippedData skipped_;
  double peak_ = 0;  // FLOP/s of all ranks
  std::int64_t first_step_ = 0;
  NeededFlops needed_flops_;
  StepMeter meter_;
  Stragglers stragglers_;
  bool stopping_ = false;
  Batch batch_ = {};                  // of the last step
  bool has_validation_loss_ = false;  // the weights after it too, of the validation text
  bool save_is_due_ = false;
  bool is_sound_ = true;          // of the last step: its weights have a finite loss and gradient
  std::int64_t last_update_ = 0;  // the last step here that was not skipped
};

TrainingRun::TrainingRun(Session& session,
                         const Settings& settings,
                         const TrainingRunText& text,
                         const TrainingHooks& hooks,
                         const StopRequest& stop_request,
                         RunLife& life)
    : stop_request_(stop_request),
      session_(session),
      settings_(settings),
      text_(text),
      hooks_(hooks),
      life_(life),
      mesh_(make_mesh(session, settings)),
      threads_(mesh_.world.all_reduce(std::int64_t{omp_get_max_threads()}, Reduction::maximum)),
      device_(run_device(settings.run, settings.precision, mesh_.world, session.local_rank())),
      collectives_(settings.parallel.transport, mesh_, device_),
      directory_(opened(life.directory, settings.run.directory, mesh_.world)),
      console_(speaks() && !hooks.is_quiet ? Console(stdout, terminal_of_output()) : Console()),
      log_(open_log(session, console_, directory_, settings.run.log_level)),
      profiler_(hooks.profiled, mesh_, directory_, log_),
      tracker_(settings, directory_, mesh_.world),
      task_(open_task(settings, mesh_, device_, reading(stop_request_, log_), hooks.documents)),
      trainer_(make_model(session, settings, text.reconfigure, ids(), mesh_, device_),
               settings.training,
               Random(static_cast<std::uint64_t>(settings.run.seed)).child("steps"),
               settings.precision),
      loader_(
          task_->source_by(trainer_.model()), batches_ahead(settings, hooks), profiler_.reader()),
      progress_(console_, log_, settings.metrics.console),
      saver_(settings.checkpoint,
             directory_.checkpoints(),
             mesh_.world,
             session.local_size(),
             log_,
             profiler_.saver()),
      best_(best_so_far(settings)),
      needed_flops_(settings, ids()) {
  if (const auto found = checkpoint_to_resume(resuming())) {
    resume(*found);
    if (!settings.training.start_from.path.empty())
      log_.info("training.start_from is not used: the run goes on from a checkpoint");
  } else {
    run_id_ = new_run_id(mesh_.world);
    put_metrics_aside(resuming(), run_id_);
    const ReadWatch watch = watch_of(resuming(), settings.training.start_from.path);
    Scalars of_data;
    task_->save(of_data);
    const LabelSet labels = labels_of(of_data, settings.run.directory.text());
    start_from({settings, text, task_->tokenizer(), labels, mesh_.world, log_, watch},
               trainer_.model());
    if (life_.diverged.empty()) skipped_ = skipped_data_from(resuming(), {}, {}, run_id_);
  }
  first_step_ = trainer_.steps();
  // What a run that went back has written itself is newer than what it began from.
  if (!life_.diverged.empty()) skipped_ = read_skipped_data(directory_, mesh_.world);
  if (skipped_.times > 0)
    log_.info("passes over {} batches; has gone back {} times ({})",
              skipped_.batches(),
              skipped_.times,
              directory_.skipped().string());
  directory_.write("config.yaml", text.configuration);
  tracker_.begin({run_id_,
                  first_step_,
                  text.configuration,
                  text.compare(text.configuration).saved,
                  trainer_.tokens()},
                 *task_,
                 trainer_.model(),
                 log_);
  peak_ = mesh_.world.all_reduce(matmul_peak(device_, settings.precision.compute), Reduction::sum);
  introduce(log_,
            {settings_,
             text_.warnings,
             mesh_,
             device_,
             collectives_,
             trainer_.model().parameters(),
             *task_,
             threads_,
             peak_});
  profiler_.tell_of_missed(first_step_);
}

ModelIds TrainingRun::ids() const {
  ModelIds ids(settings_.task_kind().vocabulary(task_->tokenizer(), settings_.data),
               task_->classes());
  ids.batches = task_->batches();
  ids.image = task_->image();
  return ids;
}

void TrainingRun::resume(const std::filesystem::path& path) {
  const Checkpoint checkpoint = open_run_checkpoint(path, watch_of(resuming()));
  judge_checkpoint(resuming(), checkpoint, *task_, loader_.cursor_rows());
  run_id_ = checkpoint.info().run_id;
  losses_ = SavedLosses::of(checkpoint.scalars());
  const CursorRows rows = loader_.cursor_rows();
  // An older version may have kept less of it.
  const Tensor now = loader_.cursors();
  const Tensor cursors = Tensor::empty(now.shape().with(1, checkpoint.shape_of(cursor_name)[1]),
                                       DType::i64,
                                       now.device(),
                                       MemoryTag::workspace);
  trainer_.restore(checkpoint, rows, cursors.shape()[0]);
  StateTensor piece;
  piece.name = cursor_name;
  piece.tensor = cursors;
  piece.global_shape = cursors.shape().with(0, rows.total);
  piece.offset = {rows.begin, 0};
  checkpoint.read(piece);
  loader_.restore(cursors);
  loader_.restore_rest(checkpoint);
  const std::string restored = loader_.restored();
  // One that was named may lie anywhere; this directory need not hold it, or not a good one.
  if (settings_.checkpoint.resume == "auto") saver_.set_step(trainer_.steps());
  log_.info("resumed from {} at step {}", path.string(), trainer_.steps());
  resume_best(checkpoint.scalars());
  if (life_.diverged.empty())
    skipped_ = skipped_data_from(resuming(),
                                 path,
                                 checkpoint.scalars().get_or<std::string>(skipped_data_scalar, ""),
                                 run_id_);
  if (!restored.empty()) log_.warning("{}", restored);
  judge_layout(log_, checkpoint, layout());
}

// A best step that this directory does not hold, as of another run, is none that could be kept.
void TrainingRun::resume_best(const Scalars& scalars) {
  const std::string& wanted = settings_.checkpoint.keep_best;
  if (const auto before = best_step(scalars); before && before->figure != wanted)
    log_.warning("step {}, the best by {} so far, is kept no longer: checkpoint.keep_best is {}",
                 before->step,
                 before->figure,
                 wanted.empty() ? "not set" : wanted);
  if (!best_) return;
  best_->restore(scalars);
  if (!best_->best()) return;
  const std::filesystem::path path = directory_.checkpoints() / step_name(best_->best()->step);
  std::error_code unused;
  const std::int64_t is_there = speaks() && std::filesystem::is_directory(path, unused) ? 1 : 0;
  if (mesh_.world.all_reduce(is_there, Reduction::maximum) == 1) return;
  log_.info("the best step by {} is not in {}: the next validation is taken for the best",
            best_->goal().figure,
            directory_.checkpoints().string());
  best_->forget();
}

bool TrainingRun::is_best_so_far(const Measurement& validation) {
  const bool is_best = best_->add(trainer_.steps(), validation);
  if (const std::string missing = best_->missing(validation); !missing.empty()) {
    log_.warning("{}", missing);
    best_.reset();
  }
  return is_best;
}

std::optional<ExitCode> TrainingRun::run() try {
  return train();
} catch (const DivergedError& error) {
  profiler_.end_step();
  end_what_is_under_way(error);
  if (!may_go_back()) end_diverged(error);
  go_back(error);
  return std::nullopt;
}

// What is being saved is of a state from before.
void TrainingRun::end_what_is_under_way(const DivergedError& error) {
  try {
    finish_save();
  } catch (const Failure& failure) {
    // It would go back to what is not there, and come to a save that fails again.
    if (may_go_back()) {
      log_.warning("{}; does not go back, as a checkpoint could not be saved", error.what());
      throw;
    }
    log_.error("{}", failure.what());
  }
  try {
    write_profile();
  } catch (const Failure& failure) {
    log_.error("{}", failure.what());
  }
}

void TrainingRun::end_diverged(const DivergedError& error) const {
  const std::int64_t allowed = settings_.training.skip_after_divergence;
  // The first rank knows what is saved: another node may see it later.
  const std::string clause = mesh_.world.broadcast(
      speaks() ? where_to_go_on(directory_.checkpoints(), life_.wish) : "", 0);
  throw DivergedError(
      "{}; {}{}",
      error.what(),
      allowed > 0 ? fmt::format("it has gone back {} times, training.skip_after_divergence is {}; ",
                                skipped_.times,
                                allowed)
                  : "",
      clause);
}

void TrainingRun::go_back(const DivergedError& error) {
  progress_.finish();
  keep_directory();
  life_.diverged = error.what();
  const std::int64_t newest =
      step_to_go_back_to(resuming(), has_saved() ? saver_.step() : first_step_, has_saved());
  const std::int64_t first = std::max(newest + 1, last_update_);
  skipped_.add(first, trainer_.steps());
  ++skipped_.times;
  try {
    directory_.write(directory_.skipped().filename(), skipped_.to_json());
  } catch (const Failure&) {
    log_.warning("{}; does not go back, as what it would pass over could not be written",
                 error.what());
    throw;
  }
  log_.warning(
      "{}; goes back to step {}, time {} of the {} that training.skip_after_divergence allows, and "
      "passes over the data of steps {} to {}",
      error.what(),
      newest,
      skipped_.times,
      settings_.training.skip_after_divergence,
      first,
      trainer_.steps());
}

ExitCode TrainingRun::train() {
  const bool had_nothing_to_do = last_step();
  if (had_nothing_to_do)
    tell_that_nothing_is_left(log_, trainer_.steps(), settings_.training.steps);
  meter_.begin_again();
  std::string end_of_data;
  try {
    while (!last_step() && !stopping_) {
      profiler_.begin_step(trainer_.steps() + 1);
      step();
      profiler_.end_step();
      if (profiler_.is_complete()) write_profile();
    }
  } catch (const DocumentsEnded& error) {
    if (trainer_.steps() == first_step_) throw;
    profiler_.end_step();
    end_of_data = error.what();
  }
  progress_.finish();
  finish_save();
  const bool is_saved = saver_.step() == trainer_.steps() || save(false);
  if (is_saved && is_sound_) remove_older();
  // Whoever asked it to stop may not wait for long: the checkpoint comes first.
  write_profile();
  if (!is_saved) return end_unsaved();
  if (!end_of_data.empty())
    throw DataError("{}; stopped after step {}, which is saved", end_of_data, trainer_.steps());
  if (stopping_ && !last_step()) {
    log_.info("stopped on request after step {}; start again{} to go on",
              trainer_.steps(),
              how_to_resume(life_.wish));
    return ExitCode::stopped;
  }
  if (had_nothing_to_do) return ExitCode::ok;
  log_.info("done: {} steps, {} tokens, {} steps skipped",
            trainer_.steps(),
            trainer_.tokens(),
            trainer_.skipped());
  return ExitCode::ok;
}

// The weights after the last step give no finite loss or gradient. Who asked the run to stop can
// have it go on from what was saved before.
ExitCode TrainingRun::end_unsaved() const {
  const std::int64_t before = saver_.step() >= 0 ? saver_.step() : first_step_;
  if (stopping_ && !last_step() && before > 0) {
    log_.warning(
        "stopped on request after step {}, which is not saved: started again{} the run goes on "
        "from step {}; if it comes to this again, {}",
        trainer_.steps(),
        saver_.step() >= 0 ? how_to_resume(life_.wish) : "",
        before,
        calmer_training(settings_.training));
    return ExitCode::stopped;
  }
  throw DivergedError(
      "training diverged: the weights after step {} give no finite loss or gradient and are not "
      "saved; {}",
      trainer_.steps(),
      calmer_training(settings_.training));
}

Batch TrainingRun::next_batch() {
  const Timed timed(meter_.times().reading);
  const std::int64_t step = trainer_.steps() + 1;
  const std::int64_t passed = skipped_.before_step(step);
  if (passed == 0) return loader_.next();
  const std::string place = loader_.next().place;
  for (std::int64_t i = 1; i < passed; ++i) loader_.next();
  log_.info(
      "before step {} the data of {} batches are passed over, which begin {}: training has "
      "diverged on them",
      step,
      passed,
      place);
  Batch batch = loader_.next();
  batch.fresh = true;  // it does not follow what its rows carry
  return batch;
}

void TrainingRun::step() {
  const Stopwatch stopwatch;
  if (speaks()) tell_launcher(fmt::format("step {}", trainer_.steps() + 1));
  batch_ = next_batch();
  const std::int64_t remembered = batch_.fresh     ? 0
                                  : batch_.carried ? batch_.carried->length()
                                                   : trainer_.carried_length();
  const std::int64_t check = settings_.memory.reconstruction_check_every;
  const bool measure = check > 0 && (trainer_.steps() + 1) % check == 0;
  const auto waited_before = session_.waited();
  const StepResult result = trainer_.step(batch_,
                                          {.stop = [this] { return wants_stop(); },
                                           .measure = measure,
                                           .writing = saver_.writing(),
                                           .after_loss =
                                               [this](double loss) {
                                                 const std::int64_t step = saver_.step();
                                                 if (saver_.judge(loss)) return;
                                                 save_is_due_ = true;
                                                 if (best_) best_->withdraw(step);
                                               },
                                           .before_update =
                                               [this] {
                                                 const Timed timed(meter_.times().saving);
                                                 tracker_.take_gradients(trainer_);
                                                 saver_.wait_for_copy();
                                               }});
  mesh_.world.check_ledger();
  const double waited = (session_.waited() - waited_before).count();
  meter_.times().waiting += waited;
  const double seconds = stopwatch.seconds();
  stragglers_.add({.seconds = seconds, .waited = waited}, mesh_.world, log_);
  stopping_ = result.stop_requested;
  meter_.add({.seconds = seconds, .tokens = result.tokens, .flops = flops_of_step(remembered)});
  if (result.skipped)
    log_.warning("step {} skipped: loss {}, gradient norm {}{}; batch {}",
                 trainer_.steps(),
                 result.loss,
                 result.gradient_norm,
                 result.loss_scale ? fmt::format(" at loss scale {}", *result.loss_scale) : "",
                 batch_.place);
  if (trainer_.steps() == first_step_ + memory_settles_after)
    log_memory(log_, {device_.allocator().report(), program_bytes_});
  const bool is_best = report(result);
  if (result.reconstruction_error) judge_reconstruction(result);
  if (!result.skipped) last_update_ = trainer_.steps();
  if (!result.writing) finish_save();
  is_sound_ = result.is_sound();
  if (is_sound_) remove_older();
  save_is_due_ = save_is_due_ || is_best || due(settings_.checkpoint.every);
  if (save_is_due_ && is_sound_ && !last_step() && !stopping_) save_is_due_ = !save(true);
  const bool ends = last_step() || stopping_;  // then it is saved
  if (is_best && !ends && saver_.step() != trainer_.steps()) best_->withdraw(trainer_.steps());
}

// Of a step that was skipped for the same reason it says nothing.
void TrainingRun::judge_reconstruction(const StepResult& result) const {
  if (result.skipped) return;
  log_.info("step {}: the rebuilt streams are {:.2e} of their size from the true ones",
            trainer_.steps(),
            *result.reconstruction_error);
  longspan::judge_reconstruction(
      trainer_.steps(), *result.reconstruction_error, settings_.memory.reconstruction_bound);
}

std::optional<Measurement> TrainingRun::validate() {
  has_validation_loss_ = false;
  if (!due(settings_.training.validation_every) && !last_step()) return std::nullopt;
  const Timed timed(meter_.times().validating);
  const Span span({.name = "validation"});
  const std::optional<Measurement> result = trainer_.with_kept_weights([&] {
    std::optional<Measurement> measured = task_->validate(trainer_.model());
    if (!measured || std::isfinite(measured->figures.front().value)) take_samples();
    return measured;
  });
  if (!result) return std::nullopt;
  log_.info("step {}: {}", trainer_.steps(), result->text);
  has_validation_loss_ = std::isfinite(result->figures.front().value);
  return result;
}

// Every rank has the same logits, and goes on without what they do not give.
void TrainingRun::take_samples() try {
  tracker_.take_images(trainer_.model());
  if (const std::int64_t count = settings_.metrics.samples; count > 0)
    tracker_.take_texts(task_->samples(trainer_.model(), count));
} catch (const UnsoundLogits& error) {
  log_.warning("no samples at step {}: {}", trainer_.steps(), error.what());
}

// Only the rank that tells them counts them.
double TrainingRun::flops_of_step(std::int64_t remembered) {
  if (!speaks()) return 0;
  const Span span({.name = "counting operations"});
  const OnTimeline nowhere(nullptr);  // nothing is computed
  const auto count =
      needed_flops_.of(batch_.fields, mesh_.data.size(), remembered, trainer_.steps() - 1);
  return count ? count->total() : 0;
}

StepTiming TrainingRun::timing() {
  const std::int64_t memory = device_.allocator().report().total.peak;
  const StepTiming timing = {
      .tokens_per_second = meter_.tokens_per_second(),
      .model_flops_utilisation = meter_.flops_per_second() / peak_,
      .peak_memory_bytes = mesh_.world.all_reduce(memory, Reduction::maximum),
      .times = meter_.mean_times()};
  meter_.begin_again();
  return timing;
}

void TrainingRun::show(const StepResult& result, bool is_logged) {
  const std::int64_t steps_left = settings_.training.steps - trainer_.steps();
  progress_.update({.step = trainer_.steps(),
                    .steps = settings_.training.steps,
                    .loss = result.loss,
                    .tokens_per_second = meter_.tokens_per_second(),
                    .utilisation = meter_.flops_per_second() / peak_,
                    .seconds_left = meter_.seconds_a_step() * static_cast<double>(steps_left)},
                   is_logged);
}

StepMetrics TrainingRun::metrics_after(const StepResult& result) const {
  StepMetrics metrics = metrics_of(trainer_, result);
  if (const std::int64_t batches = skipped_.until(trainer_.steps()); batches > 0)
    metrics.skipped_batches = batches;
  return metrics;
}

void TrainingRun::tell_program(const StepResult& result,
                               const std::optional<Measurement>& validation) const {
  StepMetrics metrics = metrics_after(result);
  if (validation) metrics.validation = validation->figures;
  hooks_.after_step(metrics);
}

// Whether the validation after this step was the best so far.
bool TrainingRun::report(const StepResult& result) {
  const bool is_logged = due(settings_.metrics.every) || last_step();
  if (is_logged) keep_directory();
  show(result, is_logged);
  std::optional<Measurement> validation = validate();
  losses_.loss = result.loss;
  if (validation)
    losses_.validation = {
        trainer_.steps(), validation->figures.front().value, validation->find("bits_per_byte")};
  if (hooks_.after_step) tell_program(result, validation);
  const bool is_best = best_ && validation && is_best_so_far(*validation);
  {
    const Timed timed(meter_.times().saving);
    tracker_.take_weights(trainer_);
  }
  if (!is_logged && !validation && !result.reconstruction_error && !tracker_.has_taken())
    return is_best;
  StepMetrics metrics = metrics_after(result);
  metrics.figures = trainer_.model().body().figures();
  for (auto& figure : loader_.figures()) metrics.figures.push_back(std::move(figure));
  const StepTiming measured = timing();
  if (settings_.metrics.timing) metrics.timing = measured;
  if (validation) metrics.validation = std::move(validation->figures);
  tracker_.write(metrics);
  return is_best;
}

RunLayout TrainingRun::layout() const {
  return {mesh_.shape,
          threads_,
          settings_.parallel.zero,
          !device_.on_gpu()     ? "cpu"
          : collectives_.nccl() ? "cuda with NCCL"
                                : "cuda"};
}

TrainingState TrainingRun::state() {
  TrainingState state;
  const CursorRows rows = loader_.cursor_rows();
  trainer_.save(state, rows);
  state.add_part(cursor_name,
                 loader_.cursors(),
                 0,
                 rows.begin,
                 rows.total,
                 mesh_.tensor.rank() == 0 && mesh_.context.rank() == 0 &&
                     (!rows.shared || mesh_.data.rank() == 0));
  loader_.save_rest(state);
  state.scalars.set(tokenizer_scalar, task_->tokenizer().to_json());
  task_->identity().save(state.scalars);
  task_->save(state.scalars);
  save_layout(state.scalars, layout());
  losses_.save(state.scalars);
  if (best_) best_->save(state.scalars);
  if (skipped_.times > 0) state.scalars.set(skipped_data_scalar, skipped_.to_json());
  return state;
}

bool TrainingRun::save(bool beside) {
  const Timed timed(meter_.times().saving);
  const Span span({.kind = ActivityKind::saving, .name = "saving"});
  keep_directory();
  tracker_.sync();
  if (speaks()) tell_launcher(fmt::format("the checkpoint of step {}", trainer_.steps()));
  const CheckpointInfo info = {.run_id = run_id_,
                               .step = trainer_.steps(),
                               .layout = mesh_.shape,
                               .configuration = text_.configuration};
  // What was restored and has made no step had one when it was saved.
  const CheckpointSaver::Loss loss = [this] {
    if (batch_.fields.empty()) return 0.0;
    const StepResult tried = trainer_.try_step(batch_);
    // Where a validation has given a loss it is the batch that gives none.
    const bool is_sound = tried.is_sound() || (has_validation_loss_ && !std::isfinite(tried.loss));
    return is_sound ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  };
  return beside ? saver_.save_beside(info, state(), loss) : saver_.save(info, state(), loss);
}

void TrainingRun::finish_save() {
  if (!saver_.under_way()) return;
  const Timed timed(meter_.times().saving);
  const Span span({.kind = ActivityKind::saving, .name = "finishing a checkpoint"});
  keep_directory();
  saver_.finish();
}

void TrainingRun::remove_older() {
  if (!saver_.has_older()) return;
  const Timed timed(meter_.times().saving);
  keep_directory();
  saver_.remove_older();
}

// Before anything is written or removed by its name: who removes the directory of a run may put
// another there.
void TrainingRun::keep_directory() {
  const std::int64_t lost = directory_.is_lost() ? 1 : 0;
  if (mesh_.world.all_reduce(lost, Reduction::maximum) == 0) return;
  session_.set_listener({});
  directory_.refuse_lost(trainer_.steps());
}

// What was recorded so far.
void TrainingRun::write_profile() {
  if (!profiler_.has_recorded()) return;
  profiler_.end_step();
  keep_directory();
  profiler_.write();
}

}  // namespace

ExitCode run_training(Session& session,
                      const Settings& settings,
                      const TrainingRunText& text,
                      const TrainingHooks& hooks) try {
  // First: a signal while a long text is read is not to kill the run.
  const StopRequest stop_request;
  RunLife life = {.wish = settings.checkpoint.resume, .directory = {}, .diverged = {}};
  Settings now = settings;
  try {
    while (true) {
      TrainingRun run(session, now, text, hooks, stop_request, life);
      if (const auto code = run.run()) return *code;
      now.checkpoint.resume = run.resume_after_divergence();
    }
  } catch (const DocumentsEnded&) {
    // Before the first step.
    if (life.diverged.empty()) throw;
    throw DivergedError("{}; what is read only once cannot go back: start again", life.diverged);
  }
} catch (const OutOfMemory& error) {
  // Planning takes its time, in which other ranks run out of memory too: one is to speak.
  const bool speaks = session.claim_report();
  const int ranks = session.world().size();
  throw Failure("rank {}: {}{}",
                session.world().rank(),
                error.what(),
                speaks ? advice_after(error, settings, ranks, text.reconfigure) : "");
}

}  // namespace longspan
