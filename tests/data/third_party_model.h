// SentencePiece models with options of other projects, and ids from the library.
#pragma once

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/data/subword_text.h"

namespace longspan {

class LinesOfFile : public sentencepiece::SentenceIterator {
 public:
  explicit LinesOfFile(const std::string& path) : file_(path) { Next(); }
  bool done() const override { return done_; }
  void Next() override { done_ = !std::getline(file_, line_); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::ifstream file_;
  std::string line_;
  bool done_ = false;
};

// Defaults of SentencePiece: normalized Unicode, merged spaces, a space before each line.
inline std::string foreign_model(const std::string& byte_fallback,
                                 const std::string& sentence_end,
                                 std::unordered_map<std::string, std::string> more = {}) {
  const TemporaryFile file(subword_text());
  LinesOfFile sentences(file.path());
  std::string bytes;
  const std::unordered_map<std::string, std::string> usual = {{"model_type", "unigram"},
                                                              {"vocab_size", "320"},
                                                              {"hard_vocab_limit", "false"},
                                                              {"byte_fallback", byte_fallback},
                                                              {"eos_id", sentence_end},
                                                              {"minloglevel", "2"}};
  more.insert(usual.begin(), usual.end());
  const auto status = sentencepiece::SentencePieceTrainer::Train(more, &sentences, &bytes);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return bytes;
}

// Options of Llama: unchanged text with a space before it.
inline std::string llama_model() {
  return foreign_model("true",
                       "2",
                       {{"model_type", "bpe"},
                        {"normalization_rule_name", "identity"},
                        {"remove_extra_whitespaces", "false"}});
}

inline std::vector<std::int64_t> ids_of_library(const std::string& model, const std::string& text) {
  sentencepiece::SentencePieceProcessor processor;
  EXPECT_TRUE(processor.LoadFromSerializedProto(model).ok());
  const std::vector<int> ids = processor.EncodeAsIds(text);
  return {ids.begin(), ids.end()};
}

}  // namespace longspan
