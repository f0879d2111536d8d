#include "framework/training_loop/run_history.h"

#include <chrono>
#include <thread>
#include <utility>

#include "framework/core/span.h"
#include "framework/distributed/session.h"
#include "framework/training_loop/loading.h"

namespace longspan {
namespace {

// Reads the cursors of this rank's streams. An older version may have stored fewer values for each.
Tensor read_cursors(const Checkpoint& checkpoint, const Tensor& now, const CursorRows& rows) {
  StateTensor piece;
  piece.name = cursor_name;
  piece.tensor = Tensor::empty(now.shape().with(1, checkpoint.shape_of(cursor_name)[1]),
                               DType::i64,
                               now.device(),
                               MemoryTag::workspace);
  piece.global_shape = piece.tensor.shape().with(0, rows.total);
  piece.offset = {rows.begin, 0};
  checkpoint.read(piece);
  return piece.tensor;
}

// Ranks that share data have equal positions in it: only one saves them.
bool saves_cursors(const ProcessMesh& mesh, const CursorRows& rows) {
  return mesh.tensor.rank() == 0 && mesh.context.rank() == 0 &&
         (!rows.shared || mesh.data.rank() == 0);
}

// A save that fails because the directory was taken away meanwhile is reported as that. Collective:
// all ranks throw SaveError.
template <typename Save>
auto save_to_directory(const TrainingContext& run, Save&& save) try {
  check_directory(run);
  return save();
} catch (const SaveError&) {
  // A removal that has reached the checkpoints may not have reached the lock yet.
  constexpr int max_polls = 20;
  for (int i = 0; i < max_polls && !run.directory.is_lost(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  check_directory(run);
  throw;
}

}  // namespace

std::optional<std::int64_t> RunHistory::best_step() const {
  if (!best || !best->best()) return std::nullopt;
  return best->best()->step;
}

bool RunHistory::add(std::int64_t step,
                     double loss,
                     const std::optional<Measurement>& validation,
                     const Log& log) {
  losses.loss = loss;
  if (!validation) return false;
  if (const auto validation_loss = validation->find("loss"))
    losses.validation = {step, *validation_loss, validation->find("bits_per_byte")};
  if (!best) return false;
  const bool is_best = best->add(step, *validation);
  if (const std::string missing = best->missing(*validation); !missing.empty()) {
    log.warning("{}", missing);
    best.reset();
  }
  return is_best;
}

TrainingState state_of(const TrainingContext& run, const RunHistory& history) {
  TrainingState state;
  const CursorRows rows = run.loader.cursor_rows();
  run.trainer.save(state, rows);
  state.add_part(
      cursor_name, run.loader.cursors(), 0, rows.begin, rows.total, saves_cursors(run.mesh, rows));
  run.loader.save_state(state);
  state.scalars.set(tokenizer_scalar, run.task->tokenizer().to_json());
  run.task->identity().save(state.scalars);
  run.task->save(state.scalars);
  for (const auto& [name, value] : history.imported.values()) state.scalars.values()[name] = value;
  save_layout(state.scalars, run.layout());
  history.losses.save(state.scalars);
  if (history.best) history.best->save(state.scalars);
  if (history.skipped.times > 0) state.scalars.set(skipped_data_scalar, history.skipped.to_json());
  return state;
}

void restore(TrainingContext& run, RunHistory& history, const Checkpoint& checkpoint) {
  history.losses = SavedLosses::of(checkpoint.scalars());
  history.imported = import_scalars(checkpoint.scalars(), true);
  const CursorRows rows = run.loader.cursor_rows();
  const Tensor now = run.loader.cursors();
  run.trainer.restore(checkpoint, rows, now.shape()[0]);
  run.loader.restore(read_cursors(checkpoint, now, rows));
  run.loader.load_state(checkpoint);
}

void check_directory(const TrainingContext& run) {
  const std::int64_t lost = run.directory.is_lost() ? 1 : 0;
  if (run.mesh.world.all_reduce(lost, Reduction::maximum) == 0) return;
  run.session.set_listener({});
  run.directory.throw_lost(run.trainer.steps());
}

bool save_run(TrainingContext& run,
              const RunHistory& history,
              const CheckpointSaver::Loss& loss,
              bool in_background) {
  const ScopedTimer timed(run.speed.times().saving);
  const Span span({.kind = ActivityKind::saving, .name = "saving"});
  const std::int64_t step = run.trainer.steps();
  if (run.is_root()) notify_launcher(fmt::format("the checkpoint of step {}", step));
  const CheckpointInfo info = {.run_id = history.id,
                               .step = step,
                               .layout = run.mesh.shape,
                               .configuration = run.text.configuration};
  TrainingState state = state_of(run, history);
  return save_to_directory(run, [&] {
    run.tracker.sync();
    // Both may take long, so the directory is checked again just before the save writes to it.
    run.saver.finish();
    const auto checked_loss = [&] {
      const double found = loss();
      check_directory(run);
      return found;
    };
    check_directory(run);
    return in_background ? run.saver.save_async(info, std::move(state), checked_loss)
                         : run.saver.save(info, state, checked_loss);
  });
}

void wait_for_save(TrainingContext& run) {
  if (!run.saver.under_way()) return;
  const ScopedTimer timed(run.speed.times().saving);
  const Span span({.kind = ActivityKind::saving, .name = "finishing a checkpoint"});
  save_to_directory(run, [&] { run.saver.finish(); });
}

void remove_older(TrainingContext& run) {
  if (!run.saver.has_older()) return;
  const ScopedTimer timed(run.speed.times().saving);
  check_directory(run);
  run.saver.remove_older();
}

void write_profile(TrainingContext& run) {
  if (!run.profiler.has_recorded()) return;
  run.profiler.end_step();
  check_directory(run);
  run.profiler.write();
}

}  // namespace longspan
