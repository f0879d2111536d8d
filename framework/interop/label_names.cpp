#include "framework/interop/label_names.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/interop/weights_folder.h"

namespace longspan {
namespace {

constexpr std::int64_t max_labels = 1 << 20;

}  // namespace

void read_label_names(const ModelConfig& config, ImportedConfig& meaning) {
  constexpr const char* single = "single_label_classification";
  if (config.has("problem_type") && config.text("problem_type") != single)
    config.throw_data_error("problem_type",
                            fmt::format("expected {}, found {} (one class per text)",
                                        single,
                                        quote(config.text("problem_type"))));
  std::vector<std::string>& names = meaning.labels;
  std::int64_t count = 0;
  // Version 3 of `transformers` calls the key "_num_labels".
  for (const char* const key : {"_num_labels", "num_labels"})
    if (config.has(key)) count = config.integer(key, 0, max_labels);
  if (config.has("id2label")) {
    const ModelConfig labels = config.section("id2label");
    for (std::string id = "0"; labels.has(id); id = fmt::format("{}", names.size()))
      names.push_back(labels.text(id));
    labels.finish();
    if (count > 0 && count != std::ssize(names)) meaning.num_labels = count;
  } else {
    for (std::int64_t id = 0; id < (count > 0 ? count : 2); ++id)
      names.push_back(fmt::format("LABEL_{}", id));
  }
  if (names.size() < 2 && meaning.num_labels < 2)
    config.throw_data_error("id2label",
                            fmt::format("expected at least 2 classes, found {} label{}",
                                        names.size(),
                                        names.size() == 1 ? " (regression)" : "s"));
}

std::function<void(const TensorFinder& find, ImportedConfig& meaning)> label_settling(
    const std::string& readout) {
  return [readout](const TensorFinder& find, ImportedConfig& meaning) {
    const StoredTensor* const stored = find(readout);
    if (meaning.num_labels == 0 || stored == nullptr || stored->shape.empty()) return;
    std::vector<std::string>& names = meaning.labels;
    const std::string both = fmt::format(
        "\"num_labels\" is {} and \"id2label\" has {} labels", meaning.num_labels, names.size());
    const std::int64_t rows = stored->shape[0];
    if (rows < 2)
      throw DataError("{}: tensor {}: expected at least 2 rows (classes), found {}; {}",
                      model_config_name,
                      quote(readout),
                      rows,
                      both);
    if (rows != meaning.num_labels && rows != std::ssize(names))
      throw DataError("{}: tensor {}: expected as many rows as labels, found {}; {}",
                      model_config_name,
                      quote(readout),
                      rows,
                      both);
    if (rows == meaning.num_labels) {
      const std::set<std::string> given(names.begin(), names.end());
      while (std::ssize(names) < rows) {
        std::string name = fmt::format("LABEL_{}", names.size());
        while (given.contains(name)) name += "_";
        names.push_back(std::move(name));
      }
      names.resize(static_cast<std::size_t>(rows));
    }
    meaning.remarks.push_back(
        fmt::format("{}: {}; uses the labels {}, as many as rows of tensor {}",
                    model_config_name,
                    both,
                    join_first(names),
                    quote(readout)));
  };
}

DistinctNames distinct_names(const std::vector<std::string>& names) {
  DistinctNames distinct = {.names = names};
  std::set<std::string> taken(names.begin(), names.end());
  std::map<std::string, int> seen;  // with the last number that was tried
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

std::vector<std::string> original_label_names(std::vector<std::string> names,
                                              const std::string& given,
                                              const std::string& place) {
  if (given.empty()) return names;
  try {
    const auto by_name = nlohmann::json::parse(given).get<std::map<std::string, std::string>>();
    for (std::string& name : names)
      if (const auto found = by_name.find(name); found != by_name.end()) name = found->second;
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: {}: {}", place, label_names_scalar, truncated(error.what(), 200));
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
