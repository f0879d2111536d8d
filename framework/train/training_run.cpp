#include "framework/train/training_run.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "framework/comm/launcher.h"
#include "framework/core/gpu.h"
#include "framework/data/batch_loader.h"
#include "framework/kernels/matmul.h"
#include "framework/train/checkpoint_saver.h"
#include "framework/train/checkpoint_values.h"
#include "framework/train/evaluation.h"
#include "framework/train/loading.h"
#include "framework/train/log.h"
#include "framework/train/memory_advice.h"
#include "framework/train/memory_table.h"
#include "framework/train/metrics.h"
#include "framework/train/peak.h"
#include "framework/train/progress.h"
#include "framework/train/reading.h"
#include "framework/train/resume.h"
#include "framework/train/run_device.h"
#include "framework/train/run_directory.h"
#include "framework/train/saved_losses.h"
#include "framework/train/stop_request.h"
#include "framework/train/stopwatch.h"
#include "framework/train/threads.h"
#include "framework/train/trainer.h"

namespace longspan {
namespace {

constexpr std::int64_t memory_settles_after = 3;  // steps, until every buffer has been used

ProcessMesh make_mesh(Session& session, const Settings& settings) {
  session.set_time_limit(std::chrono::duration<double>(settings.run.time_limit));
  set_threads(settings.run.threads, session.local_size());
  const Communicator& world = session.world();
  const ProcessMesh mesh(world, mesh_shape(settings.parallel, world.size()));
  require_divisible(settings, mesh.shape);
  return mesh;
}

BatchLoader make_loader(const Settings& settings,
                        const Tokenizer& tokenizer,
                        const ProcessMesh& mesh,
                        const Device& device,
                        const ScanListener& listener) {
  Corpus corpus(settings.data.train, tokenizer, listener);
  require_same_corpus(corpus, mesh.world);
  return BatchLoader(StreamReader(std::move(corpus),
                                  settings.data.layout(),
                                  mesh.data_coordinate(),
                                  mesh.data.size(),
                                  device),
                     static_cast<std::size_t>(settings.data.read_ahead));
}

// Opened at the start: what is wrong with it is not to be found after hours of training.
std::optional<Corpus> open_validation(const Settings& settings,
                                      const Tokenizer& tokenizer,
                                      const ProcessMesh& mesh,
                                      const ScanListener& listener) {
  if (settings.data.validation.empty()) return std::nullopt;
  Corpus corpus(settings.data.validation, tokenizer, listener);
  require_same_corpus(corpus, mesh.world);
  require_pairs(corpus);
  return corpus;
}

// Refuses what the memory cannot hold, before anything of it is allocated.
std::unique_ptr<Model> make_model(const Session& session,
                                  const Settings& settings,
                                  const TrainingRunText& text,
                                  const Tokenizer& tokenizer,
                                  const ProcessMesh& mesh,
                                  const Device& device) {
  require_fits(
      settings, mesh, device, session.local_size(), tokenizer.vocabulary(), text.reconfigure);
  return settings.make_model(model_setting(settings, tokenizer.vocabulary(), mesh, device));
}

// Silent on all ranks but one. The sentence that ends a failed run is in the file too, from
// whichever rank it comes.
Log open_log(Session& session,
             const Console& console,
             const RunDirectory& directory,
             LogLevel least) {
  session.set_listener(
      [file = directory.log()](const char* sentence) { append_error(file, sentence); });
  if (session.world().rank() != 0) return {};
  return Log(console, directory.log(), least);
}

class TrainingRun {
 public:
  TrainingRun(Session& session, const Settings& settings, const TrainingRunText& text);
  ExitCode run();

 private:
  ResumingRun resuming() const {
    return {settings_, text_, directory_, mesh_.world, log_, stop_request_};
  }
  void resume(const std::filesystem::path& path);
  void introduce();
  void step();
  bool due(std::int64_t every) const { return every > 0 && trainer_.steps() % every == 0; }
  bool last_step() const { return trainer_.steps() >= settings_.training.steps; }
  std::optional<EvaluationResult> validate();
  void report(const StepResult& result);
  void show(const StepResult& result, bool is_logged);
  void judge_reconstruction(double error);
  StepTiming timing();
  RunLayout layout() const;
  TrainingState state();
  void save(bool beside);

  bool speaks() const { return mesh_.world.rank() == 0; }

