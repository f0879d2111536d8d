#include "framework/report/metrics_reading.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace longspan {
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
