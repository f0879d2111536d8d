// A line of metrics.jsonl, read without a tree of objects.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// One member of the object. `none`: null, which stands for what JSON has no number for.
struct LineField {
  enum class Kind : std::uint8_t { number, none, text };

  std::string_view name;
  Kind kind = Kind::number;
  double number = 0;
  std::string_view text = {};
};

// Reads one line after another. Plain lines, as the trainer writes them, are read as they stand;
// one with escapes or nested values goes through the JSON library.
class MetricLineReader {
 public:
  // Whether the line, without its end, is a JSON object whose "step" is a whole number from 0 on.
  // Members that are neither numbers, null nor text are left out.
  bool read(std::string_view line);

  // Of the line that was read last; views into it, valid until the next one is read.
  std::int64_t step() const { return step_; }
  std::span<const LineField> fields() const { return fields_; }

 private:
  bool read_plain(std::string_view line);
  bool read_any(std::string_view line);
  bool find_step();

  std::int64_t step_ = 0;
  std::vector<LineField> fields_;
  std::deque<std::string> texts_;  // what the views of an unplain line point to
};

}  // namespace longspan
