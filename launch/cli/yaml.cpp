#include "launch/cli/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "framework/core/quote.h"
#include "framework/options/field_names.h"
#include "launch/cli/configuration_text.h"

namespace longspan {
namespace {

constexpr std::size_t max_levels = 16;

// Nothing after this diagnostic is reliable.
struct Unreadable {
  Unreadable(SourceLocation mark, std::string sentence)
      : diagnostic{std::move(mark), std::move(sentence)} {}
  Diagnostic diagnostic;
};

// Replaces the parser's messages that do not help a user.
std::string explain(const std::string& message) {
  static constexpr std::pair<std::string_view, std::string_view> explanations[] = {
      {"end of map not found", "inconsistent indentation, or text after a value"},
      {"end of sequence not found", "inconsistent indentation"},
      {"end of sequence flow not found", "unclosed ["},
      {"end of map flow not found", "unclosed {"},
      {"illegal flow end", "unmatched ] or }"},
      {"illegal EOF in scalar", "unclosed quotation mark"},
      {"illegal map value", "second \":\" in a value; quote the value"},
      {"unknown token", "invalid first character of a value; quote the value"},
  };
  for (const auto& [theirs, ours] : explanations) {
    if (message == theirs) return fmt::format("invalid YAML: {}", ours);
  }
  return fmt::format("invalid YAML: {}", message);
}

// Messages quote keys verbatim, but at most a line.
constexpr std::size_t max_key = 200;

std::string too_long(std::string_view key) {
  return fmt::format("expected a key of at most {} characters, found {}", max_key, quote(key));
}

// Adds a diagnostic about the whole text, or the whole rest of it.
void refuse(ParsedYaml& keys, Diagnostic diagnostic) {
  keys.complaints.push_back(std::move(diagnostic));
  keys.whole = false;
}

// Converts the parser's events into assignments. A mapping nested in mappings is a section. Skips
// everything below an element with a diagnostic.
class Reader : public YAML::EventHandler {
 public:
  Reader(std::string_view text, std::string file, std::string prefix)
      : places_(text), file_(std::move(file)), prefix_(std::move(prefix)) {}

  ParsedYaml take() { return std::move(keys_); }
  // Diagnostics inside a bracket that was never closed are spurious.
  void forget_open_flow() {
    for (const Level& level : levels_) {
      if (level.is_flow) return keys_.complaints.resize(level.complaints_before);
    }
  }
  bool saw_document() const { return documents_ > 0; }

  SourceLocation mark_of(const YAML::Mark& place) const {
    if (file_.empty()) return {};
    if (place.is_null()) return {file_, 1, 1};
    return places_.mark(file_, place.line, place.column);
  }

  void OnDocumentStart(const YAML::Mark& place) override {
    if (++documents_ == 1) return;
    throw Unreadable(mark_of(place),
                     prefix_.empty() ? "expected one document, found a second"
                                     : "expected the end of the value, found more text");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& place, YAML::anchor_t anchor) override {
    report_anchor(place, anchor);
    if (levels_.empty()) {
      if (!prefix_.empty()) return assign(Assignment::Kind::nothing);
      return report_invalid_file(place,
                                 "expected the sections of a configuration, found an empty file");
    }
    if (levels_.back().ignored) return after_value();
    if (expects_key()) {
      bad_key(place, "expected a key name, found none");
    } else if (levels_.back().is_list) {
      add_diagnostic(place, fmt::format("{}: missing value in a list", shown(levels_.back().key)));
    } else if (levels_.back().is_item) {
      add_diagnostic(place, fmt::format("{}: missing value", shown(levels_.back().child)));
      after_value();
    } else {
      assign(Assignment::Kind::nothing);
      after_value();
    }
  }

  void OnAlias(const YAML::Mark& place, YAML::anchor_t) override {
    if (levels_.empty() || !expects_key()) {
      add_diagnostic(place, "expected a value, found an alias");
      return after_value();
    }
    bad_key(place, "expected a key name, found an alias");
  }

  void OnScalar(const YAML::Mark& place,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    report_anchor(place, anchor);
    report_tag(place, tag);
    const Scalar scalar{value, tag == "!"};
    if (levels_.empty()) {
      if (prefix_.empty()) {
        return report_invalid_file(
            place, fmt::format("expected sections with keys, found {}", quote(value)));
      }
      return assign(Assignment::Kind::scalar, {scalar});
    }
    if (levels_.back().ignored) return after_value();
    if (expects_key()) return take_key(place, value);
    if (levels_.back().is_list) {
      levels_.back().items.push_back(scalar);
    } else if (levels_.back().is_item) {
      take_field(scalar);
      after_value();
    } else {
      assign(Assignment::Kind::scalar, {scalar});
      after_value();
    }
  }

