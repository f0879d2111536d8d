// Hints at keys and values, by the names of the field and by spelling.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "framework/core/quote.h"
#include "framework/options/field_names.h"

namespace longspan {
namespace {

// Longer words match nothing and are slow to compare.
constexpr std::size_t max_name_length = 200;

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }
std::string_view section_of(std::string_view key) { return key.substr(0, key.find('.')); }

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Normalizes to lowercase, with underscores for hyphens and without leading ones.
std::string normal(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (!(result.empty() && (c == '-' || c == '_'))) result += c == '-' ? '_' : small(c);
  return result;
}

std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

NameMatch match_name(const std::string& written, std::string_view name) {
  using enum NameMatch;
  if (name.find('.') != std::string_view::npos) {
    const std::string ending = fmt::format(".{}", name);
    return written == name || written.ends_with(ending) ? qualified : none;
  }
  const std::string leaf(leaf_of(written));
  if (without_underscores(leaf) == without_underscores(std::string(name))) return whole;
  if (name.starts_with(leaf + "_")) return beginning;
  return fmt::format("_{}_", leaf).find(fmt::format("_{}_", name)) != std::string::npos ? within
                                                                                        : none;
}

bool is_among(std::string_view key, std::span<const std::string> keys) {
  return std::ranges::find(keys, key) != keys.end();
}

std::string meant(std::string_view key) { return fmt::format("; did you mean \"{}\"?", key); }

// Returns the best entry, among those for `keys` or without a key, that matches `written` at least
// as well as required. Ties prefer the section of `written`, then the first entry.
const FieldName* find_entry(std::string_view written,
                            std::span<const std::string> keys,
                            NameMatch least) {
  const FieldName* best = nullptr;
  std::pair<NameMatch, bool> best_match = {NameMatch::none, false};
  for (const FieldName& entry : field_names()) {
    if (!entry.value.empty() || (!entry.key.empty() && !is_among(entry.key, keys))) continue;
    const std::pair found = {match(written, entry), section_of(entry.key) == section_of(written)};
    if (found.first < least || found <= best_match) continue;
    best_match = found;
    best = &entry;
  }
  return best;
}

std::string hint_of(const FieldName& entry) {
  return entry.note.empty() ? meant(entry.key) : fmt::format("; {}", entry.note);
}

// Returns the key with that last component, or "". Ties prefer the section of `written`, then the
// shallowest, then the first key.
std::string key_of_leaf(std::string_view leaf,
                        std::string_view written,
                        std::span<const std::string> keys) {
  const auto rank = [&](const std::string& key) {
    return std::pair(section_of(key) != section_of(written), std::ranges::count(key, '.'));
  };
  const std::string* best = nullptr;
  for (const std::string& key : keys)
    if (leaf_of(key) == leaf && (best == nullptr || rank(key) < rank(*best))) best = &key;
  return best == nullptr ? "" : *best;
}

// Returns the part up to the last dot, which it includes.
std::string_view parent_of(std::string_view key) {
  return key.substr(0, key.size() - leaf_of(key).size());
}

// Other programs name a section's type otherwise: "optimizer.name" is "optimizer.type".
std::string with_type(std::string_view written) {
  const bool is_type = leaf_of(written) == "name" || leaf_of(written) == "kind";
  return is_type ? fmt::format("{}type", parent_of(written)) : std::string(written);
}

// Returns the key with the longest ending of at least two components in common with `written`, such
// as "tokenizer.vocab_size", or "". Ties prefer the shallowest, then the first key.
std::string key_with_ending(std::string_view written, std::span<const std::string> keys) {
  for (std::size_t begin = 0; written.find('.', begin) != std::string_view::npos;
       begin = written.find('.', begin) + 1) {
    const std::string ending = fmt::format(".{}", written.substr(begin));
    const std::string* best = nullptr;
    const auto depth = [](const std::string& key) { return std::ranges::count(key, '.'); };
    for (const std::string& key : keys)
      if (fmt::format(".{}", key).ends_with(ending) &&
          (best == nullptr || depth(key) < depth(*best)))
        best = &key;
    if (best != nullptr) return *best;
  }
  return "";
}

// Returns a hint where a section of `written` is a common name: of a key, in whose section the rest
// is looked up ("scheduler.type" as "lr_scheduler.type"), or of one with a note. Else "".
std::string section_hint(std::string_view written, std::span<const std::string> keys) {
  std::string hint;  // at a key that has no such part: "grad_clip.value"
  for (std::size_t dot = written.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = written.rfind('.', dot - 1)) {
    const FieldName* const entry = find_entry(written.substr(0, dot), keys, NameMatch::whole);
    if (entry == nullptr) continue;
    if (!entry->note.empty()) return hint_of(*entry);
    const std::string key = fmt::format("{}{}", parent_of(entry->key), written.substr(dot + 1));
    if (is_among(key, keys)) return meant(key);
    if (hint.empty() && leaf_of(entry->key) != "type") hint = hint_of(*entry);
  }
  return hint;
}

// Returns the key of the same section whose last component is similar to that of `written`.
std::string near_sibling(std::string_view written, std::span<const std::string> keys) {
  const std::string_view parent = parent_of(written);
  std::vector<std::string> leaves;
  for (const std::string& key : keys)
    if (parent_of(key) == parent) leaves.emplace_back(leaf_of(key));
  const std::string near = closest_match(leaf_of(written), leaves);
  return near.empty() ? "" : fmt::format("{}{}", parent, near);
}

// Returns the key whose last component is similar to that of `written`, or "".
std::string key_of_near_leaf(std::string_view written, std::span<const std::string> keys) {
  constexpr std::size_t shortest = 6;  // shorter names are similar to too many keys
  const std::string_view leaf = leaf_of(written);
  if (leaf.size() < shortest) return "";
  std::vector<std::string> leaves;
  for (const std::string& key : keys) leaves.emplace_back(leaf_of(key));
  if (const std::string near = closest_match(leaf, leaves); !near.empty())
    return key_of_leaf(near, written, keys);
  // A misspelled name of the field.
  std::vector<std::string> names;
  std::vector<std::string_view> targets;
  for (const FieldName& entry : field_names()) {
    if (entry.key.empty() || !entry.value.empty() || !is_among(entry.key, keys)) continue;
    for (const std::string& name : split(entry.names, ' ')) {
      names.push_back(name);
      targets.push_back(entry.key);
    }
  }
  const auto named = std::ranges::find(names, closest_match(leaf, names));
  return named == names.end()
             ? ""
             : std::string(targets[static_cast<std::size_t>(named - names.begin())]);
}

// Returns the entry for a value of `key`, or null.
const FieldName* find_value(std::string_view key,
                            std::string_view written,
                            std::span<const std::string> choices) {
  const auto found = std::ranges::find_if(field_names(), [&](const FieldName& entry) {
    return entry.key == key && !entry.value.empty() && match(written, entry) == NameMatch::whole &&
           (choices.empty() || is_among(entry.value, choices));
  });
  return found == field_names().end() ? nullptr : &*found;
}

}  // namespace

