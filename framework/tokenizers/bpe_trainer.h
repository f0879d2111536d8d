// Learns merges of symbol pairs from word counts: byte pair encoding (Sennrich et al. 2016) and
// WordPiece (Schuster and Nakajima 2012).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/token_table.h"

namespace longspan {

// Selects the next pair to merge: by count, or by count / (frequency of the left symbol x frequency
// of the right one).
enum class MergeScore : std::uint8_t { frequency, likelihood };
// Breaks ties of the score: by smaller bytes of the left and then the right symbol, or by smaller
// ids, as the package `tokenizers` does.
enum class TieBreak : std::uint8_t { bytes, ids };

struct PairRules {
  MergeScore score = MergeScore::frequency;
  TieBreak ties = TieBreak::bytes;
  std::int64_t min_count = 2;  // minimum count of a merged pair
  // Continuation prefix of all symbols of a word but the first; a merge drops the right symbol's
  // prefix.
  std::string prefix;
};

struct PairMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t whole = 0;
};

// Receives the number of symbols every few merges. An exception ends the training.
using MergeListener = std::function<void(std::int64_t)>;

// Updates counts incrementally at each merge. The result is independent of the order of the words
// and of the machine. Single use.
class BpeTrainer {
 public:
  // The initial symbols, by id, without duplicates.
  BpeTrainer(std::vector<std::string> symbols, PairRules rules);
  // Adds a word with its count. Throws DataError where all words together have 2^31 symbols or
  // more.
  void add_word(std::span<const std::int32_t> symbols, std::int64_t count);
  // Merges until there are `symbols` symbols or no pair is frequent enough. A merge that yields an
  // existing symbol reuses its id.
  std::vector<PairMerge> train(std::int64_t symbols, const MergeListener& listener = {});
  // By id.
  const std::vector<std::string>& symbols() const { return texts_; }

 private:
  struct Pair {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int64_t count = 0;
    std::uint64_t touched = 0;              // the last merge that changed it
    bool is_listed = false;                 // in pairs_of_
    std::vector<std::int32_t> places = {};  // of left symbols; may include removed ones
  };
  struct Candidate {
    double score = 0;
    std::uint32_t pair = 0;
  };
  // A symbol of a word. `previous` and `next` are -1 at the ends; the id is -1 once it is merged
  // into another.
  struct Place {
    std::int32_t id = 0;
    std::int32_t previous = -1;
    std::int32_t next = -1;
    std::int32_t word = 0;
  };

  Place& at(std::int32_t place) { return places_[static_cast<std::size_t>(place)]; }
  std::int64_t& frequency(std::int32_t id) { return frequencies_[static_cast<std::size_t>(id)]; }
  const std::string& text(std::int32_t id) const { return texts_[static_cast<std::size_t>(id)]; }
  double score_of(const Pair& pair) const;
  bool is_worse(const Candidate& a, const Candidate& b) const;
  void push(std::uint32_t pair);
  void rebuild_queue();
  std::uint32_t pair_of(std::int32_t left, std::int32_t right);
  void add(std::int32_t left, std::int32_t right, std::int32_t place, std::int64_t count);
  void take(std::int32_t left, std::int32_t right, std::int64_t count);
  std::int32_t symbol_of(std::int32_t left, std::int32_t right);
  void merge(const PairMerge& merge, std::vector<std::int32_t> places);
  void push_touched(const PairMerge& merge);

  PairRules rules_;
  std::vector<std::string> texts_;
  TokenTable ids_;
  std::vector<std::int64_t> frequencies_;  // of symbols
  std::vector<Place> places_;
  std::vector<std::int64_t> counts_;  // of words
  KeyTable pair_ids_;
  std::vector<Pair> pairs_;
  std::vector<std::vector<std::uint32_t>> pairs_of_;  // by symbol, for the likelihood
  std::vector<Candidate> queue_;                      // a heap
  std::vector<std::uint32_t> touched_;
  std::uint64_t merges_ = 0;
};

}  // namespace longspan
