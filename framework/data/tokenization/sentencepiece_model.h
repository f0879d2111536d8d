// SentencePiece models (Kudo and Richardson 2018): text to pieces and back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/config_path.h"

namespace longspan {

// Model type: most likely segmentation of a unigram model, byte-pair merges, single characters, or
// whitespace-separated words. word_pieces is WordPiece, which SentencePiece does not support.
enum class SentencePieceModelType : std::uint8_t { unigram, bpe, characters, words, word_pieces };
// Returns SentencePiece's name: "unigram", "bpe", "char" or "word"; or "wordpiece".
std::string_view name_of(SentencePieceModelType kind);

struct SubwordToken {
  std::int64_t id = 0;
  std::int64_t bytes = 0;  // of its text
};

// One segmentation of a line.
struct SubwordSegmentation {
  std::vector<std::int64_t> ids;
  double log_probability = 0;
};

// A value; copies share the model. Encoding and decoding are thread-safe. A model without
// normalization, as trained here, encodes line by line. A line end is one token: the piece of that
// character, or else its byte. Other models encode a text as a whole, and their normalizer
// processes line ends, as in the library's own tools.
class SentencePieceModel {
 public:
  // Parses a .model file. Throws DataError, prefixed with `place`, for other content.
  SentencePieceModel(std::string bytes, const std::string& place);

  // Content of the .model file.
  const std::string& bytes() const;
  // Number of ids.
  std::int64_t vocabulary() const;
  // Returns the id of a line end. Without such a piece, returns that of the end of a sentence, or
  // -1.
  std::int64_t line_end() const;
  bool encodes_lines() const;
  // Ids of the start and the end of a sentence; -1 if the model has none.
  std::int64_t sentence_begin() const;
  std::int64_t sentence_end() const;
  // Convert an id to its piece and a piece to its id; -1 if there is none.
  std::string piece(std::int64_t id) const;
  std::int64_t id_of(const std::string& piece) const;
  // Encodes a UTF-8 line without its end. The ids equal those of SentencePiece's tools. An
  // exception is a first word named like a symbol, such as "</s>", which word models would map to
  // that symbol. The bytes add up to those of the line, unless it has no tokens.
  std::vector<SubwordToken> encode_line(std::string_view line) const;
  // Calls sink(token) for the tokens of a text, line ends included. `is_continuation`: it is a
  // later part of a text that was cut at a `chunk_boundary`. The bytes add up to those of the text,
  // except parts without tokens.
  void encode(std::string_view text,
              bool is_continuation,
              const std::function<void(const SubwordToken&)>& sink) const;
  // A part without a cut position ends at a space or between characters, where ids may differ.
  static constexpr std::size_t max_part_bytes = std::size_t{1} << 20;
  // Returns whether valid UTF-8 text may be encoded in parts. `chunk_boundary` returns the first
  // cut position at byte `least` or later, or npos.
  bool supports_chunking() const;
  std::size_t chunk_boundary(std::string_view text, std::size_t least) const;
  // Returns at most `most` segmentations of a line, most likely first, with log probabilities. Only
  // unigram models have several. Other models, and lines without tokens, have only the default one.
  std::vector<SubwordSegmentation> segmentations(std::string_view line, int most) const;
  // Inverse of encoding, up to normalization. Requires ids of the vocabulary. Throws DataError for
  // a corrupt model.
  std::string decode_line(std::span<const std::int64_t> ids) const;

  friend bool operator==(const SentencePieceModel& a, const SentencePieceModel& b) {
    return a.bytes() == b.bytes();
  }

 private:
  struct Loaded;
  std::shared_ptr<const Loaded> loaded_;
};

// Reads a .model file. Throws DataError.
SentencePieceModel read_subword_model(const ConfigPath& path);
// Writes a file atomically. Throws Failure.
void write_subword_model(const SentencePieceModel& model, const std::string& path);

}  // namespace longspan
