// Tokenizer of PTX.
#pragma once

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ptx {

[[noreturn]] inline void refuse(int line, std::string_view what, std::string_view found) {
  throw std::runtime_error("line " + std::to_string(line) + ": " + std::string(what) + ": " +
                           std::string(found));
}

struct Token {
  std::string_view text;
  int line = 0;
};

inline bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
inline bool is_digit(char c) { return '0' <= c && c <= '9'; }

// A cursor over the tokens of a text.
class Words {
 public:
  Words() = default;
  explicit Words(std::string_view text) : text_(text) { advance(); }

  bool at_end() const { return token_.text.empty(); }
  const Token& peek() const {
    if (at_end()) refuse(line_, "wanted more", "the end");
    return token_;
  }
  Token take() {
    const Token token = peek();
    advance();
    return token;
  }
  bool takes(std::string_view text) {
    if (peek().text != text) return false;
    advance();
    return true;
  }
  void expect(std::string_view text) {
    const Token token = take();
    if (token.text != text) refuse(token.line, "wanted " + std::string(text), token.text);
  }
  void pass_line(int line) {
    while (!at_end() && token_.line == line) advance();
  }
  // Skips to after the matching closing brace, without tokens between.
  void pass_braces() {
    int open = token_.text == "}" ? 0 : token_.text == "{" ? 2 : 1;
    for (; open > 0 && at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == '{') ++open;
      if (text_[at_] == '}') --open;
    }
    advance();
  }

 private:
  void advance() {
    for (; at_ < text_.size(); ++at_) {
      if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (at_ == text_.size()) break;
      }
      if (text_[at_] == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(text_[at_])) == 0) break;
    }
    std::size_t end = std::min(at_ + 1, text_.size());
    const char first = char_at(at_);
    if (first == '"') {
      end = std::min(text_.find('"', end), text_.size() - 1) + 1;
    } else if (is_of_name(first) || (first == '-' && is_digit(char_at(end)))) {
      // Names of instructions can contain pairs of colons; a label ends with one colon.
      while (is_of_name(char_at(end)) || text_.substr(end, 2) == "::")
        end += char_at(end) == ':' ? 2 : 1;
    }
    token_ = {text_.substr(at_, end - at_), line_};
    at_ = end;
  }

  char char_at(std::size_t at) const { return at < text_.size() ? text_[at] : ' '; }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace ptx
