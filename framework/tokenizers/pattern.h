// A pattern to split text at: a regular expression or a literal.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "framework/tokenizers/json_place.h"

namespace longspan {

// Returns the version of the regular expression library and of its Unicode data.
std::string pattern_version();

// Bytes [begin, end) of a text: a match, or the text between two matches.
struct PatternSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

// A value type; copies share the compiled pattern. Matching is thread-safe.
//
// Regular expressions are matched by PCRE2 with the semantics of Oniguruma, which the package
// `tokenizers` uses: \s, \p{L} and \p{N} are Unicode's.
class TextPattern {
 public:
  // Throws DataError, prefixed with `place`, for an invalid expression, and for constructs whose
  // semantics may differ.
  static TextPattern regex(const std::string& expression, const std::string& place);
  static TextPattern literal(std::string text);
  // Reads {"Regex": expression} or {"String": text}.
  static TextPattern from_json(const JsonCursor& json);

 private:
  friend class PatternScan;
  struct Compiled;
  std::string literal_;
  std::shared_ptr<const Compiled> compiled_;  // null: literal
};

// Iterates over the spans of a text, which cover it.
class PatternScan {
 public:
  // Both must outlive the scan. Requires valid UTF-8.
  PatternScan(const TextPattern& pattern, std::string_view text);
  PatternScan(const PatternScan&) = delete;
  PatternScan& operator=(const PatternScan&) = delete;
  ~PatternScan();

  // Returns false at the end. Throws DataError where matching exceeds the step limit.
  bool next(PatternSpan& span);

 private:
  // Finds the next match at or after `from`.
  bool find(std::size_t from, PatternSpan& match);
  int match_at(std::size_t from) const;

  const TextPattern& pattern_;
  std::string_view text_;
  void* data_ = nullptr;  // match data of PCRE2
  std::size_t at_ = 0;
  std::size_t search_ = 0;
  PatternSpan match_;  // found but not yet returned
  bool has_match_ = false;
};

// Returns an expression whose meaning to PCRE2, with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE, is
// that of `expression` to Oniguruma. Throws DataError, prefixed with `place`, for invalid UTF-8,
// and for an escape or nested class without a guaranteed equivalent.
std::string pcre2_text(std::string_view expression, const std::string& place);

// Returns the byte width of the character at byte `at` of valid UTF-8.
std::size_t next_width(std::string_view text, std::size_t at);

}  // namespace longspan