  void OnSequenceStart(const YAML::Mark& place,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    report_anchor(place, anchor);
    report_tag(place, tag);
    if (levels_.empty() && prefix_.empty()) {
      report_invalid_file(place, "expected sections with keys, found a list");
      return open(place, {.is_list = true, .ignored = true}, keys_.complaints.size());
    }
    open_below(place, true, style == YAML::EmitterStyle::Flow);
  }
  void OnSequenceEnd() override {
    Level level = close();
    if (level.ignored) return;
    add({level.key, Assignment::Kind::list, std::move(level.items), level.mark});
  }

  void OnMapStart(const YAML::Mark& place,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    report_anchor(place, anchor);
    report_tag(place, tag);
    open_below(place, false, style == YAML::EmitterStyle::Flow);
  }
  void OnMapEnd() override {
    Level level = close();
    if (level.is_item && !level.ignored) {
      ListItem item;
      item.fields = std::move(level.fields);
      return levels_.back().items.push_back(std::move(item));
    }
    if (level.ignored || !level.seen.empty() || level.had_bad_key || level.key.empty()) return;
    add({level.key, Assignment::Kind::section, {}, level.mark});
  }

 private:
  struct Level {
    bool is_list = false;
    bool ignored = false;
    bool is_flow = false;  // written with brackets
    std::size_t complaints_before = 0;
    bool is_key = false;   // in place of a key of the enclosing mapping
    std::string key = {};  // full key of the mapping or list
    SourceLocation mark = {};
    std::map<std::string, SourceLocation> seen = {};  // keys of a mapping so far
    bool has_key = false;                             // the next event is the value
    bool key_is_bad = false;                          // skip the value
    bool key_repeats = false;                         // parse the value, but do not assign it
    bool had_bad_key = false;
    std::string child = {};  // full key that was read last
    SourceLocation child_mark = {};
    std::vector<ListItem> items = {};                         // of a list
    bool is_item = false;                                     // a mapping in a list
    std::vector<std::pair<std::string, Scalar>> fields = {};  // of such a mapping
  };

  bool expects_key() const { return !levels_.back().is_list && !levels_.back().has_key; }

  void add_diagnostic(const YAML::Mark& place, std::string sentence) {
    keys_.complaints.push_back({mark_of(place), std::move(sentence)});
  }
  // The sections' mapping is another element.
  void report_invalid_file(const YAML::Mark& place, std::string sentence) {
    refuse(keys_, {mark_of(place), std::move(sentence)});
  }
  void report_anchor(const YAML::Mark& place, YAML::anchor_t anchor) {
    if (anchor != 0) add_diagnostic(place, "expected a plain value, found an anchor");
  }
  void report_tag(const YAML::Mark& place, const std::string& tag) {
    if (tag.empty() || tag == "!" || tag == "?") return;
    add_diagnostic(place, fmt::format("expected a plain value, found the tag {}", quote(tag)));
  }

  void add(Assignment assignment) { keys_.assignments.push_back(std::move(assignment)); }

  // Assigns to the key that was read last, or to the key of the setting.
  void assign(Assignment::Kind kind, std::vector<ListItem> scalars = {}) {
    if (levels_.empty()) return add({prefix_, kind, std::move(scalars), {}});
    const Level& level = levels_.back();
    if (!level.key_is_bad && !level.key_repeats)
      add({level.child, kind, std::move(scalars), level.child_mark});
  }

  // For a mapping in a list, whose keys are not configuration keys.
  void take_field(const Scalar& scalar) {
    Level& level = levels_.back();
    if (level.key_is_bad || level.key_repeats) return;
    level.fields.emplace_back(level.child.substr(level.key.size() + 1), scalar);
  }

  void after_value() {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_list) return;
    // In a skipped mapping, keys and values need not be distinguished.
    level.has_key = false;
    level.key_is_bad = false;
    level.key_repeats = false;
  }

  void bad_key(const YAML::Mark& place, std::string sentence) {
    add_diagnostic(place, std::move(sentence));
    levels_.back().has_key = true;
    levels_.back().key_is_bad = true;
    levels_.back().had_bad_key = true;
  }

  void take_key(const YAML::Mark& place, const std::string& name) {
    Level& level = levels_.back();
    if (name.empty()) return bad_key(place, "expected a key name, found none");
    if (name.size() > max_key) return bad_key(place, too_long(name));
    const std::string whole = level.key.empty() ? name : fmt::format("{}.{}", level.key, name);
    if (name.find('.') != std::string::npos) {
      return bad_key(place,
                     fmt::format("expected nested sections, found the dotted key {}{}",
                                 quote(name),
                                 renamed_hint(whole)));
    }
    level.has_key = true;
    level.child = whole;
    level.child_mark = mark_of(place);
    const auto [first, is_new] = level.seen.emplace(name, level.child_mark);
    if (is_new) return;
    level.key_repeats = true;
    add_diagnostic(
        place,
        fmt::format(
            "{}: duplicate key, first set at {}", shown(level.child), first->second.to_string()));
  }

