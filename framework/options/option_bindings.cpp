// Parsing and formatting of variables of each type.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>

#include "framework/core/decimal.h"
#include "framework/core/quote.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

std::optional<std::string> validate_bounds(long double value, const Constraint& rule) {
  const bool low = rule.lower && (rule.lower_open ? value <= static_cast<long double>(*rule.lower)
                                                  : value < static_cast<long double>(*rule.lower));
  const bool high = rule.upper && (rule.upper_open ? value >= static_cast<long double>(*rule.upper)
                                                   : value > static_cast<long double>(*rule.upper));
  if (low || high) return "";
  return std::nullopt;
}

std::optional<std::string> validate_choice(const std::string& text, const Constraint& rule) {
  const auto& choices = rule.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) {
    return std::nullopt;
  }
  return "";
}

template <typename T>
struct Word;

// Returns a value without quotes.
template <typename T>
std::string plain_text(const T& value) {
  if constexpr (std::constructible_from<std::string, const T&>)
    return std::string(value);
  else
    return Word<T>::text(value);
}

// For each type: its name, formatting of a value, and parsing of a scalar.
template <>
struct Word<std::int64_t> {
  static constexpr WordType type = WordType::integer;

  static std::string text(std::int64_t value) { return fmt::format("{}", value); }
  static std::optional<std::string> take(const Scalar& scalar,
                                         const Constraint& rule,
                                         std::int64_t& value) {
    if (scalar.quoted) return "quoted";
    const auto parsed = parse_integer(scalar.text);
    if (!parsed.good) return parsed.problem;
    if (rule.multiple && parsed.value % *rule.multiple != 0) return "";
    value = parsed.value;
    return validate_bounds(static_cast<long double>(value), rule);
  }
};

template <>
struct Word<double> {
  static constexpr WordType type = WordType::number;

  static std::string text(double value) { return format_number(value); }
  static std::optional<std::string> take(const Scalar& scalar,
                                         const Constraint& rule,
                                         double& value) {
    if (scalar.quoted) return "quoted";
    const auto parsed = parse_number(scalar.text);
    if (!parsed.good) return parsed.problem;
    value = parsed.value;
    return validate_bounds(static_cast<long double>(value), rule);
  }
};

template <>
struct Word<bool> {
  static constexpr WordType type = WordType::boolean;

  static std::string text(bool value) { return value ? "true" : "false"; }
  static std::optional<std::string> take(const Scalar& scalar, const Constraint&, bool& value) {
    if (scalar.quoted) return "quoted";
    if (scalar.text != "true" && scalar.text != "false") return "";
    value = scalar.text == "true";
    return std::nullopt;
  }
};

template <>
struct Word<std::string> {
  static constexpr WordType type = WordType::text;

  static std::string text(const std::string& value) { return yaml_word(value); }
  static std::optional<std::string> take(const Scalar& scalar,
                                         const Constraint& rule,
                                         std::string& value) {
    value = scalar.text;
    if (rule.not_empty && value.empty()) return "";
    return validate_choice(value, rule);
  }
};

template <>
struct Word<ConfigPath> {
  static constexpr WordType type = WordType::path;

  static std::string text(const ConfigPath& value) { return yaml_word(value); }
  static std::optional<std::string> take(const Scalar& scalar,
                                         const Constraint& rule,
                                         ConfigPath& value) {
    return Word<std::string>::take(scalar, rule, value);
  }
};

template <typename T>
class OneValue : public OptionBinding {
 public:
  explicit OneValue(T& value) : value_(value) {}
  ValueForm form() const override { return {.word = Word<T>::type}; }
  std::string text() const override { return Word<T>::text(value_); }
  std::vector<std::string> words() const override { return {plain_text(value_)}; }
  std::optional<std::string> take(const std::vector<ListItem>& scalars,
                                  const Constraint& rule) override {
    T value{};
    auto problem = Word<T>::take(scalars.front(), rule, value);
    if (!problem) value_ = std::move(value);
    return problem;
  }
  void set_location(const std::string& key, const std::string& place) override {
    if constexpr (std::same_as<T, ConfigPath>) {
      value_.key = key;
      value_.place = place;
    }
  }

 private:
  T& value_;
};

template <typename T>
class OptionalValue : public OptionBinding {
 public:
  explicit OptionalValue(std::optional<T>& value) : value_(value) {}
  ValueForm form() const override { return {.word = Word<T>::type, .is_optional = true}; }
  std::string text() const override {
    if (!value_) return "none";
    const std::string text = Word<T>::text(*value_);
    return text == "none" ? "\"none\"" : text;
  }
  std::vector<std::string> words() const override {
    return {value_ ? plain_text(*value_) : "none"};
  }
  std::optional<std::string> take(const std::vector<ListItem>& scalars,
                                  const Constraint& rule) override {
    const Scalar& scalar = scalars.front();
    if (scalar.text == "none" && !scalar.quoted) {
      value_.reset();
      return std::nullopt;
    }
    T value{};
    auto problem = Word<T>::take(scalar, rule, value);
    if (!problem) value_ = std::move(value);
    return problem;
  }

 private:
  std::optional<T>& value_;
};

