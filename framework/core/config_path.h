// A file or directory that a configuration names.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longspan {

// The path, with the key that named it and where that was written, so that who cannot use it can
// say so. A path that no key named is a path like any other.
struct ConfigPath : std::string {
  ConfigPath() = default;
  ConfigPath(const char* path) : std::string(path) {}
  ConfigPath(std::string path) : std::string(std::move(path)) {}
  ConfigPath(std::string path, std::string named_by, std::string written_at)
      : std::string(std::move(path)), key(std::move(named_by)), place(std::move(written_at)) {}

  const std::string& text() const { return *this; }

  std::string key = {};    // "data.train"
  std::string place = {};  // "file:line:column", "--set" or "default"

  // "file:line:column: ", with which a sentence about it begins; "" of a default and of none.
  std::string before() const;
  // "file:line:column: data.train: book.txt", which a sentence goes on after.
  std::string describe() const;
  // What helps to find what is not there, to end a sentence: of a relative path the directory that
  // it starts from, and what makes a corpus that launch/corpus would make. "" where nothing helps.
  std::string not_found_hint() const;
};

// One of several paths, and how much of it is wanted beside the others.
struct WeightedPath {
  ConfigPath path;
  std::optional<double> weight = {};
};

// Files that a configuration names together. Written as one path it is that path; else its text is
// the list as it is written.
struct PathList : ConfigPath {
  PathList() = default;
  PathList(const char* path) : PathList(std::string(path)) {}
  PathList(const std::string& path) : PathList(ConfigPath(path)) {}
  PathList(const ConfigPath& path);
  // At least one.
  explicit PathList(std::vector<WeightedPath> paths);

  // Each with the key and place of all; none where there is no path.
  std::vector<WeightedPath> parts = {};

  bool is_weighted() const;
  // Whether it is one path, without a weight.
  bool is_one() const { return parts.size() <= 1 && !is_weighted(); }
  void name(const std::string& named_by, const std::string& written_at);
};

// "~" and "~/..." with the home directory in place of "~"; other paths as they are.
std::string expand_home(const std::string& path, const std::string& home);
bool begins_at_home(const std::string& path);

}  // namespace longspan