  void open(const YAML::Mark& place, Level level, std::size_t complaints_before) {
    if (levels_.size() >= max_levels) {
      throw Unreadable(mark_of(place), fmt::format("nested more than {} levels deep", max_levels));
    }
    level.complaints_before = complaints_before;
    levels_.push_back(std::move(level));
  }

  // Opens a mapping or list that is the value of the last key, an element of a list, or a key.
  void open_below(const YAML::Mark& place, bool is_list, bool is_flow) {
    const std::size_t before = keys_.complaints.size();
    Level level{.is_list = is_list, .is_flow = is_flow};
    if (levels_.empty()) {
      level.key = prefix_;
      return open(place, std::move(level), before);
    }
    const Level& parent = levels_.back();
    const char* kind = is_list ? "list" : "mapping";
    level.ignored = true;
    if (parent.ignored || parent.key_is_bad || (parent.key_repeats && is_list)) {
      // Already has a diagnostic.
    } else if (parent.is_list && !is_list) {
      level.ignored = false;
      level.is_item = true;
      level.key = parent.key;
      level.mark = parent.mark;
    } else if (parent.is_list || (parent.is_item && parent.has_key)) {
      add_diagnostic(place,
                     fmt::format("{}: expected strings and numbers, found a {} in a {}",
                                 shown(parent.is_list ? parent.key : parent.child),
                                 kind,
                                 parent.is_list ? "list" : "mapping in a list"));
    } else if (!parent.has_key) {
      bad_key(place, fmt::format("expected a key name, found a {}", kind));
      level.is_key = true;
    } else {
      level.ignored = false;
      level.key = parent.child;
      level.mark = parent.child_mark;
    }
    open(place, std::move(level), before);
  }

  Level close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    if (!level.is_key) after_value();
    return level;
  }

  SourceMap places_;
  std::string file_;
  std::string prefix_;  // the key of a setting; empty for a file
  ParsedYaml keys_;
  std::vector<Level> levels_;
  int documents_ = 0;
};

ParsedYaml read(std::string_view text, const std::string& file, const std::string& prefix) {
  Reader reader(text, file, prefix);
  std::optional<Diagnostic> stopped;
  try {
    // The parser misses an unclosed quotation mark at the end if white space follows it.
    std::istringstream stream{std::string(text) + "\n#"};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(reader)) {
    }
    if (!reader.saw_document()) reader.OnNull(YAML::Mark(), 0);
  } catch (const Unreadable& unreadable) {
    stopped = unreadable.diagnostic;
  } catch (const YAML::Exception& error) {
    reader.forget_open_flow();
    stopped = Diagnostic{reader.mark_of(error.mark), explain(error.msg)};
  }
  ParsedYaml keys = reader.take();
  if (stopped) refuse(keys, std::move(*stopped));
  return keys;
}

}  // namespace

ParsedYaml read_yaml(std::string_view text, const std::string& file) {
  ParsedYaml keys;
  if (text.size() > max_configuration_bytes) {
    refuse(
        keys,
        {SourceLocation{file},
         fmt::format("expected at most {} bytes, found {}", max_configuration_bytes, text.size())});
    return keys;
  }
  if (auto diagnostic = check_yaml_text(text, file)) {
    refuse(keys, std::move(*diagnostic));
    return keys;
  }
  return read(text, file, "");
}

ParsedYaml read_setting(std::string_view text) {
  ParsedYaml keys;
  const auto complain = [&keys](std::string sentence) {
    keys.complaints.emplace_back().message = std::move(sentence);
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    complain(fmt::format("expected key=value, found {}", quote(text)));
    return keys;
  }
  const std::string key(text.substr(0, equals));
  if (key.size() > max_key) {
    complain(too_long(key));
    return keys;
  }
  const std::string_view value = text.substr(equals + 1);
  if (auto diagnostic = check_yaml_text(value, "")) {
    complain(fmt::format("{}: {}", key, diagnostic->message));
    return keys;
  }
  constexpr std::string_view openers = "[{\"'";
  if (value.empty() || openers.find(value[0]) == std::string_view::npos) {
    keys.assignments.push_back({key, Assignment::Kind::scalar, {{std::string(value), false}}, {}});
    return keys;
  }
  keys = read(value, "", key);
  for (Diagnostic& diagnostic : keys.complaints) {
    diagnostic.message = fmt::format("{}: {}", key, diagnostic.message);
  }
  return keys;
}

}  // namespace longspan