template <typename T>
class ListValue : public OptionBinding {
 public:
  explicit ListValue(std::vector<T>& values) : values_(values) {}
  ValueForm form() const override { return {.word = Word<T>::type, .is_list = true}; }
  std::string text() const override {
    std::string text;
    for (const T& value : values_) {
      if (!text.empty()) text += ", ";
      text += Word<T>::text(value);
    }
    return fmt::format("[{}]", text);
  }
  std::vector<std::string> words() const override {
    std::vector<std::string> words;
    for (const T& value : values_) words.push_back(plain_text(value));
    return words;
  }
  std::optional<std::string> take(const std::vector<ListItem>& scalars,
                                  const Constraint& rule) override {
    if (rule.not_empty && scalars.empty()) return "";
    std::vector<T> values;
    for (const ListItem& scalar : scalars) {
      if (scalar.fields) return "contains a mapping";
      T value{};
      if (auto problem = Word<T>::take(scalar, rule, value)) return problem;
      values.push_back(std::move(value));
    }
    values_ = std::move(values);
    return std::nullopt;
  }

 private:
  std::vector<T>& values_;
};

// Paths, each with an optional weight: {path: a.txt, weight: 2}.
class PathListValue : public OptionBinding {
 public:
  explicit PathListValue(PathList& value) : value_(value) {}
  ValueForm form() const override {
    return {.word = WordType::path, .is_list = true, .is_weighted = true};
  }
  // A list's text is already in written form.
  std::string text() const override { return value_.is_one() ? yaml_word(value_) : value_.text(); }
  std::vector<std::string> words() const override {
    std::vector<std::string> words;
    for (const WeightedPath& part : value_.parts) words.push_back(part.path.text());
    return words;
  }
  std::optional<std::string> take(const std::vector<ListItem>& scalars,
                                  const Constraint& rule) override {
    std::vector<WeightedPath> paths;
    for (const ListItem& item : scalars) {
      WeightedPath part;
      if (auto problem = item.fields ? take_fields(*item.fields, part)
                                     : Word<ConfigPath>::take(item, rule, part.path))
        return problem;
      if (scalars.size() > 1 && part.path.empty()) return "empty path";
      paths.push_back(std::move(part));
    }
    if (paths.empty()) return "";
    value_ = PathList(std::move(paths));
    return std::nullopt;
  }
  void set_location(const std::string& key, const std::string& place) override {
    value_.name(key, place);
  }

 private:
  static std::optional<std::string> take_fields(
      const std::vector<std::pair<std::string, Scalar>>& fields, WeightedPath& part) {
    for (const auto& [name, scalar] : fields) {
      if (name == "path") {
        part.path = scalar.text;
      } else if (name == "weight") {
        double weight = 0;
        if (Word<double>::take(scalar, more_than(0.0), weight)) return "expected a weight above 0";
        part.weight = weight;
      } else {
        return fmt::format("unknown field {}, expected path or weight", quote(name));
      }
    }
    if (part.path.empty()) return "mapping without a path";
    return std::nullopt;
  }

  PathList& value_;
};

// A value with a name for each that it may have. Where they are true and false it is a boolean.
class NamedValue : public OptionBinding {
 public:
  NamedValue(std::function<std::string()> read, std::function<void(const std::string&)> write)
      : read_(std::move(read)), write_(std::move(write)) {}
  ValueForm form() const override {
    return {.word = is_boolean() ? WordType::boolean : WordType::text};
  }
  std::string text() const override { return is_boolean() ? read_() : yaml_word(read_()); }
  std::vector<std::string> words() const override { return {read_()}; }
  std::optional<std::string> take(const std::vector<ListItem>& scalars,
                                  const Constraint& rule) override {
    bool unused = false;
    auto problem = is_boolean() ? Word<bool>::take(scalars.front(), rule, unused)
                                : validate_choice(scalars.front().text, rule);
    if (!problem) write_(scalars.front().text);
    return problem;
  }

 private:
  bool is_boolean() const {
    const std::string name = read_();
    return name == "true" || name == "false";
  }

  std::function<std::string()> read_;
  std::function<void(const std::string&)> write_;
};

}  // namespace

using Binding = std::unique_ptr<OptionBinding>;

Binding OptionTable::bind(std::int64_t& value) {
  return std::make_unique<OneValue<std::int64_t>>(value);
}
Binding OptionTable::bind(double& value) { return std::make_unique<OneValue<double>>(value); }
Binding OptionTable::bind(bool& value) { return std::make_unique<OneValue<bool>>(value); }
Binding OptionTable::bind(std::string& value) {
  return std::make_unique<OneValue<std::string>>(value);
}
Binding OptionTable::bind(ConfigPath& value) {
  return std::make_unique<OneValue<ConfigPath>>(value);
}
Binding OptionTable::bind(PathList& value) { return std::make_unique<PathListValue>(value); }
Binding OptionTable::bind(std::vector<std::int64_t>& value) {
  return std::make_unique<ListValue<std::int64_t>>(value);
}
Binding OptionTable::bind(std::vector<double>& value) {
  return std::make_unique<ListValue<double>>(value);
}
Binding OptionTable::bind(std::vector<bool>& value) {
  return std::make_unique<ListValue<bool>>(value);
}
Binding OptionTable::bind(std::vector<std::string>& value) {
  return std::make_unique<ListValue<std::string>>(value);
}
Binding OptionTable::bind(std::optional<std::int64_t>& value) {
  return std::make_unique<OptionalValue<std::int64_t>>(value);
}
Binding OptionTable::bind(std::optional<double>& value) {
  return std::make_unique<OptionalValue<double>>(value);
}
Binding OptionTable::bind(std::optional<bool>& value) {
  return std::make_unique<OptionalValue<bool>>(value);
}
Binding OptionTable::bind(std::optional<std::string>& value) {
  return std::make_unique<OptionalValue<std::string>>(value);
}
Binding OptionTable::bind(std::function<std::string()> read,
                          std::function<void(const std::string&)> write) {
  return std::make_unique<NamedValue>(std::move(read), std::move(write));
}

}  // namespace longspan
