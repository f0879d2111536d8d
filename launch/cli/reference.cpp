#include "launch/cli/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/core/quote.h"
#include "framework/options/field_names.h"
#include "launch/cli/configuration_keys.h"

namespace longspan {
namespace {

bool same(const OptionDescription& a, const OptionDescription& b) {
  return a.key == b.key && a.type == b.type && a.allowed == b.allowed &&
         a.default_value == b.default_value && a.documentation == b.documentation;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::vector<OptionDescription> about(const std::vector<OptionDescription>& reference,
                                     const std::string& word) {
  const auto chosen = [&](const auto& is_meant) {
    std::vector<OptionDescription> result;
    std::ranges::copy_if(reference, std::back_inserter(result), is_meant);
    return result;
  };
  if (auto section = chosen([&](const auto& option) { return option.key.starts_with(word + "."); });
      !section.empty())
    return section;
  if (word.find('.') != std::string::npos)
    return chosen([&](const auto& option) { return option.key.starts_with(word); });
  std::string name = word;
  std::ranges::replace(name, '-', '_');
  std::set<std::string_view> named;  // by a synonym
  for (const FieldName& entry : field_names())
    if (starts_word_piece(entry.names, name)) named.insert(entry.key);
  return chosen([&](const auto& option) {
    return named.contains(option.key) || starts_word_piece(option.key, name) ||
           starts_word_piece(option.documentation, word);
  });
}

}  // namespace

std::vector<OptionDescription> configuration_reference() {
  Configuration shared;
  declare_all(shared, nullptr);
  std::vector<OptionDescription> all = shared.table.reference();

  // A key that several families describe equally is listed once, with its families unless all have
  // it.
  struct FamilyKey {
    OptionDescription option;
    std::vector<std::string> families;
  };
  std::vector<FamilyKey> keys;
  for (const Family& family : families()) {
    OptionTable table;
    const BackboneFactory unused = family.declare(table, {});
    for (const OptionDescription& option : table.reference()) {
      const auto known = std::find_if(
          keys.begin(), keys.end(), [&](const FamilyKey& key) { return same(key.option, option); });
      if (known == keys.end()) {
        keys.push_back({option, {family.name}});
      } else {
        known->families.push_back(family.name);
      }
    }
  }
  auto place = std::find_if(all.begin(), all.end(), [](const OptionDescription& option) {
    return option.key == family_key;
  });
  for (FamilyKey& key : keys) {
    if (key.families.size() < families().size()) {
      key.option.documentation =
          fmt::format("{} (family {})", key.option.documentation, fmt::join(key.families, ", "));
    }
    place = all.insert(place + 1, std::move(key.option));
  }
  return all;
}

std::vector<OptionDescription> reference_of(const Configuration& configuration) {
  std::vector<OptionDescription> reference = configuration.table.reference();
  const std::vector<OptionValue> values = configuration.table.values();
  for (std::size_t i = 0; i < reference.size(); ++i) {
    require(reference[i].key == values[i].key, "reference and values differ in order");
    if (values[i].place == "default") continue;
    reference[i].set_to = values[i].text;
    reference[i].set_at = values[i].place;
  }
  return reference;
}

std::vector<OptionDescription> search(std::vector<OptionDescription> reference,
                                      const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::vector<OptionDescription> found = about(reference, lower(word));
    if (found.empty()) {
      std::vector<std::string> keys;
      for (const OptionDescription& option : reference) keys.push_back(option.key);
      throw ConfigurationError("no key matches {}{}{}",
                               quote(word),
                               &word == &words.front() ? "" : " and the words before it",
                               key_hint(lower(word), keys));
    }
    reference = std::move(found);
  }
  return reference;
}

std::vector<std::string> notes_about(const std::vector<std::string>& words) {
  std::vector<std::string> notes;
  for (const FieldName& entry : field_names())
    for (const std::string& word : words) {
      // "model" begins many names that it is not about.
      const NameMatch found = match(word, entry);
      if (entry.key.empty() && found != NameMatch::none && found != NameMatch::beginning)
        notes.emplace_back(entry.note);
    }
  return notes;
}

bool names_file(const std::string& word) {
  const bool has_ending =
      word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
  return has_ending || word.find('/') != std::string::npos;
}

}  // namespace longspan
