#include "framework/weights/label_names.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/option_text.h"

namespace longspan {
namespace {

constexpr std::int64_t most_labels = 1 << 20;

}  // namespace

std::vector<std::string> read_label_names(const ModelConfig& config) {
  constexpr const char* single = "single_label_classification";
  if (config.has("problem_type") && config.text("problem_type") != single)
    config.refuse("problem_type",
                  fmt::format("found {}; wanted {}: one class of a text is right",
                              in_quotes(config.text("problem_type")),
                              single));
  std::vector<std::string> names;
  if (config.has("id2label")) {
    const ModelConfig labels = config.section("id2label");
    for (std::string id = "0"; labels.has(id); id = fmt::format("{}", names.size()))
      names.push_back(labels.text(id));
    labels.finish();
  } else {
    const std::int64_t count =
        config.has("num_labels") ? config.integer("num_labels", 1, most_labels) : 2;
    for (std::int64_t id = 0; id < count; ++id) names.push_back(fmt::format("LABEL_{}", id));
  }
  if (names.size() < 2)
    config.refuse("id2label",
                  fmt::format("found {} label{}; wanted at least 2 classes",
                              names.size(),
                              names.size() == 1 ? ", which stands for a number" : "s"));
  return names;
}

DistinctNames distinct_names(const std::vector<std::string>& names) {
  DistinctNames distinct = {.names = names};
  std::set<std::string> taken(names.begin(), names.end());
  std::map<std::string, int> seen;  // and the number that was tried last
  for (std::string& name : distinct.names) {
    int& number = seen[name];
    if (++number == 1) continue;
    std::string other = fmt::format("{} ({})", name, number);
    while (taken.contains(other)) other = fmt::format("{} ({})", name, ++number);
    taken.insert(other);
    distinct.given[other] = std::exchange(name, other);
  }
  return distinct;
}

std::vector<std::string> given_names(std::vector<std::string> names,
                                     const std::string& given,
                                     const std::string& place) {
  if (given.empty()) return names;
  try {
    const auto by_name = nlohmann::json::parse(given).get<std::map<std::string, std::string>>();
    for (std::string& name : names)
      if (const auto found = by_name.find(name); found != by_name.end()) name = found->second;
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: {}: {}", place, given_names_scalar, shortened(error.what(), 200));
  }
  return names;
}

void write_label_names(const std::vector<std::string>& names, nlohmann::ordered_json& config) {
  nlohmann::ordered_json by_id, by_name;
  for (std::size_t id = 0; id < names.size(); ++id) {
    by_id[fmt::format("{}", id)] = names[id];
    by_name[names[id]] = id;
  }
  config["id2label"] = by_id;
  config["label2id"] = by_name;
}

}  // namespace longspan
