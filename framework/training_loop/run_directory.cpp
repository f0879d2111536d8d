#include "framework/training_loop/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>

#include "framework/core/error.h"
#include "framework/core/system.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {
namespace {

enum class LockState { free, held, unknown };

LockState lock_state(const std::filesystem::path& run) noexcept try {
  const Descriptor lock(::open((run / lock_name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!lock.defined()) return LockState::unknown;
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) == 0) return LockState::free;
  return errno == EWOULDBLOCK ? LockState::held : LockState::unknown;
} catch (const std::exception&) {
  return LockState::unknown;
}

namespace fs = std::filesystem;

// Returns whether another run holds the lock; otherwise acquires it. Retries for some seconds, as a
// process that checks whether a run is active holds a shared lock briefly. Also mpirun, having
// killed its ranks, may end before the last of them has, so an immediate restart would be too
// early.
bool is_held_elsewhere(int lock) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds between{10};
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (Clock::now() >= end) return true;
    std::this_thread::sleep_for(between);
  }
  return false;
}

// Acquires the lock; returns a message on failure. `made`: whether it created the directory.
std::string acquire_lock(const ConfigPath& named, Descriptor& lock, bool& made) {
  const fs::path path = named.text();
  const std::string it = fmt::format("{}run.output_dir \"{}\"", named.before(), path.string());
  std::error_code error;
  made = fs::create_directories(path, error);
  if (error)
    return fmt::format("{} cannot be created: {}{}", it, error.message(), named.not_found_hint());
  lock = Descriptor(open((path / lock_name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (!lock.defined())
    return fmt::format("{} cannot be written: {}{}", it, errno_message(), named.not_found_hint());
  // Some network file systems have no locks: the user must then avoid concurrent runs.
  if (is_held_elsewhere(lock.get()))
    return fmt::format("{} is in use by another run; choose another one", it);
  return "";
}

// Creates a folder. Returns why nothing can be saved in it, or an empty string.
std::string prepare_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fmt::format("\"{}\" cannot be created: {}", folder.string(), error.message());
  if (access(folder.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("\"{}\" cannot be written: {}", folder.string(), errno_message());
}

// Prefix of the files by which ranks check that they share a folder.
constexpr std::string_view marker = ".seen-by-all-";

// Removes files that a killed run left. The lock holder excludes other runs.
void remove_markers(const fs::path& folder) {
  std::error_code error, unused;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().filename().string().starts_with(marker)) fs::remove(entry->path(), unused);
}

// Whether this rank finds a file that another one created. A network file system's cache of a
// folder may be some seconds old; opening the folder refreshes it.
bool finds(const fs::path& file) {
  constexpr int attempts = 20;
  constexpr std::chrono::milliseconds between{100};
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(between);
    const int folder = open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) close(folder);
    if (access(file.c_str(), F_OK) == 0) return true;
  }
  return false;
}

// Returns why a rank cannot write next to rank 0, which can write to the folder; empty if all can.
std::string error_of_ranks_with(const fs::path& folder, const Communicator& world) {
  if (world.size() == 1) return "";
  // A new name, so that no cache holds a negative entry for it.
  const fs::path file = folder / (std::string(marker) + new_run_id(world));
  std::string sentence;
  if (world.rank() == 0) {
    const int descriptor = open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor < 0)
      sentence = fmt::format("\"{}\" cannot be written: {}", file.string(), errno_message());
    if (descriptor >= 0) close(descriptor);
  }
  sentence = world.broadcast(sentence, 0);
  if (!sentence.empty()) return sentence;
  const std::string first_host = world.broadcast(host_name(), 0);
  if (!finds(file))
    sentence = fmt::format("rank {} on {} cannot see the files of rank 0 on {}",
                           world.rank(),
                           host_name(),
                           first_host);
  else if (access(folder.c_str(), W_OK | X_OK) != 0)
    sentence = fmt::format(
        "rank {} on {} cannot write there: {}", world.rank(), host_name(), errno_message());
  const std::int64_t lowest = world.all_reduce(
      std::int64_t{sentence.empty() ? world.size() : world.rank()}, Reduction::minimum);
  std::error_code error;
  if (world.rank() == 0) fs::remove(file, error);
  if (lowest == world.size()) return "";
  return world.broadcast(sentence, static_cast<int>(lowest)) +
         "; use a directory that all hosts of the job share, where each rank writes its part of a "
         "checkpoint";
}

// Writes in place, as the lock is on this file, and in one call. A full disk then leaves the old
// mark, and concurrent readers find one. Without a mark a run counts as one of an older version.
void write_mark(const Descriptor& lock, const MeshShape& layout, bool has_ended) {
  const std::string text = to_text({.layout = layout, .has_ended = has_ended, .host = host_name()});
  const auto size = static_cast<ssize_t>(text.size());
  if (pwrite(lock.get(), text.data(), text.size(), 0) != size) return;
  [[maybe_unused]] const int cut = ftruncate(lock.get(), size);
}

}  // namespace

