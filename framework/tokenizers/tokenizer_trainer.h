// Making a tokenizer.json of a text: byte-level byte pairs as GPT-2 and Llama 3 have them, or
// WordPiece as BERT has it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/bpe_trainer.h"
#include "framework/tokenizers/word_counts.h"

namespace longspan {

enum class TrainedKind : std::uint8_t { byte_pairs, word_pieces };
// How byte pairs cut a text into words: as GPT-2 does (Radford et al. 2019), or as Llama 3, which
// keeps three digits together at most and ends of lines apart.
enum class WordCut : std::uint8_t { gpt2, llama3 };

struct TokenizerRules {
  TrainedKind kind = TrainedKind::byte_pairs;
  std::int64_t vocabulary = 8192;
  // The first ids. Of WordPiece [UNK] is one of them, whether it is named or not.
  std::vector<std::string> special;
  WordCut cut = WordCut::gpt2;  // of byte pairs
  bool lowercase = true;        // of WordPiece: small letters without accents
  MergeScore score = MergeScore::frequency;
  TieBreak ties = TieBreak::bytes;
};

// Where nothing else is asked for. Byte pairs: the most frequent first, <|endoftext|>. WordPiece:
// the likelihood, BERT's five special tokens.
TokenizerRules usual_rules(TrainedKind kind);

// Counts the words of a text, as its tokenizer will cut it, and makes a vocabulary of them. The
// same words and rules give the same bytes on every machine, whatever the order of the text's parts
// and the number of threads that count.
class TokenizerTrainer {
 public:
  // Throws ConfigurationError for special tokens that are empty, not UTF-8 or named twice.
  explicit TokenizerTrainer(TokenizerRules rules);
  TokenizerTrainer(const TokenizerTrainer&) = delete;
  TokenizerTrainer& operator=(const TokenizerTrainer&) = delete;
  ~TokenizerTrainer();

  // The words of a part of a text in UTF-8 that begins and ends where `blank_to_cut_at`
  // (chunk_boundaries.h) says. Thread-safe.
  WordCounts count(std::string_view text) const;
  // The tokenizer.json. Throws DataError, beginning with the place of the text, where the words
  // make fewer tokens than the vocabulary has ids, or where their characters need more.
  std::string train(const WordCounts& words,
                    const std::string& place,
                    const MergeListener& listener = {}) const;

 private:
  struct FrontEnd;
  TokenizerRules rules_;
  std::unique_ptr<const FrontEnd> front_end_;
};

}  // namespace longspan
