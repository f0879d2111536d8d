#include <algorithm>
#include <chrono>
#include <exception>

#include "checkpoints/checkpoint.h"
#include "checkpoints/files.h"
#include "checkpoints/rank_file.h"
#include "checkpoints/step_directory.h"

namespace longspan {
namespace {

// Runs f and returns its error or "", so that every rank reaches the next collective.
template <typename F>
std::string error_of(F&& f) noexcept try {
  f();
  return {};
} catch (const std::exception& error) {
  return error.what();
} catch (...) {
  return "unknown error";
}

// Throws an equal SaveError on every rank when any rank has an error.
void agree(const std::string& error, const std::filesystem::path& step, const Communicator& world) {
  const std::vector<std::string> errors = world.all_gather(error);
  const auto first = std::ranges::find_if_not(errors, &std::string::empty);
  if (first == errors.end()) return;
  const auto others =
      std::count_if(first + 1, errors.end(), [](const auto& text) { return !text.empty(); });
  throw SaveError("{}: the checkpoint was not saved: rank {}{}: {}",
                  step.string(),
                  first - errors.begin(),
                  others > 0 ? fmt::format(" (and {} more)", others) : "",
                  *first);
}

}  // namespace

struct CheckpointSave::State {
  std::filesystem::path directory;
  CheckpointInfo info;
  Communicator world;
  std::string id;
  LockFile lock;          // of rank 0
  bool in_place = false;  // whether the new step is; a replaced step may still be at its old path
  std::string error = "no data was written";
  RankFileReport report;
  std::vector<DeclaredTensor> declared;

  std::filesystem::path path(StepUse use) const {
    return directory / StepEntry{info.step, use, use == StepUse::saved ? "" : id}.name();
  }
  void begin();
  void commit();
  void discard() noexcept;
};

void CheckpointSave::State::begin() {
  require(info.step >= 0 && info.step <= max_steps,
          "expected a step from 0 to {}, found {}",
          max_steps,
          info.step);
  std::filesystem::create_directory(directory);
  // Only the first step requires syncing of the parent directories.
  if (steps_in(directory).empty()) sync_path_to(directory);
  remove_leftovers(directory);
  while (!lock.held()) {
    id = unique_id();
    lock = LockFile::create(path(StepUse::lock));
  }
  std::filesystem::create_directory(path(StepUse::temporary));
}

void CheckpointSave::State::discard() noexcept try {
  if (!lock.held()) return;
  if (!in_place) remove_tree(path(StepUse::temporary));
  lock.remove();
} catch (const std::exception&) {
  lock = {};  // no memory for a path: the next save removes it
}

CheckpointSave::CheckpointSave(const std::filesystem::path& directory,
                               const CheckpointInfo& info,
                               const Communicator& world)
    : state_(std::make_unique<State>()) {
  state_->directory = directory;
  state_->info = info;
  state_->world = world;
  std::string error;
  if (world.size() != info.layout.size())
    error =
        fmt::format("expected {} ranks for the layout, found {}", info.layout.size(), world.size());
  else if (world.rank() == 0)
    error = error_of([&] { state_->begin(); });
  agree(error, directory / step_name(info.step), world);
  state_->id = world.broadcast(state_->id, 0);
}

CheckpointSave::CheckpointSave(CheckpointSave&&) noexcept = default;

CheckpointSave& CheckpointSave::operator=(CheckpointSave&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

CheckpointSave::~CheckpointSave() {
  if (state_) state_->discard();
}

void CheckpointSave::write(const TrainingState& state, const std::stop_token& stop) noexcept {
  State& mine = *state_;
  mine.error = error_of([&] {
    mine.report = write_rank_file(mine.path(StepUse::temporary), mine.world.rank(), state, stop);
    for (const StateTensor& tensor : state.tensors)
      if (!tensor.owned)
        mine.declared.push_back({tensor.name, tensor.tensor.dtype(), tensor.global_shape});
  });
}

void CheckpointSave::State::commit() {
  const auto step = path(StepUse::saved);
  agree(error, step, world);
  const auto texts = world.all_gather(report.to_text());
  std::string problem = error_of([&] {
    std::vector<RankFileReport> reports;
    for (int rank = 0; rank < world.size(); ++rank)
      reports.push_back(RankFileReport::from_text(texts[static_cast<std::size_t>(rank)], rank));
    check_owned_somewhere(declared, reports);
    check_same_scalars(report.scalars, reports.front().scalars);
    if (info.saved_at == 0)
      info.saved_at = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
    if (world.rank() == 0) write_manifest(path(StepUse::temporary), info, reports);
  });
  agree(problem, step, world);
  if (world.rank() == 0)
    problem = error_of([&] {
      atomic_replace(path(StepUse::temporary), step, path(StepUse::replaced));
      in_place = true;
      sync_directory(directory);
      in_place = false;
      // Removes the replaced step, if any.
      remove_tree(path(StepUse::replaced));
      discard();
    });
  agree(problem, step, world);
}

std::filesystem::path CheckpointSave::commit() {
  try {
    state_->commit();
  } catch (...) {
    state_->discard();
    throw;
  }
  return state_->path(StepUse::saved);
}

std::filesystem::path save_checkpoint(const std::filesystem::path& directory,
                                      const CheckpointInfo& info,
                                      const TrainingState& state,
                                      const Communicator& world) {
  CheckpointSave save(directory, info, world);
  save.write(state);
  return save.commit();
}

}  // namespace longspan
