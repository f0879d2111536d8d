#include "framework/training_loop/training_run.h"

#include <cerrno>
#include <cmath>
#include <limits>
#include <optional>

#include "framework/core/span.h"
#include "framework/core/system.h"
#include "framework/trainer/trainer.h"
#include "framework/training_loop/memory_report.h"
#include "framework/training_loop/run_history.h"
#include "framework/training_loop/run_phases.h"
#include "framework/training_loop/run_summary.h"
#include "framework/training_loop/step_meter.h"

namespace longspan {
namespace {

constexpr std::int64_t memory_settles_after = 3;  // in steps: by then every buffer has been used

// Runs the steps of a run from its starting point to its end.
class TrainingLoop {
 public:
  explicit TrainingLoop(TrainingContext& run) : run_(run), history_(resume_or_start(run)) {}

  // Returns nothing if the run has diverged and must restart from its last save, without the data
  // on which it diverged.
  std::optional<ExitCode> run() try {
    make_steps();
    return end();
  } catch (const DivergedError& error) {
    roll_back(run_, history_, error, last_update_);
    return std::nullopt;
  }
  bool has_saved() const { return longspan::has_saved(run_, history_); }

 private:
  void make_steps();
  ExitCode end();
  StepResult make_step();
  void after_step(const StepResult& result);
  bool report(const StepResult& result);
  std::optional<Measurement> validate_where_due();
  void check_reconstruction(const StepResult& result) const;
  void save_where_due(bool is_best);
  bool save(bool in_background);
  void check_save(double loss);
  double loss_of_weights();
  double tried_loss();
  void poll_stop();

  std::int64_t step() const { return run_.trainer.steps(); }
  bool due(std::int64_t every) const { return every > 0 && step() % every == 0; }
  bool at_last_step() const { return step() >= run_.settings.training.steps; }
  bool ends() const { return at_last_step() || stopping_; }

