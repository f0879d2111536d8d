#include "framework/training_loop/run_history.h"

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

}  // namespace longspan
