// A tokenizer in the format of the package `tokenizers`: tokenizer.json, or GPT-2's vocab.json and
// merges.txt. Supports byte-level BPE, unigram models and WordPiece, with their normalizers,
// pre-tokenizers, templates and decoders.
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
  std::int64_t end = 0;  // end of its text, in bytes; non-decreasing
};

// A value type; copies share the vocabulary. Encoding and decoding are thread-safe.
//
// Ids equal the package's. A file's truncation and padding settings are ignored, since they apply
// to batches.
class JsonTokenizer {
 public:
  // Parses a tokenizer.json. Throws DataError, prefixed with `place`, for invalid or unsupported
  // contents.
  JsonTokenizer(std::string json, const std::string& place);

  // Returns the version of the parsing and encoding, including the Unicode libraries' versions.
  // Equal versions produce equal ids.
  static std::string version();

  // Returns the tokenizer.json it was created from.
  const std::string& json() const;
  // Returns the largest id + 1.
  std::int64_t vocabulary() const;
  // Map an id to its token, or "", and a token to its id, or -1.
  const std::string& token(std::int64_t id) const;
  std::int64_t id_of(std::string_view token) const;
  // Returns whether a token denotes no text, such as <s>.
  bool is_special(std::int64_t id) const;
  // Ids that the template adds before and after a single text.
  const std::vector<std::int64_t>& before() const;
  const std::vector<std::int64_t>& after() const;

  // Calls f(token) for each token of a text, without the template; the complete text is one
  // document. Throws DataError, prefixed with `place`, for invalid UTF-8 and for a character
  // without a token. `begin`: offset of this part in a longer text, to which token ends are
  // relative.
  using TokenSink = std::function<void(const JsonToken&)>;
  void encode(std::string_view text,
              std::string_view place,
              const TokenSink& sink,
              std::int64_t begin = 0) const;
  // Return whether parts of a text, encoded one by one, yield the tokens of the complete text, and
  // where a part may end. The boundary is the first one at byte `least` or later, or npos.
  bool supports_chunking() const;
  std::size_t chunk_boundary(std::string_view text, std::size_t least) const;
  // Returns the ids; `with_template` adds the template's ids.
  std::vector<std::int64_t> ids(std::string_view text,
                                std::string_view place,
                                bool with_template = false) const;
  // Returns the text of tokens; for byte-level tokenizers bytes that may be invalid UTF-8. Skips
  // unknown ids, and special tokens if `without_special`.
  std::string decode(std::span<const std::int64_t> ids, bool without_special = false) const;

  friend bool operator==(const JsonTokenizer& a, const JsonTokenizer& b) {
    return a.json() == b.json();
  }

 private:
  struct Loaded;
  class Encoding;
  std::shared_ptr<const Loaded> loaded_;
};

// Returns the tokenizer.json for GPT-2's two files: a vocabulary, and merges in lines. Throws
// DataError, prefixed with the file's path, for an invalid file.
std::string json_of_merges(std::string_view vocabulary,
                           const std::string& vocabulary_location,
                           std::string_view merges,
                           const std::string& merges_location);

}  // namespace longspan
