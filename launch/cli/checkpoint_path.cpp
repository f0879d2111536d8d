#include "launch/cli/checkpoint_path.h"

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "framework/training_loop/run_state.h"
#include "launch/cli/no_checkpoint.h"

namespace longspan {

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

}  // namespace longspan
