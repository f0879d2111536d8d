#include "framework/report/tailed_metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "framework/core/error.h"

namespace longspan {

TailedMetrics::TailedMetrics(std::filesystem::path path, std::size_t max_buckets)
    : file_(std::move(path)), max_buckets_(max_buckets), reading_(max_buckets, {}) {}

void TailedMetrics::restart(std::vector<StepRewind> known) {
  known_ = std::move(known);
  reading_ = MetricsParser(max_buckets_, known_);
  file_.restart();
}

bool TailedMetrics::poll() {
  const std::uintmax_t before = file_.taken();
  const TailedFile::Change change = file_.poll();
  if (change == TailedFile::Change::none) return false;
  const bool is_other = change == TailedFile::Change::another;
  if (is_other) restart();
  try {
    take();
    // Superseded lines were already counted. Usually there are none, and one pass suffices. A run
    // that restarts meanwhile may rewind again; the approximate result is then acceptable.
    for (int attempt = 0; reading_.found() != known_ && attempt < 3; ++attempt) {
      restart(reading_.found());
      take();
    }
  } catch (...) {
    restart();
    file_.forget();
    throw;
  }
  return is_other ? before > 0 || file_.taken() > 0 : file_.taken() != before;
}

void TailedMetrics::take() {
  file_.read([&](std::string_view line, std::uintmax_t offset) {
    if (!reading_.take(line, offset))
      throw DataError("{}:{}: expected a line of metrics", file_.path().string(), file_.lines());
  });
}

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

namespace {

constexpr std::size_t max_texts = 24;
constexpr std::size_t max_text_bytes = 4000;
constexpr double max_line_interval = 1e10;  // seconds

constexpr std::array<std::string_view, 4> parts_of_a_step = {"data_loading_seconds",
                                                             "communication_wait_seconds",
                                                             "checkpoint_seconds",
                                                             "validation_seconds"};

}  // namespace

MetricsParser::MetricsParser(std::size_t max_buckets, std::vector<StepRewind> known)
    : metrics_{DownsampledSeries(max_buckets)}, known_(std::move(known)) {
  // Suffix minimum: a line is superseded if any later rewind has its step or an earlier one.
  for (std::size_t i = known_.size(); i-- > 1;)
    known_[i - 1].step = std::min(known_[i - 1].step, known_[i].step);
}

bool MetricsParser::take(std::string_view line, std::uintmax_t offset) {
  if (!reader_.read(line)) return false;
  const std::int64_t step = reader_.step();
  if (step <= step_before_) found_.push_back({offset, step});
  step_before_ = step;
  while (next_ < known_.size() && known_[next_].offset <= offset) ++next_;
  const bool comes_again = next_ < known_.size() && known_[next_].step <= step;
  if (comes_again)
    ++metrics_.repeated;
  else if (metrics_.lines == 0 || step > metrics_.step)
    add(step);
  return true;
}

// Updates the run's tokens and time after a line.
void MetricsParser::advance(std::int64_t step) {
  std::optional<double> tokens, rate, seconds;
  for (const LineField& field : reader_.fields()) {
    if (field.kind != LineField::Kind::number) continue;
    if (field.name == "tokens") tokens = field.number;
    if (field.name == "tokens_per_second") rate = field.number;
    if (field.name == "step_seconds") seconds = field.number;
  }
  const auto steps = static_cast<double>(step - metrics_.step);
  double passed = 0;
  if (seconds)
    passed = *seconds * steps;
  else if (tokens && rate && *rate > 0)
    passed = (*tokens - metrics_.tokens) / *rate;
  // Ignores implausible durations, as in files from other programs.
  if (passed > 0 && passed < max_line_interval) metrics_.seconds += passed;
  if (tokens) metrics_.tokens = *tokens;
  metrics_.step = step;
  ++metrics_.lines;
}

void MetricsParser::add(std::int64_t step) {
  advance(step);
  metrics_.series.begin({step, metrics_.tokens, metrics_.seconds});
  expected_ = 0;
  std::optional<double> computing;
  bool is_divided = false;
  for (const LineField& field : reader_.fields()) {
    if (field.kind == LineField::Kind::text) {
      add_text(field, step);
      continue;
    }
    if (field.name == "step" || field.name == "tokens") continue;
    add_number(field, step);
    if (field.name == "step_seconds") computing = computing.value_or(0) + field.number;
    if (std::ranges::count(parts_of_a_step, field.name) > 0) {
      computing = computing.value_or(0) - field.number;
      is_divided = true;
    }
  }
  if (computing && is_divided)
    add_value(column_of(compute_seconds), step, std::max(0.0, *computing));
}

std::size_t MetricsParser::column_of(std::string_view name) {
  const std::vector<std::string>& names = metrics_.series.names();
  const std::size_t column = expected_ < names.size() && names[expected_] == name
                                 ? expected_
                                 : metrics_.series.column(name);
  expected_ = column + 1;
  metrics_.ends.resize(names.size());
  return column;
}

void MetricsParser::add_value(std::size_t column, std::int64_t step, double value) {
  metrics_.series.add(column, value);
  ColumnEnd& end = metrics_.ends[column];
  if (std::isfinite(value)) {
    end.value = value;
    end.step = step;
    end.reason_of_last.clear();
    return;
  }
  if (end.gaps++ == 0) end.first_gap = step;
  end.reason_of_last = "nan";
}

void MetricsParser::add_number(const LineField& field, std::int64_t step) {
  add_value(column_of(field.name),
            step,
            field.kind == LineField::Kind::number ? field.number
                                                  : std::numeric_limits<double>::quiet_NaN());
}

// "loss_reason" explains a null loss; any other string is a text of its own.
void MetricsParser::add_text(const LineField& field, std::int64_t step) {
  constexpr std::string_view suffix = "_reason";
  if (field.name.ends_with(suffix)) {
    const auto column =
        metrics_.series.find(field.name.substr(0, field.name.size() - suffix.size()));
    if (column && *column < metrics_.ends.size() &&
        !metrics_.ends[*column].reason_of_last.empty()) {
      metrics_.ends[*column].reason_of_last = field.text;
      return;
    }
  }
  if (metrics_.texts.size() == max_texts) metrics_.texts.erase(metrics_.texts.begin());
  metrics_.texts.push_back(
      {std::string(field.name), step, std::string(field.text.substr(0, max_text_bytes))});
}

}  // namespace longspan
