#include "framework/data/path_pattern.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/system_message.h"

namespace longspan {

namespace {

// Frees on the way out.
struct Matches : glob_t {
  Matches() : glob_t() {}
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  ~Matches() { ::globfree(this); }
};

}  // namespace

std::vector<NamedPath> files_matching(const NamedPath& path) {
  std::error_code unused;
  if (path.find_first_of("*?[") == std::string::npos ||
      std::filesystem::exists(path.text(), unused))
    return {path};
  Matches matches;
  const int failed = ::glob(path.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &matches);
  const bool is_missing = failed == GLOB_ABORTED && errno == ENOENT;  // a folder of the path
  if (failed != 0 && failed != GLOB_NOMATCH && !is_missing)
    throw DataError("{}: the files cannot be listed: {}", path.told(), system_message());
  std::vector<NamedPath> files;
  for (std::size_t i = 0; failed == 0 && i < matches.gl_pathc; ++i) {
    const std::string found = matches.gl_pathv[i];
    if (!std::filesystem::is_directory(found, unused))
      files.emplace_back(found, path.key, path.place);
  }
  if (files.empty())
    throw DataError("{}: no file has a name like this{}", path.told(), path.help_to_find());
  std::ranges::sort(files, {}, &NamedPath::text);
  return files;
}

std::vector<NamedPath> files_of(const PathList& paths) {
  std::vector<NamedPath> files;
  for (const WeightedPath& part : paths.parts)
    for (NamedPath& file : files_matching(part.path)) files.push_back(std::move(file));
  return files;
}

std::vector<NamedPath> files_of(const PathList& paths, const Communicator& all) {
  if (all.size() == 1) return files_of(paths);
  // No path has a zero in it.
  std::string found;
  if (all.rank() == 0)
    for (const NamedPath& file : files_of(paths)) found += file.text() + '\0';
  found = all.broadcast(found, 0);
  std::vector<NamedPath> files;
  for (std::size_t at = 0; at < found.size();) {
    const std::size_t end = found.find('\0', at);
    files.emplace_back(found.substr(at, end - at), paths.key, paths.place);
    at = end + 1;
  }
  return files;
}

}  // namespace longspan
