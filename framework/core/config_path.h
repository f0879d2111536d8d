// A file or directory that a configuration refers to.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longspan {

// A path with the key that set it and the location of that key, for error messages. A path without
// a key acts as a plain path.
struct ConfigPath : std::string {
  ConfigPath() = default;
  ConfigPath(const char* path) : std::string(path) {}
  ConfigPath(std::string path) : std::string(std::move(path)) {}
  ConfigPath(std::string path, std::string selected_by, std::string written_at)
      : std::string(std::move(path)), key(std::move(selected_by)), place(std::move(written_at)) {}

  const std::string& text() const { return *this; }

  std::string key = {};    // "data.train"
  std::string place = {};  // "file:line:column", "--set" or "default"

  // Returns "file:line:column: ", the prefix of a message; "" for a default and for a path without
  // a key.
  std::string before() const;
  // Returns "file:line:column: data.train: book.txt", the beginning of a message.
  std::string describe() const;
  // Returns a hint to append to a message about a missing file, or "". For a relative path: the
  // directory it is resolved against. For a corpus: the launch/corpus command that creates it.
  std::string not_found_hint() const;
};

// One of several paths, with its relative sampling weight.
struct WeightedPath {
  ConfigPath path;
  std::optional<double> weight = {};
};

// Files that one key lists. For a single path the text is that path; otherwise it is the list as
// written.
struct PathList : ConfigPath {
  PathList() = default;
  PathList(const char* path) : PathList(std::string(path)) {}
  PathList(const std::string& path) : PathList(ConfigPath(path)) {}
  PathList(const ConfigPath& path);
  // Requires at least one path.
  explicit PathList(std::vector<WeightedPath> paths);

  // Each part has the key and place of the list; empty where there is no path.
  std::vector<WeightedPath> parts = {};

  bool is_weighted() const;
  // Returns whether it is one path without a weight.
  bool is_one() const { return parts.size() <= 1 && !is_weighted(); }
  void name(const std::string& selected_by, const std::string& written_at);
};

// Replaces a leading "~" with the home directory; returns other paths unchanged.
std::string expand_home(const std::string& path, const std::string& home);
bool starts_at_home(const std::string& path);

}  // namespace longspan
