// Special tokens: names, ids, templates, and the tokens of words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Tokens before and after each text, from the post-processor of a tokenizer.json. A value. Empty
// for other tokenizers.
class SpecialTokenTemplate {
 public:
  explicit SpecialTokenTemplate(const Tokenizer& tokenizer);

  // Returns the template without its last token if that is `end`, for text to which an end token is
  // appended separately.
  SpecialTokenTemplate without_end(std::int64_t end) const;

  const std::vector<std::int64_t>& before() const { return before_; }
  const std::vector<std::int64_t>& after() const { return after_; }
  // Number of tokens of both.
  std::int64_t tokens() const { return static_cast<std::int64_t>(before_.size() + after_.size()); }
  // Returns how many text tokens fit among `most` (0: any number) with the template. Throws
  // DataError, prefixed with `place`, if none fit.
  std::int64_t room(std::int64_t most, std::string_view place) const;

 private:
  std::vector<std::int64_t> before_;
  std::vector<std::int64_t> after_;
};

// Returns the ids with the special tokens, at most `longest` (0: any) in total. Only text tokens
// are truncated. Throws DataError, prefixed with the place, if no text token fits.
std::vector<std::int64_t> add_special_tokens(const SpecialTokenTemplate& frame,
                                             std::vector<std::int64_t> ids,
                                             std::string_view place,
                                             std::int64_t longest = 0);

// Encodes a text and adds special tokens. Throws as Tokenizer::encode, and DataError where the text
// has no tokens.
std::vector<std::int64_t> framed_tokens(const Tokenizer& tokenizer,
                                        const SpecialTokenTemplate& frame,
                                        std::string_view text,
                                        std::string_view place,
                                        std::int64_t longest = 0);

class OptionTable;

// Configured tokens: by name for a tokenizer.json, by number for a tokenizer of ids. Other
// tokenizers ignore them.
struct SpecialTokenNames {
  // data.tokenizer.decoder_start_token: first input of the decoder
  std::optional<std::string> begin = {};
  std::optional<std::string> end = {};  // data.tokenizer.eos_token
  // data.tokenizer.forced_bos_token: first token of every output
  std::optional<std::string> first = {};
};

// Declares data.tokenizer.decoder_start_token, data.tokenizer.eos_token and
// data.tokenizer.forced_bos_token.
void declare(OptionTable& table, SpecialTokenNames& tokens);

// Ids in addition to text tokens. The tokenizer's own ids if it has them; otherwise appended to its
// vocabulary, whose ids do not change.
struct SpecialTokenIds {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t vocabulary = 0;             // number of ids, with both
  std::optional<std::int64_t> first = {};  // forced after `begin`, not in outputs
  bool allows_bos = false;                 // outputs may contain `begin`, because text does
};

// Returns the configured ids. The default end is the last token after a text in the template of a
// tokenizer.json. Throws ConfigurationError for an unknown name.
SpecialTokenIds sentence_ids(const Tokenizer& tokenizer, const SpecialTokenNames& named = {});

// Returns the maximum number of ids appended to a tokenizer of this type.
std::int64_t max_sentence_ids(TokenizerKind kind, const SpecialTokenNames& named);

// Decodes generated ids up to the first end token, without special tokens. For a tokenizer.json,
// line ends are replaced by blanks, so that the result is one line. Throws DataError for an id
// outside of the vocabulary.
std::string decode_sentence(const Tokenizer& tokenizer,
                            std::span<const std::int64_t> ids,
                            const SpecialTokenNames& named = {});

// A value. Words are separated by a space if the tokenizer has one. With a tokenizer.json, each
// word but the first is encoded with a leading space, as Hugging Face `tokenizers` encode
// pretokenized words. (They require "add_prefix_space" where words begin with spaces.) Special
// tokens surround the sentence.
class WordTokens {
 public:
  explicit WordTokens(const Tokenizer& tokenizer);

  // Append the special tokens that begin or end a sentence.
  void begin(std::vector<std::int64_t>& tokens) const;
  void end(std::vector<std::int64_t>& tokens) const;
  const SpecialTokenTemplate& frame() const { return frame_; }
  // Appends the tokens of a word and returns the index of the tagged one: its first, not counting a
  // separate space token. Throws DataError, prefixed with `place`, for a word that the tokenizer
  // rejects or that has no tokens.
  std::size_t add(std::string_view word,
                  std::string_view place,
                  std::vector<std::int64_t>& tokens) const;

 private:
  Tokenizer tokenizer_;
  SpecialTokenTemplate frame_;
  bool space_is_a_token_;
  bool has_space_;
};

}  // namespace longspan
