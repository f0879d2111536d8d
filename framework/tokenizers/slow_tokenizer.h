// Files of the "slow" tokenizers of the package transformers, from before tokenizer.json:
// vocab.json with merges.txt, vocab.txt, or a SentencePiece model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// A file's content and its path for messages. An empty path: the file is missing.
struct NamedText {
  std::string place = {};
  std::string text = {};

  bool is_present() const { return !place.empty(); }
};

enum class SlowVocabulary { json, lines, sentencepiece };

struct SlowTokenizerFiles {
  SlowVocabulary kind = SlowVocabulary::json;
  NamedText vocabulary;               // vocab.json, vocab.txt, tokenizer.model or spiece.model
  NamedText merges = {};              // merges.txt, with vocab.json
  NamedText tokenizer_config = {};    // tokenizer_config.json
  NamedText special_tokens_map = {};  // special_tokens_map.json
  NamedText added_tokens = {};        // added_tokens.json
  NamedText config = {};              // config.json of the model
};

// Returns the tokenizer.json that the package creates from them: pipeline and template of the
// tokenizer's class, with its special and added tokens. The class is from "tokenizer_class", else
// from "model_type", else from the files. Throws DataError, prefixed with a file's path, for an
// unsupported class and for a setting that changes ids otherwise.
std::string json_of_slow_tokenizer(const SlowTokenizerFiles& files);

// A SentencePiece model file (sentencepiece_model.proto): the fields that tokenizers need.

struct SentencePieceFile {
  enum class PieceType : int { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  enum class ModelType : int { unigram = 1, bpe, word, character };

  std::vector<Piece> pieces;
  ModelType model_type = ModelType::unigram;
  int unknown_id = 0;
  bool byte_fallback = false;
  bool space_as_suffix = false;      // treat_whitespace_as_suffix
  std::string precompiled_charsmap;  // of the normalizer; empty: identity
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Returns nothing for an invalid message, or for a model without pieces.
std::optional<SentencePieceFile> read_sentencepiece_file(std::string_view bytes);

}  // namespace longspan
