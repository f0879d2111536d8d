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
#include "launch/cli/source_map.h"
#include "launch/cli/yaml_text_check.h"

namespace longspan {
namespace {

constexpr std::size_t most_levels = 16;

// Nothing after this complaint can be trusted.
struct Unreadable {
  Unreadable(SourceLocation mark, std::string sentence)
      : complaint{std::move(mark), std::move(sentence)} {}
  Diagnostic complaint;
};

// The parser's own words where a reader would not know what to do about them.
std::string explain(const std::string& message) {
  static constexpr std::pair<std::string_view, std::string_view> explanations[] = {
      {"end of map not found",
       "a line is not indented like those above it, or more follows a value"},
      {"end of sequence not found", "a line is not indented like those above it"},
      {"end of sequence flow not found", "a [ is not closed"},
      {"end of map flow not found", "a { is not closed"},
      {"illegal flow end", "a ] or } closes nothing"},
      {"illegal EOF in scalar", "a quotation mark is not closed"},
      {"illegal map value", "a second \":\" in the value; put the value in quotation marks"},
      {"unknown token", "no value begins with this character; put the value in quotation marks"},
  };
  for (const auto& [theirs, ours] : explanations) {
    if (message == theirs) return fmt::format("not valid YAML: {}", ours);
  }
  return fmt::format("not valid YAML: {}", message);
}

// Messages name keys as they are: none is longer than a line.
constexpr std::size_t most_key = 200;

std::string too_long(std::string_view key) {
  return fmt::format("found the key {}; allowed: at most {} letters", quote(key), most_key);
}

// A complaint about all of the text, or all from there on.
void refuse(ParsedYaml& keys, Diagnostic complaint) {
  keys.complaints.push_back(std::move(complaint));
  keys.whole = false;
}

// Turns the parser's events into assignments. A mapping nested in mappings is a section; all that
// stands below something that was complained about is passed over.
class Reader : public YAML::EventHandler {
 public:
  Reader(std::string_view text, std::string file, std::string prefix)
      : places_(text), file_(std::move(file)), prefix_(std::move(prefix)) {}

  ParsedYaml take() { return std::move(keys_); }
  // What was thought to be wrong inside a bracket that was never closed was a misreading.
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
                     prefix_.empty() ? "found a second document; allowed: one document a file"
                                     : "found more after the value");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& place, YAML::anchor_t anchor) override {
    refuse_anchor(place, anchor);
    if (levels_.empty()) {
      if (!prefix_.empty()) return assign(Assignment::Kind::nothing);
      return refuse_all(place, "the file is empty; allowed: the sections of a configuration");
    }
    if (levels_.back().ignored) return after_value();
    if (expects_key()) {
      bad_key(place, "found a key without a name; allowed: a word");
    } else if (levels_.back().is_list) {
      add_diagnostic(place, fmt::format("{}: found no value in a list", shown(levels_.back().key)));
    } else if (levels_.back().is_item) {
      add_diagnostic(place, fmt::format("{}: found no value", shown(levels_.back().child)));
      after_value();
    } else {
      assign(Assignment::Kind::nothing);
      after_value();
    }
  }

  void OnAlias(const YAML::Mark& place, YAML::anchor_t) override {
    if (levels_.empty() || !expects_key()) {
      add_diagnostic(place, "found an alias; allowed: the value written out");
      return after_value();
    }
    bad_key(place, "found an alias; allowed: the key written out");
  }

