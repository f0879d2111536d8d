// A tokenizer as the package `tokenizers` writes it: tokenizer.json, or GPT-2's vocab.json and
// merges.txt. Byte-level BPE, unigram models and WordPiece, with what stands before and behind
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

struct JsonToken {
  std::int64_t id = 0;
  std::int64_t end = 0;  // of what it stands for, in bytes of the text; none ends before the last
};

// A value; copies share the vocabulary. Encoding and decoding are thread-safe.
//
// Ids are those of the package. Truncation and padding, which a file may ask for, are not done:
// they are of batches, and not of texts.
class JsonTokenizer {
 public:
  // Of the bytes of a tokenizer.json. Throws DataError, beginning with `place`, for what is none,
  // is out of bounds, or asks for something that Longspan does not know.
  JsonTokenizer(std::string json, const std::string& place);

  // Of the way in which files are understood and texts encoded, with the versions of the libraries
  // that know characters: where two are the same, so are the ids.
  static std::string version();

  // The bytes that it was made of.
  const std::string& json() const;
  // One more than the largest id.
  std::int64_t vocabulary() const;
  // What an id is called; "" where there is none. The id of what is called so; -1 where none is.
  const std::string& token(std::int64_t id) const;
  std::int64_t id_of(std::string_view token) const;
  // Whether a token stands for no text, as <s>.
  bool is_special(std::int64_t id) const;
  // What begins and ends a single text.
  const std::vector<std::int64_t>& before() const;
  const std::vector<std::int64_t>& after() const;

  // Calls f(token) for the tokens of a text, one after another, without what begins and ends it.
  // All of the text is one document. Throws DataError, beginning with `place`, where it is not
  // UTF-8 or nothing stands for a character.
  // Where the text is the part of a longer one that begins at byte `begin` of it, ends are counted
  // from the beginning of that.
  using TokenSink = std::function<void(const JsonToken&)>;
  void encode(std::string_view text,
              std::string_view place,
              const TokenSink& sink,
              std::int64_t begin = 0) const;
  // Whether a text may be given in parts, one call of `encode` each, whose tokens are those of the
  // whole; and where a part may end: the first place at byte `least` or later, npos where there is
  // none.
  bool supports_chunking() const;
  std::size_t chunk_boundary(std::string_view text, std::size_t least) const;
  // The ids; with what begins and ends a text where `with_template`.
  std::vector<std::int64_t> ids(std::string_view text,
                                std::string_view place,
                                bool with_template = false) const;
  // The text of tokens. Of byte-level tokenizers the bytes, which need not be UTF-8. Ids that have
  // no token are passed over, and special tokens where `without_special`.
  std::string decode(std::span<const std::int64_t> ids, bool without_special = false) const;

  friend bool operator==(const JsonTokenizer& a, const JsonTokenizer& b) {
    return a.json() == b.json();
  }

 private:
  struct Loaded;
  class Encoding;
  std::shared_ptr<const Loaded> loaded_;
};

// The tokenizer.json that stands for GPT-2's two files: a vocabulary and merges in lines. Throws
// DataError, beginning with the places, for what is none.
std::string json_of_merges(std::string_view vocabulary,
                           const std::string& vocabulary_place,
                           std::string_view merges,
                           const std::string& merges_place);

}  // namespace longspan
