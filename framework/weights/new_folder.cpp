#include "framework/weights/new_folder.h"

#include <system_error>

#include "checkpoints/files.h"
#include "checkpoints/step_directory.h"
#include "framework/core/error.h"

namespace longspan {

namespace fs = std::filesystem;

NewFolder::NewFolder(const fs::path& path, const std::string& asked_by) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  const bool is_there = fs::exists(status);
  if (is_there && (!fs::is_directory(status) || !fs::is_empty(path, error) || error))
    throw ConfigurationError(
        "{}: {} is there already; wanted: a folder that is not there yet, or an empty one",
        asked_by,
        path.string());
  // Without a "/" at its end, so that it has a name and a folder.
  path_ = fs::absolute(path).lexically_normal();
  if (path_.filename().empty()) path_ = path_.parent_path();
  fs::path beside = path_;
  beside += ".tmp-" + unique_id();
  fs::create_directories(path_.parent_path(), error);
  if (!error) fs::create_directory(beside, error);
  if (error) throw Failure("{}: {} cannot be made: {}", asked_by, beside.string(), error.message());
  beside_ = beside;
}

NewFolder::~NewFolder() {
  std::error_code unused;
  if (!finished_ && !beside_.empty()) fs::remove_all(beside_, unused);
}

void NewFolder::finish() {
  sync_directory(beside_);
  std::error_code error;
  fs::rename(beside_, path_, error);
  if (error) throw Failure("{}: cannot be given its name: {}", path_.string(), error.message());
  finished_ = true;
  sync_directory(path_.parent_path());
}

}  // namespace longspan
