#include "framework/interop/atomic_directory.h"

#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "checkpoints/files.h"
#include "checkpoints/step_directory.h"
#include "framework/core/error.h"

namespace longspan {

namespace fs = std::filesystem;

namespace {

constexpr const char* temporary = ".tmp-";
constexpr const char* locked = ".lock-";

fs::path sibling(const fs::path& path, const char* use, const std::string& id) {
  fs::path result = path;
  result += use + id;
  return result;
}

// Removes directories of dead writers. A directory without a lock file is not ours.
void remove_abandoned(const fs::path& path) {
  std::vector<std::string> left;
  const std::string begin = path.filename().string() + locked;
  std::error_code error;
  for (fs::directory_iterator entry(path.parent_path(), error), end; !error && entry != end;
       entry.increment(error))
    if (const std::string name = entry->path().filename().string(); name.starts_with(begin))
      left.push_back(name.substr(begin.size()));
  for (const std::string& id : left) {
    std::optional<LockFile> lock = LockFile::acquire_abandoned(sibling(path, locked, id));
    if (!lock) continue;
    fs::remove_all(sibling(path, temporary, id), error);
    lock->remove();
  }
}

}  // namespace

AtomicDirectory::AtomicDirectory(const fs::path& path, const std::string& asked_by) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  const bool exists = fs::exists(status);
  if (exists && (!fs::is_directory(status) || !fs::is_empty(path, error) || error))
    throw ConfigurationError(
        "{}: {} already exists; name a new or empty directory", asked_by, path.string());
  // Drops a trailing "/", so that the path has a file name and a parent.
  path_ = fs::absolute(path).lexically_normal();
  if (path_.filename().empty()) path_ = path_.parent_path();
  fs::create_directories(path_.parent_path(), error);
  std::string id = unique_id();
  if (!error) {
    remove_abandoned(path_);
    while (!lock_.held()) lock_ = LockFile::create(sibling(path_, locked, id = unique_id()));
  }
  const fs::path made = sibling(path_, temporary, id);
  if (!error) fs::create_directory(made, error);
  if (error) {
    lock_.remove();
    throw Failure("{}: {} cannot be created: {}", asked_by, made.string(), error.message());
  }
  temporary_path_ = made;
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code unused;
  if (!finished_) fs::remove_all(temporary_path_, unused);
  lock_.remove();
}

void AtomicDirectory::finish() {
  sync_directory(temporary_path_);
  std::error_code error;
  fs::rename(temporary_path_, path_, error);
  if (error) throw Failure("{}: cannot be renamed into place: {}", path_.string(), error.message());
  finished_ = true;
  sync_directory(path_.parent_path());
}

}  // namespace longspan
