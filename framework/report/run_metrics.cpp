#include "framework/report/run_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "framework/core/error.h"
#include "framework/report/metric_line.h"

namespace longspan {
namespace {

constexpr std::size_t most_texts = 24;
constexpr std::size_t most_text_bytes = 4000;
constexpr double longest_seconds = 1e10;  // between two lines; three centuries
constexpr std::size_t most_line_bytes = std::size_t{64} << 20;

constexpr std::array<std::string_view, 4> parts_of_a_step = {
    "reading_seconds", "waiting_seconds", "saving_seconds", "validating_seconds"};

// Calls `take` with each whole line of the first `bytes` of a file and the line's offset.
template <typename Take>
void for_each_line(const std::filesystem::path& path, std::uintmax_t bytes, const Take& take) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError("{}: cannot be opened", path.string());
  std::vector<char> buffer(std::size_t{1} << 20);
  std::size_t kept = 0;       // bytes of a line that is not whole yet
  std::uintmax_t offset = 0;  // of the buffer's first byte
  while (bytes > offset + kept) {
    if (kept == buffer.size()) {
      if (kept >= most_line_bytes)
        throw DataError("{}: has a line of more than {} bytes; wanted: lines of metrics",
                        path.string(),
                        most_line_bytes);
      buffer.resize(2 * buffer.size());
    }
    const auto room = std::min<std::uintmax_t>(buffer.size() - kept, bytes - offset - kept);
    file.read(buffer.data() + kept, static_cast<std::streamsize>(room));
    const auto count = static_cast<std::size_t>(file.gcount());
    if (count == 0) return;  // it became shorter
    const char* begin = buffer.data();
    const char* const end = begin + kept + count;
    while (const void* const found =
               std::memchr(begin, '\n', static_cast<std::size_t>(end - begin))) {
      const auto* const stop = static_cast<const char*>(found);
      take(std::string_view(begin, static_cast<std::size_t>(stop - begin)),
           offset + static_cast<std::uintmax_t>(begin - buffer.data()));
      begin = stop + 1;
    }
    offset += static_cast<std::uintmax_t>(begin - buffer.data());
    kept = static_cast<std::size_t>(end - begin);
    std::memmove(buffer.data(), begin, kept);
  }
}

// A line whose step is not beyond that of the line before it: whatever stands before it and has its
// step or a later one comes again.
struct Return {
  std::uintmax_t offset = 0;
  std::int64_t step = 0;

  friend bool operator==(const Return&, const Return&) = default;
};

// One reading of a file. `known`: the returns that are in it, as far as they are known.
class Reading {
 public:
  Reading(std::size_t most_buckets, std::vector<Return> known)
      : metrics_{ThinnedSeries(most_buckets)}, known_(std::move(known)) {
    // Of the returns from each on the earliest step, which is what lines before it are judged by.
    for (std::size_t i = known_.size(); i-- > 1;)
      known_[i - 1].step = std::min(known_[i - 1].step, known_[i].step);
  }

  // False: this is no line of metrics.
  bool take(std::string_view line, std::uintmax_t offset) {
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

  const std::vector<Return>& found() const { return found_; }
  RunMetrics& metrics() { return metrics_; }

 private:
  void add(std::int64_t step);
  void advance(std::int64_t step);
  void add_number(const MetricField& field, std::int64_t step);
  void add_text(const MetricField& field, std::int64_t step);
  std::size_t column_of(std::string_view name);
  void add_value(std::size_t column, std::int64_t step, double value);

  RunMetrics metrics_;
  MetricLineReader reader_;
  std::vector<Return> known_;
  std::vector<Return> found_;
  std::size_t next_ = 0;  // of the known ones: the first after the line
  std::int64_t step_before_ = -1;
  std::size_t expected_ = 0;  // lines mostly have the same columns in the same order
};

// Where the run is after the line: tokens and time.
void Reading::advance(std::int64_t step) {
  std::optional<double> tokens, rate, seconds;
  for (const MetricField& field : reader_.fields()) {
    if (field.kind != MetricField::Kind::number) continue;
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
  // Time goes on. What no clock says, of a file that something else wrote, is none.
  if (passed > 0 && passed < longest_seconds) metrics_.seconds += passed;
  if (tokens) metrics_.tokens = *tokens;
  metrics_.step = step;
  ++metrics_.lines;
}

void Reading::add(std::int64_t step) {
  advance(step);
  metrics_.series.begin({step, metrics_.tokens, metrics_.seconds});
  expected_ = 0;
  std::optional<double> computing;
  bool is_divided = false;
  for (const MetricField& field : reader_.fields()) {
    if (field.kind == MetricField::Kind::text) {
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
    add_value(column_of(computing_seconds), step, std::max(0.0, *computing));
}

std::size_t Reading::column_of(std::string_view name) {
  const std::vector<std::string>& names = metrics_.series.names();
  const std::size_t column = expected_ < names.size() && names[expected_] == name
                                 ? expected_
                                 : metrics_.series.column(name);
  expected_ = column + 1;
  metrics_.ends.resize(names.size());
  return column;
}

void Reading::add_value(std::size_t column, std::int64_t step, double value) {
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

void Reading::add_number(const MetricField& field, std::int64_t step) {
  add_value(column_of(field.name),
            step,
            field.kind == MetricField::Kind::number ? field.number
                                                    : std::numeric_limits<double>::quiet_NaN());
}

// "loss_reason" beside a loss that is null says why; anything else is a text of its own.
void Reading::add_text(const MetricField& field, std::int64_t step) {
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
  if (metrics_.texts.size() == most_texts) metrics_.texts.erase(metrics_.texts.begin());
  metrics_.texts.push_back(
      {std::string(field.name), step, std::string(field.text.substr(0, most_text_bytes))});
}

}  // namespace

RunMetrics read_run_metrics(const std::filesystem::path& path, std::size_t most_buckets) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw DataError("{}: there is no such file: the run has logged no step yet", path.string());
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) throw DataError("{}: cannot be read: {}", path.string(), error.message());
  std::vector<Return> known;
  for (int attempt = 0;; ++attempt) {
    Reading reading(most_buckets, known);
    std::int64_t number = 0;
    for_each_line(path, bytes, [&](std::string_view line, std::uintmax_t offset) {
      ++number;
      if (!reading.take(line, offset))
        throw DataError(
            "{}:{}: found something else than a line of metrics", path.string(), number);
    });
    if (number == 0)
      throw DataError("{}: has no whole line: the run has logged no step yet", path.string());
    // Mostly there are none, and one reading is enough. A run that begins anew meanwhile may write
    // others; then this picture of it will do.
    if (reading.found() == known || attempt == 3) return std::move(reading.metrics());
    known = reading.found();
  }
}

}  // namespace longspan
