#include "framework/data/corpus/path_pattern.h"

#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/quote.h"
#include "framework/core/system.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view any_folders = "**";

// RAII wrapper of glob_t.
struct Matches : glob_t {
  Matches() : glob_t() {}
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  ~Matches() { ::globfree(this); }
};

[[noreturn]] void throw_unreadable_listing(const ConfigPath& path, const std::string& reason) {
  throw DataError("{}: cannot list files: {}", path.describe(), reason);
}

// Matches a pattern without **.
std::vector<std::string> shell_matches(const std::string& pattern, const ConfigPath& path) {
  Matches matches;
  const int failed = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &matches);
  const bool is_missing = failed == GLOB_ABORTED && errno == ENOENT;  // a directory of the path
  if (failed != 0 && failed != GLOB_NOMATCH && !is_missing)
    throw_unreadable_listing(path, errno_message());
  std::vector<std::string> found;
  for (std::size_t i = 0; failed == 0 && i < matches.gl_pathc; ++i)
    found.emplace_back(matches.gl_pathv[i]);
  return found;
}

// Adds a directory and its subdirectories, without links and hidden ones. "" is the current
// directory.
void add_folders(const std::string& folder,
                 const ConfigPath& path,
                 std::vector<std::string>& folders) {
  folders.push_back(folder);
  std::error_code error;
  const fs::path place = folder.empty() ? "." : folder;
  for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    std::error_code unused;
    if (is_hidden(at->path()) || at->is_symlink(unused) || !at->is_directory(unused)) continue;
    add_folders((fs::path(folder) / at->path().filename()).string(), path, folders);
  }
  if (error) throw_unreadable_listing(path, error.message());
}

// Escapes a path, so that the pattern matches only it.
std::string literal(const std::string& path) {
  std::string pattern;
  for (const char letter : path) {
    if (std::string_view("*?[]\\").find(letter) != std::string_view::npos) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

// As shell_matches. A component ** matches any number of directories.
std::vector<std::string> all_matches(const std::string& pattern, const ConfigPath& path) {
  const fs::path whole(pattern);
  const std::vector<fs::path> parts(whole.begin(), whole.end());
  const auto several = std::ranges::find(parts, fs::path(any_folders));
  if (several == parts.end()) return shell_matches(pattern, path);
  fs::path before, after;
  for (auto part = parts.begin(); part != several; ++part) before /= *part;
  for (auto part = several + 1; part != parts.end(); ++part) after /= *part;
  std::vector<std::string> folders;
  for (const std::string& folder :
       before.empty() ? std::vector<std::string>{""} : shell_matches(before.string(), path)) {
    std::error_code unused;
    if (folder.empty() || fs::is_directory(folder, unused)) add_folders(folder, path, folders);
  }
  std::vector<std::string> found;
  const std::string rest = after.empty() ? "*" : after.string();
  for (const std::string& folder : folders) {
    const auto here = all_matches((fs::path(literal(folder)) / rest).string(), path);
    found.insert(found.end(), here.begin(), here.end());
  }
  return found;
}

// Returns whether a pattern has a component **. Throws DataError for ** within a component.
bool is_recursive(const ConfigPath& path) {
  bool found = false;
  const fs::path whole(path.text());
  for (const fs::path& part : whole) {
    if (part.string().find(any_folders) == std::string::npos) continue;
    if (part != any_folders)
      throw DataError(
          "{}: expected ** alone between two /, found {}; write FOLDER/**/*.txt for the files of "
          "all subfolders",
          path.describe(),
          quote(part.string()));
    found = true;
  }
  return found;
}

}  // namespace

bool is_hidden(const std::filesystem::path& path) {
  return path.filename().string().starts_with('.');
}

std::vector<ConfigPath> files_matching(const ConfigPath& path, std::vector<std::string>* folders) {
  if (path.find_first_of("*?[") == std::string::npos || path_exists(path.text())) return {path};
  const bool matches_directories = is_recursive(path);
  const std::vector<std::string> found = all_matches(path, path);
  std::vector<ConfigPath> files;
  for (const std::string& name : std::set<std::string>(found.begin(), found.end())) {
    std::error_code unused;
    if (!fs::is_directory(name, unused))
      files.emplace_back(name, path.key, path.place);
    else if (folders != nullptr && !matches_directories)
      folders->push_back(name);
  }
  if (files.empty())
    throw DataError("{}: no file matches{}", path.describe(), path.not_found_hint());
  return files;
}

std::vector<ConfigPath> files_of(const PathList& paths, const ProgressCallback& listener) {
  std::vector<ConfigPath> files;
  for (const WeightedPath& part : paths.parts) {
    std::vector<std::string> folders;
    for (ConfigPath& file : files_matching(part.path, &folders)) files.push_back(std::move(file));
    if (!listener || folders.empty()) continue;
    listener({part.path,
              0,
              0,
              fmt::format("{}: ignoring the matching {}; write ** to read their files",
                          part.path.text(),
                          some_in_quotes(folders, "folders"))});
  }
  return files;
}

std::vector<ConfigPath> files_of(const PathList& paths,
                                 const Communicator& all,
                                 const ProgressCallback& listener) {
  if (all.size() == 1) return files_of(paths, listener);
  // Paths contain no NUL, which therefore separates them.
  std::string found;
  if (all.rank() == 0)
    for (const ConfigPath& file : files_of(paths, listener)) found += file.text() + '\0';
  found = all.broadcast(found, 0);
  std::vector<ConfigPath> files;
  for (std::size_t at = 0; at < found.size();) {
    const std::size_t end = found.find('\0', at);
    files.emplace_back(found.substr(at, end - at), paths.key, paths.place);
    at = end + 1;
  }
  return files;
}

}  // namespace longspan
