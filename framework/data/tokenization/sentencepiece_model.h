// A model of the SentencePiece library (Kudo and Richardson 2018): text to pieces and back.
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

// What the pieces are: the likeliest segmentation under a unigram model, byte pairs merged in
// order, single characters, or what stands between spaces; or those of WordPiece, which
// SentencePiece does not know.
enum class SentencePieceModelType : std::uint8_t { unigram, bpe, characters, words, word_pieces };
// As SentencePiece calls it: "unigram", "bpe", "char" or "word"; and "wordpiece".
std::string_view name_of(SentencePieceModelType kind);

struct SubwordToken {
  std::int64_t id = 0;
  std::int64_t bytes = 0;  // of the text that it stands for
};

// One of several ways to cut a line.
struct SubwordSegmentation {
  std::vector<std::int64_t> ids;
  double log_probability = 0;
};

// A value; copies share the model. Encoding and decoding are thread-safe.
//
// A model that keeps text as it is, as those that are trained here, encodes line by line: a line's
// end is a token of its own, the piece of the character where the model has one, or else that of
// the byte. Any other encodes a whole text, whose ends of lines are to its normalizer what they are
// to the library's own tools.
class SentencePieceModel {
 public:
  // Of the bytes of a .model file. Throws DataError, beginning with `place`, where they are none.
  SentencePieceModel(std::string bytes, const std::string& place);

  // The bytes that it was made of.
  const std::string& bytes() const;
  // The number of ids.
  std::int64_t vocabulary() const;
  // The id of a line's end, or of a sentence's where the model has no piece for it; -1 where it has
  // neither.
  std::int64_t line_end() const;
  bool encodes_lines() const;
  // The ids of a sentence's two ends; -1 where the model has none.
  std::int64_t sentence_begin() const;
  std::int64_t sentence_end() const;
  // What an id is called in the model, and the id of what is called so; -1 where there is none.
  std::string piece(std::int64_t id) const;
  std::int64_t id_of(const std::string& piece) const;
  // Of a line without its end, in UTF-8. The ids are those of SentencePiece's own tools, but for a
  // first word that is called like a symbol, as "</s>", of which the kind of words would make that
  // symbol. The bytes add up to those of the line, unless the model sees nothing in it.
  std::vector<SubwordToken> encode_line(std::string_view line) const;
  // Calls sink(token) for the tokens of a text whose ends of lines are encoded with it;
  // `is_continuation`: it is a later part of one, which was cut at `place_to_cut`. The bytes add up
  // to those of the text but for parts in which the model sees nothing.
  void encode(std::string_view text,
              bool is_continuation,
              const std::function<void(const SubwordToken&)>& sink) const;
  // A part that has no such place ends at a space or between characters: ids may differ there.
  static constexpr std::size_t most_part_bytes = std::size_t{1} << 20;
  // Whether a text, valid UTF-8, may be encoded in parts; the first place at byte `least` or later
  // where one may end, npos where there is none.
  bool supports_chunking() const;
  std::size_t chunk_boundary(std::string_view text, std::size_t least) const;
  // The likeliest segmentations of a line, each with the logarithm of its probability, the
  // likeliest first, at most `most`. One, and the usual one, of a model that has no probabilities,
  // which only unigram models have, and of a line that it does not see.
  std::vector<SubwordSegmentation> segmentations(std::string_view line, int most) const;
  // The inverse, as far as the model keeps what it reads. Ids must be of the vocabulary. Throws
  // DataError where the model is damaged.
  std::string decode_line(std::span<const std::int64_t> ids) const;

  friend bool operator==(const SentencePieceModel& a, const SentencePieceModel& b) {
    return a.bytes() == b.bytes();
  }

 private:
  struct Loaded;
  std::shared_ptr<const Loaded> loaded_;
};

// The model of a file. Throws DataError.
SentencePieceModel read_subword_model(const ConfigPath& path);
// Writes a file that is seen at its path once it is whole. Throws Failure.
void write_subword_model(const SentencePieceModel& model, const std::string& path);

}  // namespace longspan
