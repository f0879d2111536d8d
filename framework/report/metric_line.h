// Parses a line of metrics.jsonl without building a JSON tree.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// One member of the object. `none`: null, which replaces a non-finite number.
struct LineField {
  enum class Kind : std::uint8_t { number, none, text };

  std::string_view name;
  Kind kind = Kind::number;
  double number = 0;
  std::string_view text = {};
};

// Parses one line after another. Plain lines, as the trainer writes them, are parsed in place;
// lines with escapes or nested values use the JSON library.
class MetricLineReader {
 public:
  // Returns whether the line, without its newline, is a JSON object whose "step" is a non-negative
  // integer. Skips members that are neither numbers, null nor strings.
  bool read(std::string_view line);

  // Views into the last parsed line, valid until the next read.
  std::int64_t step() const { return step_; }
  std::span<const LineField> fields() const { return fields_; }

 private:
  bool read_plain(std::string_view line);
  bool read_any(std::string_view line);
  bool find_step();

  std::int64_t step_ = 0;
  std::vector<LineField> fields_;
  std::deque<std::string> texts_;  // storage for the views of a line that is not plain
};

}  // namespace longspan