  void OnScalar(const YAML::Mark& place,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(place, anchor);
    refuse_tag(place, tag);
    const Scalar scalar{value, tag == "!"};
    if (levels_.empty()) {
      if (prefix_.empty()) {
        return refuse_all(place,
                          fmt::format("found {}; allowed: sections with keys", quote(value)));
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
    refuse_anchor(place, anchor);
    refuse_tag(place, tag);
    if (levels_.empty() && prefix_.empty()) {
      refuse_all(place, "found a list; allowed: sections with keys");
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
    refuse_anchor(place, anchor);
    refuse_tag(place, tag);
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
    bool is_key = false;   // it stands where the mapping around it should have a key
    std::string key = {};  // of the whole mapping or list
    SourceLocation mark = {};
    std::map<std::string, SourceLocation> seen = {};  // of a mapping: its keys so far
    bool has_key = false;                             // the next event is the value
    bool key_is_bad = false;                          // pass the value over
    bool key_repeats = false;  // look into the value, but assign nothing to the key
    bool had_bad_key = false;
    std::string child = {};  // the whole key that was read last
    SourceLocation child_mark = {};
    std::vector<ListItem> items = {};                         // of a list
    bool is_item = false;                                     // a mapping in a list
    std::vector<std::pair<std::string, Scalar>> fields = {};  // of such a mapping
  };

  bool expects_key() const { return !levels_.back().is_list && !levels_.back().has_key; }

  void add_diagnostic(const YAML::Mark& place, std::string sentence) {
    keys_.complaints.push_back({mark_of(place), std::move(sentence)});
  }
  // What should be the sections is something else.
  void refuse_all(const YAML::Mark& place, std::string sentence) {
    refuse(keys_, {mark_of(place), std::move(sentence)});
  }
  void refuse_anchor(const YAML::Mark& place, YAML::anchor_t anchor) {
    if (anchor != 0) add_diagnostic(place, "found an anchor; allowed: plain values");
  }
  void refuse_tag(const YAML::Mark& place, const std::string& tag) {
    if (tag.empty() || tag == "!" || tag == "?") return;
    add_diagnostic(place, fmt::format("found the tag {}; allowed: plain values", quote(tag)));
  }

  void add(Assignment assignment) { keys_.assignments.push_back(std::move(assignment)); }

  // Assigns to the key that was read last, or to the key of the setting.
  void assign(Assignment::Kind kind, std::vector<ListItem> scalars = {}) {
    if (levels_.empty()) return add({prefix_, kind, std::move(scalars), {}});
    const Level& level = levels_.back();
    if (!level.key_is_bad && !level.key_repeats)
      add({level.child, kind, std::move(scalars), level.child_mark});
  }

  // Of a mapping in a list, whose keys are not keys of the configuration.
  void take_field(const Scalar& scalar) {
    Level& level = levels_.back();
    if (level.key_is_bad || level.key_repeats) return;
    level.fields.emplace_back(level.child.substr(level.key.size() + 1), scalar);
  }

  void after_value() {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_list) return;
    // In a mapping that is passed over, keys and values need not be told apart.
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
    if (name.empty()) return bad_key(place, "found a key without a name; allowed: a word");
    if (name.size() > most_key) return bad_key(place, too_long(name));
    const std::string whole = level.key.empty() ? name : fmt::format("{}.{}", level.key, name);
    if (name.find('.') != std::string::npos) {
      return bad_key(place,
                     fmt::format("found the key {}; allowed: sections nested, not joined by dots{}",
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
            "{} is given twice, first at {}", shown(level.child), first->second.to_string()));
  }

  void open(const YAML::Mark& place, Level level, std::size_t complaints_before) {
    if (levels_.size() >= most_levels) {
      throw Unreadable(mark_of(place), fmt::format("more than {} levels deep", most_levels));
    }
    level.complaints_before = complaints_before;
    levels_.push_back(std::move(level));
  }

  // A mapping or list that stands as the value of the last key, in a list, or as a key.
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
      // Its complaint is there already.
    } else if (parent.is_list && !is_list) {
      level.ignored = false;
      level.is_item = true;
      level.key = parent.key;
      level.mark = parent.mark;
    } else if (parent.is_list || (parent.is_item && parent.has_key)) {
      add_diagnostic(place,
                     fmt::format("{}: found a {} in a {}; allowed: words and numbers",
                                 shown(parent.is_list ? parent.key : parent.child),
                                 kind,
                                 parent.is_list ? "list" : "mapping in a list"));
    } else if (!parent.has_key) {
      bad_key(place, fmt::format("found a {} as a key; allowed: a word", kind));
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
    // The parser overlooks a quotation mark that is open at the end when white space follows it.
    std::istringstream stream{std::string(text) + "\n#"};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(reader)) {
    }
    if (!reader.saw_document()) reader.OnNull(YAML::Mark(), 0);
  } catch (const Unreadable& unreadable) {
    stopped = unreadable.complaint;
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
  if (text.size() > most_configuration_bytes) {
    refuse(keys,
           {SourceLocation{file},
            fmt::format("{} bytes; allowed: at most {}", text.size(), most_configuration_bytes)});
    return keys;
  }
  if (auto complaint = check_yaml_text(text, file)) {
    refuse(keys, std::move(*complaint));
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
    complain(fmt::format("found {}; allowed: key=value", quote(text)));
    return keys;
  }
  const std::string key(text.substr(0, equals));
  if (key.size() > most_key) {
    complain(too_long(key));
    return keys;
  }
  const std::string_view value = text.substr(equals + 1);
  if (auto complaint = check_yaml_text(value, "")) {
    complain(fmt::format("{}: {}", key, complaint->message));
    return keys;
  }
  constexpr std::string_view openers = "[{\"'";
  if (value.empty() || openers.find(value[0]) == std::string_view::npos) {
    keys.assignments.push_back({key, Assignment::Kind::scalar, {{std::string(value), false}}, {}});
    return keys;
  }
  keys = read(value, "", key);
  for (Diagnostic& complaint : keys.complaints) {
    complaint.message = fmt::format("{}: {}", key, complaint.message);
  }
  return keys;
}

}  // namespace longspan
