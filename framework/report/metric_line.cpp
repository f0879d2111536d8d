#include "framework/report/metric_line.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace longspan {
namespace {

constexpr double largest_whole = 9007199254740992;  // 2^53: doubles represent all integers up to it

// A position in a line. Each function advances past what it parses, or returns false.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool ended() {
    skip();
    return at_ == end_;
  }
  bool take(char wanted) {
    skip();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (std::string_view(at_, left()).substr(0, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  // Requires a line without escapes.
  bool extract_text(std::string_view& text) {
    if (!take('"')) return false;
    const auto* const quote = static_cast<const char*>(std::memchr(at_, '"', left()));
    if (quote == nullptr) return false;
    text = {at_, static_cast<std::size_t>(quote - at_)};
    at_ = quote + 1;
    return true;
  }
  bool take_number(double& number) {
    if (!starts_number()) return false;
    const auto [stop, error] = std::from_chars(at_, end_, number);
    at_ = stop;
    return error == std::errc();
  }
  char next() {
    skip();
    return at_ == end_ ? '\0' : *at_;
  }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  void skip() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  // from_chars also accepts "inf" and "nan", which are invalid JSON.
  bool starts_number() const {
    const char* digit = at_;
    if (digit != end_ && *digit == '-') ++digit;
    return digit != end_ && *digit >= '0' && *digit <= '9';
  }

  const char* at_;
  const char* end_;
};

}  // namespace

bool MetricLineReader::read(std::string_view line) {
  fields_.clear();
  const bool is_plain = std::memchr(line.data(), '\\', line.size()) == nullptr;
  if (!is_plain || !read_plain(line)) {
    fields_.clear();
    texts_.clear();
    if (!read_any(line)) return false;
  }
  return find_step();
}

bool MetricLineReader::read_plain(std::string_view line) {
  Cursor cursor(line);
  if (!cursor.take('{')) return false;
  if (cursor.take('}')) return cursor.ended();
  do {
    LineField field;
    if (!cursor.extract_text(field.name) || !cursor.take(':')) return false;
    const char first = cursor.next();
    if (first == '"') {
      field.kind = LineField::Kind::text;
      if (!cursor.extract_text(field.text)) return false;
    } else if (first == 'n') {
      field.kind = LineField::Kind::none;
      if (!cursor.take("null")) return false;
    } else if (!cursor.take_number(field.number)) {
      return false;
    }
    fields_.push_back(field);
  } while (cursor.take(','));
  return cursor.take('}') && cursor.ended();
}

bool MetricLineReader::read_any(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  for (const auto& [name, value] : object.items()) {
    LineField field;
    if (value.is_number()) {
      field.number = value.get<double>();
    } else if (value.is_null()) {
      field.kind = LineField::Kind::none;
    } else if (value.is_string()) {
      field.kind = LineField::Kind::text;
      field.text = texts_.emplace_back(value.get_ref<const std::string&>());
    } else {
      continue;
    }
    field.name = texts_.emplace_back(name);
    fields_.push_back(field);
  }
  return true;
}

bool MetricLineReader::find_step() {
  for (const LineField& field : fields_) {
    if (field.name != "step") continue;
    const double step = field.number;
    if (field.kind != LineField::Kind::number || std::floor(step) != step || step < 0 ||
        step > largest_whole)
      return false;
    step_ = static_cast<std::int64_t>(step);
    return true;
  }
  return false;
}

}  // namespace longspan