  TrainingContext& run_;
  RunHistory history_;
  StragglerDetector stragglers_;
  bool stopping_ = false;
  std::string end_of_data_;  // message of single-pass documents that ended
  Batch batch_ = {};         // of the last step
  Batch finite_batch_ = {};  // of the last step with a finite loss and gradient
  bool save_is_due_ = false;
  bool is_finite_ = false;        // the last step here had a finite loss and gradient
  std::int64_t last_update_ = 0;  // the last step here that was not skipped
};

void TrainingLoop::make_steps() try {
  if (at_last_step()) log_nothing_to_train(run_.log, step(), run_.settings.training.steps);
  run_.speed.reset();
  if (!run_.hooks.is_quiet) run_.stop_request.answer_signals();
  while (!ends()) {
    run_.profiler.start_step(step() + 1);
    after_step(make_step());
    run_.profiler.end_step();
    if (run_.profiler.is_complete()) write_profile(run_);
  }
} catch (const EndOfDocuments& error) {
  if (step() == history_.first_step) throw;
  run_.profiler.end_step();
  end_of_data_ = error.what();
}

ExitCode TrainingLoop::end() {
  run_.progress.finish();
  poll_stop();
  // Documents may end before the step that would have validated the save.
  if (run_.saver.awaits_loss()) {
    const ScopedTimer timed(run_.speed.times().saving);
    check_save(loss_of_weights());
  }
  wait_for_save(run_);
  const bool is_saved = run_.saver.step() == step() || save(false);
  // After a stop only the first step of the resumed run validates the save.
  if (is_saved && is_finite_ && !stopping_) remove_older(run_);
  // A job that is stopped may have little time: the checkpoint comes first.
  write_profile(run_);
  return finish_run(run_,
                    history_,
                    {.is_saved = is_saved,
                     .is_stopped = stopping_ && !at_last_step(),
                     .end_of_data = end_of_data_});
}

StepResult TrainingLoop::make_step() {
  const Stopwatch stopwatch;
  if (run_.is_root()) notify_launcher(fmt::format("step {}", step() + 1));
  const Tensor cursors = run_.settings.memory.bptt_chunk_length ? run_.loader.cursors() : Tensor();
  batch_ = next_batch(run_, history_);
  const std::int64_t remembered = batch_.resets_state ? 0
                                  : batch_.carried    ? batch_.carried->length()
                                                      : run_.trainer.recurrent_state_length();
  const std::int64_t check = run_.settings.memory.reconstruction_check_every;
  const auto waited_before = run_.session.waited();
  StepRequest request;
  request.stop = [this] { return run_.should_stop(); };
  request.after_chunk = [this](const ChunkProgress& progress) {
    run_.progress.update_step(chunk_text(progress, step() + 1));
  };
  request.measure = check > 0 && (step() + 1) % check == 0;
  request.writing = run_.saver.writing();
  request.after_loss = [this](double loss) { check_save(loss); };
  request.before_update = [this] {
    const ScopedTimer timed(run_.speed.times().saving);
    run_.tracker.capture_gradients(run_.trainer);
    run_.saver.wait_for_copy();
  };
  const StepResult result = run_.trainer.step(batch_, request);
  run_.mesh.world.check_ledger();
  if (result.is_discarded) {
    run_.loader.restore(cursors);  // the resumed run reads the batch again
    return result;
  }
  const double waited = (run_.session.waited() - waited_before).count();
  run_.speed.times().waiting += waited;
  const double seconds = stopwatch.seconds();
  stragglers_.add({.seconds = seconds, .waited = waited}, run_.mesh.world, run_.log);
  run_.speed.add({.seconds = seconds,
                  .tokens = result.tokens,
                  .flops = run_.speed.flops_of(batch_, remembered, step() - 1)});
  return result;
}

// Logs the result of a step, and saves if a save is due.
void TrainingLoop::after_step(const StepResult& result) {
  stopping_ = result.stop_requested;
  if (result.is_discarded) {
    run_.log.info("Step {} stopped between two chunks and discarded", step() + 1);
    return;
  }
  if (result.skipped)
    run_.log.warning("step {} skipped: loss {}, grad norm {}{}; batch {}",
                     step(),
                     result.loss,
                     result.gradient_norm,
                     result.loss_scale ? fmt::format(" at loss scale {}", *result.loss_scale) : "",
                     batch_.place);
  if (step() == history_.first_step + memory_settles_after)
    log_memory(run_.log, {run_.device.allocator().report(), run_.program_bytes});
  const bool is_best = report(result);
  if (result.reconstruction_error) check_reconstruction(result);
  if (!result.skipped) last_update_ = step();
  if (!result.writing) wait_for_save(run_);
  is_finite_ = result.can_continue();
  if (is_finite_ || finite_batch_.fields.empty()) finite_batch_ = batch_;
  if (is_finite_) remove_older(run_);
  save_where_due(is_best);
}

// Returns whether the validation after this step was the best so far.
bool TrainingLoop::report(const StepResult& result) {
  const bool is_logged = due(run_.settings.metrics.every) || at_last_step();
  if (is_logged) check_directory(run_);
  show_progress(run_, result, is_logged);
  const std::optional<Measurement> validation = validate_where_due();
  call_step_hook(run_, history_, result, validation);
  const bool is_best = history_.add(step(), result.loss, validation, run_.log);
  {
    const ScopedTimer timed(run_.speed.times().saving);
    run_.tracker.capture_weights(run_.trainer);
  }
  if (is_logged || validation || result.reconstruction_error || run_.tracker.has_captured())
    record_step(run_, history_, result, validation);
  return is_best;
}

std::optional<Measurement> TrainingLoop::validate_where_due() {
  if (!due(run_.settings.training.validation_every) && !at_last_step()) return std::nullopt;
  std::optional<Measurement> found = validate(run_);
  poll_stop();
  return found;
}

// Collective. Validating and saving take time: a stop requested meanwhile must not wait for another
// step.
void TrainingLoop::poll_stop() {
  const std::int64_t asked = run_.should_stop() ? 1 : 0;
  if (run_.mesh.world.all_reduce(asked, Reduction::maximum) == 1) stopping_ = true;
}

// Skips the message for a step that was skipped for the same reason.
void TrainingLoop::check_reconstruction(const StepResult& result) const {
  if (result.skipped) return;
  run_.log.info("step {}: reversible reconstruction error {:.2e} (relative)",
                step(),
                *result.reconstruction_error);
  longspan::check_reconstruction_error(
      step(), *result.reconstruction_error, run_.settings.memory.reconstruction_bound);
}

// The final state is saved at the end of the run.
void TrainingLoop::save_where_due(bool is_best) {
  save_is_due_ = save_is_due_ || is_best || due(run_.settings.checkpoint.every);
  if (save_is_due_ && is_finite_ && !ends()) {
    save_is_due_ = !save(true);
    if (!run_.saver.under_way()) poll_stop();
  }
  if (is_best && !ends() && run_.saver.step() != step()) history_.best->withdraw(step());
}

bool TrainingLoop::save(bool in_background) {
  return save_run(
      run_, history_, [this] { return loss_of_weights(); }, in_background);
}

// The loss belongs to the state that is saved in the background.
void TrainingLoop::check_save(double loss) {
  const std::int64_t saved = run_.saver.step();
  if (run_.saver.confirm(loss)) return;
  save_is_due_ = true;
  if (history_.best) history_.best->withdraw(saved);
}

// Returns NaN if the weights give no finite loss or gradient.
double TrainingLoop::loss_of_weights() {
  // A restored state that has made no step had a finite loss when it was saved.
  if (finite_batch_.fields.empty()) return 0;
  // A job that is asked to stop may have less time left than a step takes, and a step in chunks may
  // take an hour. The last step had a finite loss and gradient, and its update left finite weights.
  const bool omits_trial = stopping_ || run_.settings.memory.bptt_chunk_length;
  if (omits_trial && is_finite_ && run_.trainer.has_finite_weights())
    return history_.losses.loss.value_or(0);
  return tried_loss();
}

// Runs a step that is not counted. Uses a batch that gave a finite loss and gradient before, as
// others are no evidence about the weights.
double TrainingLoop::tried_loss() {
  if (run_.is_root()) notify_launcher(fmt::format("a test of the weights of step {}", step()));
  const Stopwatch stopwatch;
  const StepResult tried = run_.trainer.probe_step(finite_batch_);
  const double seconds = stopwatch.seconds();
  run_.speed.times().saving -= seconds;  // the caller counts this time
  run_.log.info(
      "step {}: tested the weights before saving them: loss {:.4f}, grad norm {:.4f} ({:.2f} s)",
      step(),
      tried.loss,
      tried.gradient_norm,
      seconds);
  if (run_.is_root()) notify_launcher(fmt::format("the checkpoint of step {}", step()));
  return tried.can_continue() ? tried.loss : std::numeric_limits<double>::quiet_NaN();
}

// Runs until the run ends or may not restart.
ExitCode run_life(const RunInputs& given) try {
  RunConfig now = given.settings;
  while (true) {
    TrainingContext run(
        {given.session, now, given.text, given.hooks, given.stop_request, given.life});
    TrainingLoop loop(run);
    if (const auto code = loop.run()) return *code;
    now.checkpoint.resume = resume_after_divergence(now.checkpoint.resume, loop.has_saved());
  }
} catch (const EndOfDocuments&) {
  // Thrown before the first step.
  if (given.life.diverged.empty()) throw;
  throw DivergedError(
      "{}; cannot roll back data that can be read only once; run the same command to restart",
      given.life.diverged);
}

// Returns a clause. Not collective.
std::string after_failure(const Failure& failure, const RestartState& life) try {
  const std::string_view sentence = failure.what();
  const auto says = [&](int error) { return sentence.find(errno_message(error)) != sentence.npos; };
  // The full disk may be that of TMPDIR.
  const std::string place = life.directory->path().string() + "/";
  const bool is_full = (says(ENOSPC) || says(EDQUOT)) && sentence.find(place) != sentence.npos;
  if (!is_full && steps_in(life.directory->checkpoints()).empty()) return "";
  return fmt::format("; {}{}",
                     is_full ? "free disk space; " : "",
                     resume_hint(life.directory->checkpoints(), life.resume_request));
} catch (const std::exception&) {
  return "";
}

// A run that ends before its first step leaves no directory.
ExitCode run_life_in_directory(const RunInputs& given) try { return run_life(given); } catch (...) {
  if (given.life.directory) given.life.directory->remove_if_unused();
  throw;
}

}  // namespace

ExitCode run_training(Session& session,
                      const RunConfig& settings,
                      const TrainingRunText& text,
                      const TrainingHooks& hooks) try {
  // Must come first: a signal while long files are read must not kill the run.
  const StopRequest stop_request;
  RestartState life = {.resume_request = settings.checkpoint.resume};
  try {
    return run_life_in_directory({session, settings, text, hooks, stop_request, life});
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Failure& failure) {
    if (!life.directory) throw;
    throw Failure("{}{}", failure.what(), after_failure(failure, life));
  }
} catch (const OutOfMemory& error) {
  // Planning takes time, in which other ranks run out of memory too: only one reports.
  const bool speaks = session.claim_error_report();
  const int ranks = session.world().size();
  throw Failure("rank {}: {}{}",
                session.world().rank(),
                error.what(),
                speaks ? advice_after(error, settings, ranks, text.reconfigure) : "");
}

}  // namespace longspan