  std::int64_t program_bytes_ = process_memory().now;
  StopRequest stop_request_;  // first: a signal while a long text is read is not to kill the run
  const Settings& settings_;
  const TrainingRunText& text_;
  ProcessMesh mesh_;
  std::int64_t threads_;  // of the rank that has most: nodes may differ
  Device device_;
  GpuCollectives collectives_;
  RunDirectory directory_;
  Console console_;
  Log log_;
  Tokenizer tokenizer_;
  BatchLoader loader_;
  std::optional<Corpus> validation_;
  Trainer trainer_;
  Progress progress_;
  CheckpointSaver saver_;
  std::optional<MetricsFile> metrics_;
  std::string run_id_;
  SavedLosses losses_;
  double peak_ = 0;  // FLOP/s of all ranks
  // Since the last report.
  double step_seconds_ = 0;
  std::int64_t step_tokens_ = 0;
  double step_flops_ = 0;
  std::int64_t first_step_ = 0;
  double run_seconds_ = 0;  // spent in steps since first_step_
  bool stopping_ = false;
  bool is_sound_ = true;  // the last step had a loss
  bool save_is_due_ = false;
};

TrainingRun::TrainingRun(Session& session, const Settings& settings, const TrainingRunText& text)
    : settings_(settings),
      text_(text),
      mesh_(make_mesh(session, settings)),
      threads_(mesh_.world.all_reduce(std::int64_t{omp_get_max_threads()}, Reduction::maximum)),
      device_(run_device(settings.run, settings.precision, mesh_.world, session.local_rank())),
      collectives_(settings.parallel.transport, mesh_, device_),
      directory_(settings.run.directory, mesh_.world),
      console_(speaks() ? Console(stdout, output_is_terminal()) : Console()),
      log_(open_log(session, console_, directory_, settings.run.log_level)),
      tokenizer_(make_tokenizer(settings.data, reading(stop_request_, log_))),
      loader_(
          make_loader(settings, tokenizer_, mesh_, device_.host(), reading(stop_request_, log_))),
      validation_(open_validation(settings, tokenizer_, mesh_, reading(stop_request_, log_))),
      trainer_(make_model(session, settings, text, tokenizer_, mesh_, device_),
               settings.training,
               Random(static_cast<std::uint64_t>(settings.run.seed)).child("steps"),
               settings.precision),
      progress_(console_, log_, settings.metrics.console),
      saver_(
          settings.checkpoint, directory_.checkpoints(), mesh_.world, session.local_size(), log_) {
  if (const auto found = checkpoint_to_resume(resuming())) {
    resume(*found);
  } else {
    run_id_ = new_run_id(mesh_.world);
    put_metrics_aside(resuming(), run_id_);
  }
  first_step_ = trainer_.steps();
  directory_.write("config.yaml", text.configuration);
  if (speaks()) metrics_.emplace(directory_.metrics(), trainer_.steps());
  peak_ = mesh_.world.all_reduce(matmul_peak(device_, settings.precision.compute), Reduction::sum);
  introduce();
}

void TrainingRun::resume(const std::filesystem::path& path) {
  const Checkpoint checkpoint = open_run_checkpoint(path, watch_of(resuming()));
  judge_checkpoint(resuming(), checkpoint, tokenizer_, loader_.corpus());
  run_id_ = checkpoint.info().run_id;
  losses_ = SavedLosses::of(checkpoint.scalars());
  const std::int64_t streams = settings_.data.batch;
  trainer_.restore(checkpoint, loader_.range(), streams);
  const Tensor cursors = loader_.cursors();
  StateTensor piece;
  piece.name = cursor_name;
  piece.tensor = cursors;
  piece.global_shape = {streams, 2};
  piece.offset = {loader_.range().begin, 0};
  checkpoint.read(piece);
  loader_.restore(cursors);
  // One that was named may lie anywhere; this directory need not hold it, or not a good one.
  if (settings_.checkpoint.resume == "auto") saver_.set_step(trainer_.steps());
  log_.info("resumed from {} at step {}", path.string(), trainer_.steps());
  judge_layout(log_, checkpoint, layout());
}

void TrainingRun::introduce() {
  for (const std::string& sentence : text_.warnings) log_.warning("{}", sentence);
  const Parameters& parameters = trainer_.model().parameters();
  log_.info(
      "{}: {} parameters, {} on data {} x context {} x tensor {}{}{} with {}",
      settings_.family,
      parameters.global_elements(),
      name_of(settings_.precision.compute),
      mesh_.shape.data,
      mesh_.shape.context,
      mesh_.shape.tensor,
      mesh_.shape.sequence ? " (which share time)" : "",
      parameters.sharing().zero > 0 ? fmt::format(", ZeRO {}", parameters.sharing().zero) : "",
      device_.on_gpu() ? fmt::format("GPU {} on the first rank", device_.state().gpu())
                       : fmt::format("{} threads a rank", threads_));
  log_.info("{}: {} tokens in {} streams, {} steps an epoch; matrix products reach {:.0f} GFLOP/s",
            settings_.data.train,
            loader_.corpus().tokens(),
            settings_.data.batch,
            loader_.batches_per_epoch(),
            peak_ / 1e9);
  if (device_.on_gpu() && mesh_.world.size() > 1)
    log_.info(
        "tensors travel between GPUs {}",
        collectives_.nccl() ? "by NCCL" : "through memory of the host: " + collectives_.absence());
  const bool shares_out = std::ranges::any_of(
      parameters.buckets(), [](const ParameterBucket& bucket) { return bucket.ranks.size() > 1; });
  if (parameters.sharing().zero > 0 && !shares_out)
    log_.warning(
        "parallel.zero is {}, but no two ranks hold the same weights: there is nothing to share "
        "out",
        parameters.sharing().zero);
  if (device_.on_gpu()) return;
  if (settings_.run.device == DeviceChoice::automatic) {
    const std::vector<std::string> troubles = mesh_.world.all_gather(gpu::trouble());
    for (std::size_t rank = 0; rank < troubles.size(); ++rank)
      if (!troubles[rank].empty()) {
        log_.warning("this trains on the CPU, since on rank {} {}", rank, troubles[rank]);
        break;
      }
  }
  if (settings_.precision.compute == DType::bf16 && !bf16_is_native())
    log_.warning("this processor has no bf16 units: bf16 is emulated in f32, which is slower");
  if (settings_.precision.compute == DType::f16)
    log_.warning(
        "f16 is emulated on the CPU: its matrix products are made in f32, which is slower");
}

ExitCode TrainingRun::run() {
  try {
    while (!last_step() && !stopping_) step();
  } catch (const DivergedError&) {
    // What is being saved is of a state from before.
    try {
      saver_.finish();
    } catch (const Failure& failure) {
      log_.error("{}", failure.what());
    }
    throw;
  }
  progress_.finish();
  saver_.finish();
  if (saver_.step() != trainer_.steps()) save(false);
  if (is_sound_) saver_.remove_older();
  if (stopping_ && !last_step()) {
    log_.info("stopped on request after step {}; start again to go on", trainer_.steps());
    return ExitCode::stopped;
  }
  log_.info("done: {} steps, {} tokens, {} steps skipped",
            trainer_.steps(),
            trainer_.tokens(),
            trainer_.skipped());
  return ExitCode::ok;
}

void TrainingRun::step() {
  const Stopwatch stopwatch;
  if (speaks()) tell_launcher(fmt::format("step {}", trainer_.steps() + 1));
  const Batch batch = loader_.next();
  const std::int64_t remembered = batch.epoch_start ? 0 : trainer_.memory_length();
  const std::int64_t check = settings_.memory.reconstruction_check_every;
  const bool measure = check > 0 && (trainer_.steps() + 1) % check == 0;
  const StepResult result = trainer_.step(batch,
                                          {.stop = [this] { return stop_request_.asked(); },
                                           .measure = measure,
                                           .writing = saver_.writing(),
                                           .before_update = [this] { saver_.wait_for_copy(); }});
  mesh_.world.check_ledger();
  const double seconds = stopwatch.seconds();
  stopping_ = result.stop_requested;
  step_seconds_ += seconds;
  run_seconds_ += seconds;
  step_tokens_ += result.tokens;
  step_flops_ +=
      trainer_.model().flops(settings_.data.batch, settings_.data.segment, remembered).total();
  if (result.skipped)
    log_.warning(
        "step {} skipped: loss {}, gradient norm {}{}; batch at token {} of each stream in epoch "
        "{}",
        trainer_.steps(),
        result.loss,
        result.gradient_norm,
        result.loss_scale ? fmt::format(" at loss scale {}", *result.loss_scale) : "",
        batch.position,
        batch.epoch);
  if (trainer_.steps() == first_step_ + memory_settles_after)
    log_memory(log_, {device_.allocator().report(), program_bytes_});
  report(result);
  if (result.reconstruction_error && !result.skipped)
    judge_reconstruction(*result.reconstruction_error);
  if (saver_.under_way() && !result.writing) saver_.finish();
  // Weights that give no loss are nothing to go back to; those of the last save gave this one.
  is_sound_ = std::isfinite(result.loss);
  if (is_sound_) saver_.remove_older();
  save_is_due_ = save_is_due_ || due(settings_.checkpoint.every);
  if (save_is_due_ && (is_sound_ || saver_.step() < 0) && !last_step() && !stopping_) {
    save(true);
    save_is_due_ = false;
  }
}

// What no number is past the bound too, unless the step was skipped for the same reason.
void TrainingRun::judge_reconstruction(double error) {
  log_.info("step {}: the rebuilt streams are {:.2e} of their size from the true ones",
            trainer_.steps(),
            error);
  const double bound = settings_.memory.reconstruction_bound;
  if (error <= bound) return;
  throw DivergedError(
      "step {}: the streams that the reversible stack rebuilt are {:.2e} of their size from the "
      "true ones, more than memory.reconstruction_bound = {}: its gradients are those of another "
      "function; go on from an earlier checkpoint with a smaller training.learning_rate, use fewer "
      "layers, or set precision.compute to float64",
      trainer_.steps(),
      error,
      bound);
}

std::optional<EvaluationResult> TrainingRun::validate() {
  const bool wanted = due(settings_.training.validation_every) || last_step();
  if (!validation_ || !wanted) return std::nullopt;
  const EvaluationResult result = evaluate(
      trainer_.model(),
      *validation_,
      {.streams = settings_.data.batch,
       .segment = settings_.data.segment,
       .tokens_per_stream = settings_.training.validation_batches * settings_.data.segment});
  log_.info("step {}: validation loss {:.4f}, {:.4f} bits per byte{}",
            trainer_.steps(),
            result.loss(),
            result.bits_per_byte(),
            unknown_text(result));
  return result;
}

StepTiming TrainingRun::timing() {
  const std::int64_t peak = device_.allocator().report().total.peak;
  const StepTiming timing = {.tokens_per_second = static_cast<double>(step_tokens_) / step_seconds_,
                             .model_flops_utilisation = step_flops_ / step_seconds_ / peak_,
                             .peak_memory_bytes = mesh_.world.all_reduce(peak, Reduction::maximum)};
  step_seconds_ = 0;
  step_tokens_ = 0;
  step_flops_ = 0;
  return timing;
}

void TrainingRun::show(const StepResult& result, bool is_logged) {
  const double seconds_a_step = run_seconds_ / static_cast<double>(trainer_.steps() - first_step_);
  const std::int64_t steps_left = settings_.training.steps - trainer_.steps();
  progress_.update({.step = trainer_.steps(),
                    .steps = settings_.training.steps,
                    .loss = result.loss,
                    .tokens_per_second = static_cast<double>(step_tokens_) / step_seconds_,
                    .utilisation = step_flops_ / step_seconds_ / peak_,
                    .seconds_left = seconds_a_step * static_cast<double>(steps_left)},
                   is_logged);
}

void TrainingRun::report(const StepResult& result) {
  const bool is_logged = due(settings_.metrics.every) || last_step();
  show(result, is_logged);
  const std::optional<EvaluationResult> validation = validate();
  losses_.loss = result.loss;
  if (validation)
    losses_.validation = {trainer_.steps(), validation->loss(), validation->bits_per_byte()};
  if (!is_logged && !validation && !result.reconstruction_error) return;
  StepMetrics metrics = {.step = trainer_.steps(),
                         .tokens = trainer_.tokens(),
                         .loss = result.loss,
                         .learning_rate = result.learning_rate,
                         .gradient_norm = result.gradient_norm,
                         .loss_scale = result.loss_scale,
                         .reconstruction_error = result.reconstruction_error};
  const StepTiming measured = timing();
  if (settings_.metrics.timing) metrics.timing = measured;
  if (validation) {
    metrics.validation_loss = validation->loss();
    metrics.validation_bits_per_byte = validation->bits_per_byte();
    metrics.validation_unknown = validation->unknown;
  }
  if (metrics_) metrics_->write(metrics);
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
  trainer_.save(state, settings_.data.batch);
  state.add_part(cursor_name,
                 loader_.cursors(),
                 0,
                 loader_.range().begin,
                 settings_.data.batch,
                 mesh_.tensor.rank() == 0 && mesh_.context.rank() == 0);
  state.scalars.set(tokenizer_scalar, tokenizer_.to_json());
  state.scalars.set(corpus_scalar, loader_.corpus().fingerprint());
  const RunLayout made_on = layout();
  state.scalars.set(threads_scalar, made_on.threads);
  state.scalars.set(zero_scalar, made_on.zero);
  state.scalars.set(device_scalar, made_on.device);
  losses_.save(state.scalars);
  return state;
}

void TrainingRun::save(bool beside) {
  if (metrics_) metrics_->sync();
  if (speaks()) tell_launcher(fmt::format("the checkpoint of step {}", trainer_.steps()));
  const CheckpointInfo info = {.run_id = run_id_,
                               .step = trainer_.steps(),
                               .layout = mesh_.shape,
                               .configuration = text_.configuration};
  beside ? saver_.save_beside(info, state()) : saver_.save(info, state());
}

}  // namespace

ExitCode run_training(Session& session, const Settings& settings, const TrainingRunText& text) try {
  return TrainingRun(session, settings, text).run();
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
