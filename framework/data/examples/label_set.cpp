#include "framework/data/examples/label_set.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/quote.h"

namespace longspan {

namespace {

constexpr std::string_view label_set_name = "longspan-labels";
constexpr int label_set_version = 1;

constexpr std::size_t max_texts_counted = 1 << 20;  // about 40 bytes each

std::optional<std::int64_t> as_number(const std::string& name) {
  std::int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (name.empty() || error != std::errc() || stop != end) return {};
  return number;
}

}  // namespace

struct LabelSet::Ids {
  std::unordered_map<std::string_view, std::int64_t> of;  // views into the names
};

LabelSet::LabelSet(std::vector<std::string> names) {
  const bool all_numbers = std::all_of(
      names.begin(), names.end(), [](const auto& name) { return as_number(name).has_value(); });
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    if (all_numbers && *as_number(a) != *as_number(b)) return *as_number(a) < *as_number(b);
    return a < b;
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
  number();
}

LabelSet LabelSet::in_order(std::vector<std::string> names, std::string_view place) {
  LabelSet set;
  set.names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
  set.number();
  for (std::int64_t id = 0; id < set.size(); ++id)
    if (set.id_of(set.name(id)) != id)
      throw DataError("{}: duplicate label {}", place, quote(set.name(id)));
  return set;
}

void LabelSet::number() {
  auto ids = std::make_shared<Ids>();
  for (const std::string& name : *names_)
    ids->of.emplace(name, static_cast<std::int64_t>(ids->of.size()));
  ids_ = std::move(ids);
}

const std::string& LabelSet::name(std::int64_t id) const {
  require(id >= 0 && id < size(), "label {} is out of range ({} labels)", id, size());
  return (*names_)[static_cast<std::size_t>(id)];
}

std::int64_t LabelSet::id_of(std::string_view name) const {
  const auto found = ids_->of.find(name);
  return found == ids_->of.end() ? -1 : found->second;
}

std::int64_t LabelSet::id_at(std::string_view name,
                             std::string_view what,
                             std::string_view place) const {
  const std::int64_t id = id_of(name);
  if (id >= 0) return id;
  const std::string near = closest_match(name, *names_);
  throw DataError("{}: unknown {} {}, expected one of the {} of training{}",
                  place,
                  what,
                  quote(name),
                  size(),
                  near.empty() ? "" : fmt::format("; did you mean {}?", quote(near)));
}

bool LabelColumn::add(std::string_view label, std::string_view text) {
  const bool is_new = !labels_.contains(label);
  if (is_new) labels_.emplace(label);
  if (texts_.size() < max_texts_counted) texts_.insert(XXH3_64bits(text.data(), text.size()));
  return is_new;
}

LearnedLabels LabelColumn::labels() const {
  LearnedLabels learned = {.labels = LabelSet({labels_.begin(), labels_.end()})};
  if (texts_.size() < max_texts_counted) learned.texts = std::ssize(texts_);
  return learned;
}

bool LearnedLabels::may_be_swapped() const {
  // Even if each text had its own label, some texts could be duplicates.
  constexpr std::int64_t least = 3;
  return texts && labels.size() >= least && 2 * labels.size() >= 3 * *texts;
}

std::string LearnedLabels::to_json() const {
  nlohmann::ordered_json json = {{"labels", labels.to_json()}};
  if (texts) json["texts"] = *texts;
  return json.dump();
}

LearnedLabels LearnedLabels::from_json(std::string_view text, std::string_view place) {
  const nlohmann::json json = nlohmann::json::parse(text);
  LearnedLabels learned = {
      .labels = LabelSet::from_json(json.at("labels").get_ref<const std::string&>(), place)};
  if (json.contains("texts")) learned.texts = json["texts"].get<std::int64_t>();
  return learned;
}

std::string LabelSet::to_json() const {
  nlohmann::ordered_json json;
  json["format"] = label_set_name;
  json["version"] = label_set_version;
  json["labels"] = *names_;
  return json.dump() + "\n";
}

LabelSet LabelSet::from_json(std::string_view text, std::string_view place) {
  check_json_limits(text, std::string(place));
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != label_set_name || json.at("version") != label_set_version)
      throw DataError("{}: expected a Longspan label set of version {}", place, label_set_version);
    return in_order(json.at("labels").get<std::vector<std::string>>(), place);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: invalid Longspan label set: {}", place, truncated(error.what(), 200));
  }
}

}  // namespace longspan
