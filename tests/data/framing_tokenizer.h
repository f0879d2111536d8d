// A small tokenizer.json whose post-processor adds special tokens.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "framework/data/tokenization/special_tokens.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan::testing {

// Returns a tokenizer of words, by default with the special tokens of BART.
inline Tokenizer framing_tokenizer(
    const std::string& post_processor =
        R"({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})") {
  std::string added;
  for (const auto& [id, name] : {std::pair(0, "<s>"), {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}})
    added += fmt::format(
        R"({}{{"id": {}, "content": "{}", "special": true}})", added.empty() ? "" : ", ", id, name);
  return Tokenizer::from_huggingface(
      JsonTokenizer(fmt::format(
                        R"({{"added_tokens": [{}], "pre_tokenizer": {{"type": "WhitespaceSplit"}},
              "post_processor": {}, "decoder": {{"type": "WordPiece", "prefix": "##"}},
              "model": {{"type": "WordPiece", "unk_token": "<unk>", "vocab":
                {{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "c": 6}}}}}})",
                        added,
                        post_processor),
                    "framing"));
}

inline const SpecialTokenNames as_bart = {.begin = "</s>", .end = "</s>", .first = "<s>"};

}  // namespace longspan::testing