std::string to_text(const RunMark& mark) {
  const nlohmann::ordered_json json = {{"data", mark.layout.data},
                                       {"context", mark.layout.context},
                                       {"tensor", mark.layout.tensor},
                                       {"has_ended", mark.has_ended},
                                       {"host", mark.host}};
  constexpr std::size_t size = 255;  // more than any host name and layout need
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize(std::max(size, text.size()), ' ');
  return text + "\n";
}

std::optional<RunMark> run_mark(const std::filesystem::path& run) noexcept try {
  std::error_code error;
  const std::filesystem::path path = run / lock_name;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  constexpr std::size_t most = 1 << 10;
  std::string text(most, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), most);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) return std::nullopt;
  const auto json = nlohmann::json::parse(text);
  RunMark mark;
  mark.layout.data = json.at("data").get<int>();
  mark.layout.context = json.at("context").get<int>();
  mark.layout.tensor = json.at("tensor").get<int>();
  mark.has_ended = json.at("has_ended").get<bool>();
  mark.host = json.value("host", "");
  return mark;
} catch (const std::exception&) {
  return std::nullopt;
}

bool is_running(const std::filesystem::path& run) noexcept {
  return lock_state(run) == LockState::held;
}

bool shows_locks(const std::filesystem::path& run, const RunMark& mark) noexcept try {
  const bool is_here = mark.host.empty() || mark.host == host_name();
  return is_here && lock_state(run) != LockState::unknown;
} catch (const std::exception&) {
  return false;
}

std::int64_t last_logged_step(const std::filesystem::path& run) noexcept try {
  return end_of_metrics(run / "metrics.jsonl").step;
} catch (const std::exception&) {
  return 0;
}

RunDirectory::RunDirectory(const ConfigPath& path, const Communicator& world)
    : path_(path.text()), writes_(world.rank() == 0) {
  std::string sentence;
  if (writes_) {
    std::error_code error;
    is_first_ = !fs::exists(path_ / lock_name, error) && !fs::exists(log(), error);
    made_checkpoints_ = !fs::exists(fs::symlink_status(checkpoints(), error));
    sentence = acquire_lock(path, lock_, made_);
    const auto before = run_mark(path_);
    follows_killed_ = before && !before->has_ended;
  }
  if (writes_ && sentence.empty()) {
    sentence = prepare_folder(checkpoints());
    if (!sentence.empty()) remove_made();
  }
  sentence = world.broadcast(sentence, 0);
  if (!sentence.empty()) throw ConfigurationError("{}", sentence);
  if (writes_) remove_markers(checkpoints());
  sentence = error_of_ranks_with(checkpoints(), world);
  if (sentence.empty()) return;
  remove_made();
  throw ConfigurationError("{}run.output_dir \"{}\": {}", path.before(), path_.string(), sentence);
}

RunDirectory::~RunDirectory() {
  if (marked_) write_mark(lock_, *marked_, true);
}

void RunDirectory::mark_running(const MeshShape& layout) {
  if (!writes_) return;
  marked_ = layout;
  write_mark(lock_, layout, false);
}

void RunDirectory::remove_if_unused() noexcept try {
  if (!writes_ || !is_first_ || is_lost()) return;
  const auto is_own = [&](const fs::directory_entry& entry) {
    const fs::path name = entry.path().filename();
    return name == lock_name || name == log().filename() ||
           (name == checkpoints_name && entry.is_directory() && fs::is_empty(entry.path()));
  };
  const fs::directory_iterator entries(path_);
  if (!std::all_of(begin(entries), end(entries), is_own)) return;
  remove_made();
} catch (const fs::filesystem_error&) {
  // The remaining directory is an empty run.
}

void RunDirectory::remove_made() noexcept {
  if (!writes_ || !is_first_) return;
  std::error_code unused;  // what cannot be removed is an empty run
  if (made_checkpoints_) fs::remove(checkpoints(), unused);
  fs::remove(log(), unused);
  fs::remove(path_ / lock_name, unused);
  marked_.reset();
  if (made_) fs::remove(path_, unused);
}

bool RunDirectory::is_lost() const {
  if (!writes_) return false;
  struct stat held {};
  struct stat there {};
  if (fstat(lock_.get(), &held) != 0) return errno == ESTALE;
  // Other errors may be transient.
  if (stat((path_ / lock_name).c_str(), &there) != 0)
    return errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
  return held.st_dev != there.st_dev || held.st_ino != there.st_ino;
}

void RunDirectory::throw_lost(std::int64_t step) const {
  throw DataError(
      "run.output_dir \"{}\": removed, moved or replaced while the run was writing to "
      "it (another .lock), detected after step {}; restore it and run the same command "
      "to resume, or start over",
      path_.string(),
      step);
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
  if (!writes_) return;
  const fs::path target = path_ / name;
  const fs::path temporary = path_ / (name + ".tmp");
  std::error_code error;
  fs::remove(temporary, error);  // left by a killed run
  write_text_file(temporary, text);
  fs::rename(temporary, target, error);
  if (error) throw Failure("{}: cannot be written: {}", target.string(), error.message());
}

std::string new_run_id(const Communicator& world) {
  std::random_device source;
  const std::uint64_t bits = (static_cast<std::uint64_t>(source()) << 32) | source();
  return world.broadcast(fmt::format("{:016x}", bits), 0);
}

}  // namespace longspan
