#include "framework/core/config_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "framework/core/decimal.h"
#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

// Returns the launch/corpus command that creates runs/corpora/NAME/train.txt and similar paths.
std::string maker_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  const std::string part = path.filename().string();
  const std::string name = folder.filename().string();
  const fs::path corpora = folder.parent_path();
  const bool is_part = part == "train.txt" || part == "validation.txt" || part == "test.txt";
  if (!is_part || corpora.filename() != "corpora" || corpora.parent_path().filename() != "runs")
    return "";
  if (name == "kjv" || name == "gcide") return fmt::format("; run launch/corpus {}", name);
  return fmt::format("; run launch/corpus {0}.txt to make it from your file {0}.txt", name);
}

}  // namespace

std::string ConfigPath::before() const {
  return place.empty() || place == "default" ? "" : place + ": ";
}

std::string ConfigPath::describe() const {
  return fmt::format("{}{}{}", before(), key.empty() ? "" : key + ": ", text());
}

std::string ConfigPath::not_found_hint() const {
  const fs::path path = text();
  std::string help;
  std::error_code error;
  if (const fs::path here = fs::current_path(error); path.is_relative() && !error)
    help =
        fmt::format("; check the current directory, where relative paths start: {}", here.string());
  return help + maker_of(path.lexically_normal());
}

namespace {

std::string list_text(const std::vector<WeightedPath>& paths) {
  std::vector<std::string> items;
  for (const WeightedPath& part : paths) {
    const std::string path = yaml_word(part.path);
    items.push_back(part.weight
                        ? fmt::format("{{path: {}, weight: {}}}", path, format_number(*part.weight))
                        : path);
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

PathList::PathList(const ConfigPath& path) : ConfigPath(path) {
  if (!path.empty()) parts.push_back({path});
}

PathList::PathList(std::vector<WeightedPath> paths) : parts(std::move(paths)) {
  if (parts.empty()) throw Failure("expected at least one path, found an empty list");
  static_cast<std::string&>(*this) = is_one() ? parts[0].path.text() : list_text(parts);
  if (empty()) parts.clear();
}

bool PathList::is_weighted() const {
  return std::ranges::any_of(parts,
                             [](const WeightedPath& part) { return part.weight.has_value(); });
}

void PathList::name(const std::string& selected_by, const std::string& written_at) {
  key = selected_by;
  place = written_at;
  for (WeightedPath& part : parts) {
    part.path.key = key;
    part.path.place = place;
  }
}

bool starts_at_home(const std::string& path) { return path == "~" || path.starts_with("~/"); }

std::string expand_home(const std::string& path, const std::string& home) {
  return starts_at_home(path) ? home + path.substr(1) : path;
}

}  // namespace longspan