NameMatch match(std::string_view written, const FieldName& entry) {
  NameMatch best = NameMatch::none;
  if (written.empty() || written.size() > max_name_length) return best;
  const std::string normal_word = normal(written);
  for (const std::string& name : split(entry.names, ' '))
    best = std::max(best, match_name(normal_word, name));
  return best;
}

std::string field_hint(std::string_view written, std::span<const std::string> keys) {
  const FieldName* const entry = find_entry(written, keys, NameMatch::whole);
  return entry == nullptr ? "" : hint_of(*entry);
}

std::string key_hint(std::string_view written, std::span<const std::string> keys) {
  if (std::string hint = renamed_hint(written); !hint.empty()) return hint;
  if (written.size() > max_name_length) return "";
  const FieldName* const named = find_entry(written, keys, NameMatch::whole);
  if (named != nullptr && match(written, *named) == NameMatch::qualified) return hint_of(*named);
  const std::string typed = with_type(written);
  if (const std::string key = key_with_ending(typed, keys); !key.empty()) return meant(key);
  if (std::string hint = section_hint(typed, keys); !hint.empty()) return hint;
  const std::string same = key_of_leaf(leaf_of(written), written, keys);
  const auto is_same_key = [&](const std::string& key) {
    return leaf_of(key) == leaf_of(written) && section_of(key) == section_of(written);
  };
  const auto count_here = std::ranges::count_if(keys, is_same_key);
  if (count_here != 1 && named != nullptr) return hint_of(*named);
  if (count_here > 0) return meant(same);
  if (const std::string near = near_sibling(written, keys); !near.empty()) return meant(near);
  const bool has_section = std::ranges::any_of(
      keys, [&](const std::string& key) { return section_of(key) == section_of(written); });
  if (!has_section)
    if (const std::string near = closest_match(written, keys); !near.empty()) return meant(near);
  if (const FieldName* entry = find_entry(written, keys, NameMatch::within)) return hint_of(*entry);
  if (!same.empty()) return meant(same);
  const std::string near = key_of_near_leaf(written, keys);
  return near.empty() ? "" : meant(near);
}

std::string value_hint(std::string_view key,
                       std::span<const std::string> written,
                       std::span<const std::string> choices) {
  std::vector<std::string> values;
  for (const std::string& word : written) {
    const FieldName* const entry = find_value(key, word, choices);
    if (entry != nullptr && !entry->note.empty()) return hint_of(*entry);
    std::string value = entry != nullptr ? std::string(entry->value) : closest_match(word, choices);
    if (!value.empty() && !is_among(value, values)) values.push_back(std::move(value));
  }
  return values.empty() ? "" : meant(fmt::format("{}", fmt::join(values, "\", \"")));
}

bool starts_word_piece(std::string_view text, std::string_view word) {
  const auto is_part = [](char c) {
    return (small(c) >= 'a' && small(c) <= 'z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  for (std::size_t i = 0; i + word.size() <= text.size(); ++i) {
    if (i > 0 && is_part(text[i - 1])) continue;
    if (std::ranges::equal(text.substr(i, word.size()), word, {}, small, small)) return true;
  }
  return false;
}

}  // namespace longspan
