#include "framework/training_loop/run_saving.h"

#include <chrono>
#include <thread>
#include <utility>

#include "framework/core/span.h"
#include "framework/distributed/launcher.h"

namespace longspan {

void check_directory(const TrainingContext& run) {
  const std::int64_t lost = run.directory.is_lost() ? 1 : 0;
  if (run.mesh.world.all_reduce(lost, Reduction::maximum) == 0) return;
  run.session.set_listener({});
  run.directory.throw_lost(run.trainer.steps());
}

namespace {

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
