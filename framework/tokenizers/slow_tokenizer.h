// Files of "slow" tokenizers of the package transformers, which it saved before there was a
// tokenizer.json: vocab.json with merges.txt, vocab.txt, or a model of SentencePiece.
#pragma once

#include <string>

namespace longspan {

// A file's content, and the path that messages name. Without a path: the file is missing.
struct NamedText {
  std::string place = {};
  std::string text = {};

  bool is_there() const { return !place.empty(); }
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

// The tokenizer.json that the package makes of them: steps and template of the tokenizer's class,
// with its special and added tokens. The class is "tokenizer_class", else that of "model_type",
// else that of the files. Throws DataError, beginning with a file's place, for a class that is not
// known and a setting that changes ids in another way.
std::string json_of_slow_tokenizer(const SlowTokenizerFiles& files);

}  // namespace longspan
