// What a text is split at: a regular expression, or a text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "framework/tokenizers/json_place.h"

namespace longspan {

// Of the library that matches regular expressions, and of its Unicode.
std::string pattern_version();

// Bytes [begin, end) of a text, which the pattern matches or which lie between two matches.
struct PatternSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

// A value; copies share what was compiled. Matching is thread-safe.
//
// Regular expressions are matched by PCRE2, in which properties and classes mean what they mean to
// the package `tokenizers`, that is to Oniguruma: \s, \p{L} and \p{N} are Unicode's.
class TextPattern {
 public:
  // Throws DataError, beginning with the place, for an expression that is none or that has parts
  // whose meaning here is not sure to be the same.
  static TextPattern regex(const std::string& expression, const std::string& place);
  static TextPattern literal(std::string text);
  // Of {"Regex": expression} or {"String": text}.
  static TextPattern from_json(const JsonCursor& json);

 private:
  friend class PatternScan;
  struct Compiled;
  std::string literal_;
  std::shared_ptr<const Compiled> compiled_;  // none: literal
};

// The spans of a text, one after another; they cover it.
class PatternScan {
 public:
  // Both must outlive the scan. The text is valid UTF-8.
  PatternScan(const TextPattern& pattern, std::string_view text);
  PatternScan(const PatternScan&) = delete;
  PatternScan& operator=(const PatternScan&) = delete;
  ~PatternScan();

  // False at the end. Throws DataError where matching takes too many steps.
  bool next(PatternSpan& span);

 private:
  // The next match at or after `from`.
  bool find(std::size_t from, PatternSpan& match);
  int match_at(std::size_t from) const;

  const TextPattern& pattern_;
  std::string_view text_;
  void* data_ = nullptr;  // of PCRE2
  std::size_t at_ = 0;
  std::size_t search_ = 0;
  PatternSpan match_;  // found, and not given yet
  bool has_match_ = false;
};

}  // namespace longspan
