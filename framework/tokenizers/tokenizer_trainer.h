// Trains a tokenizer.json on a corpus: byte-level BPE as in GPT-2 and Llama 3, or WordPiece as in
// BERT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/tokenizers/bpe_trainer.h"

namespace longspan {

// Word frequencies of a corpus.

struct CountedWord {
  std::string text;
  std::int64_t count = 0;
};

// Bounded memory: before the words exceed `most` bytes, the less frequent half is dropped,
// including ties. The result then depends on the order of the calls, and on nothing else. A single
// word that exceeds the bound is kept alone.
class WordCounts {
 public:
  static constexpr std::size_t usual_max = std::size_t{1} << 29;
  // Bytes of a word's entry, excluding its text.
  static constexpr std::size_t bytes_of_entry = 80;

  explicit WordCounts(std::size_t most = usual_max) : most_(most) {}
  void add(std::string_view word, std::int64_t count = 1);
  void add(const WordCounts& other);
  std::size_t size() const { return counts_.size(); }
  std::size_t bytes() const { return bytes_; }
  // Sorted by descending count, then by bytes.
  std::vector<CountedWord> sorted() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };

  void drop_rare();

  std::size_t most_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

enum class TrainedKind : std::uint8_t { byte_pairs, word_pieces };
// The BPE pre-tokenizer: that of GPT-2 (Radford et al. 2019), or of Llama 3, which keeps at most
// three digits together and separates newlines.
enum class WordCut : std::uint8_t { gpt2, llama3 };

struct TokenizerRules {
  TrainedKind kind = TrainedKind::byte_pairs;
  std::int64_t vocabulary = 8192;
  std::string vocabulary_key = "data.tokenizer.vocab_size";  // that sets it, for errors
  // The first ids. For WordPiece they include [UNK], whether it is listed or not.
  std::vector<std::string> special;
  WordCut cut = WordCut::gpt2;  // for BPE
  bool lowercase = true;        // for WordPiece: lowercase without accents
  MergeScore score = MergeScore::frequency;
  TieBreak ties = TieBreak::bytes;
};

// Returns the defaults. BPE: merge by frequency, <|endoftext|>. WordPiece: merge by likelihood,
// BERT's five special tokens.
TokenizerRules usual_rules(TrainedKind kind);

// Counts a corpus's words as its tokenizer will split them, and learns a vocabulary. Equal words
// and rules produce equal bytes on every machine, for any order of the parts and number of threads.
class TokenizerTrainer {
 public:
  // Throws ConfigurationError for special tokens that are empty, invalid UTF-8 or duplicated.
  explicit TokenizerTrainer(TokenizerRules rules);
  TokenizerTrainer(const TokenizerTrainer&) = delete;
  TokenizerTrainer& operator=(const TokenizerTrainer&) = delete;
  ~TokenizerTrainer();

  // Counts the words of a UTF-8 part of the corpus that begins and ends at boundaries of
  // `blank_to_cut_at` (chunk_boundaries.h). Thread-safe.
  WordCounts count(std::string_view text) const;
  // Returns the tokenizer.json. Throws DataError, prefixed with `place`, where the words yield
  // fewer tokens than the vocabulary size, or their characters exceed it.
  std::string train(const WordCounts& words,
                    const std::string& place,
                    const MergeListener& listener = {}) const;

 private:
  struct FrontEnd;
  TokenizerRules rules_;
  std::unique_ptr<const FrontEnd> front_end_;
};

}  // namespace longspan
