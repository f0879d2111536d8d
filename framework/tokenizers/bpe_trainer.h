// Learning which pairs of symbols to merge, from words and their counts: byte pair encoding
// (Sennrich et al. 2016) and the pieces of WordPiece (Schuster and Nakajima 2012).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/token_table.h"

namespace longspan {

// Which pair is merged next: the one that is there most often, or the one that is there most often
// for the frequencies of its two symbols, count / (frequency of one x frequency of the other).
enum class MergeScore : std::uint8_t { frequency, likelihood };
// Which of several pairs of one score: that of the smaller bytes of the left symbol and then of the
// right one, or that of the smaller ids, as the package `tokenizers` takes them.
enum class TieBreak : std::uint8_t { bytes, ids };

struct PairRules {
  MergeScore score = MergeScore::frequency;
  TieBreak ties = TieBreak::bytes;
  std::int64_t least_count = 2;  // of a pair that is merged
  // What all symbols of a word but the first begin with; a merge leaves out that of its right one.
  std::string prefix;
};

struct PairMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t whole = 0;
};

// Called with the number of symbols there are, every few merges. What it throws ends the training.
using MergeListener = std::function<void(std::int64_t)>;

// Counts are kept up to date where something is merged, and nothing is counted again. The result
// depends neither on the order of the words nor on the machine. Single use.
class BpeTrainer {
 public:
  // The symbols there are, by id; none of them twice.
  BpeTrainer(std::vector<std::string> symbols, PairRules rules);
  // A word that is there so many times. All words together have less than 2^31 symbols; throws
  // DataError where they have more.
  void add_word(std::span<const std::int32_t> symbols, std::int64_t count);
  // Merges until there are `symbols` symbols, or until no pair is there often enough. A merge whose
  // symbol is there already has the id of that.
  std::vector<PairMerge> train(std::int64_t symbols, const MergeListener& listener = {});
  // By id.
  const std::vector<std::string>& symbols() const { return texts_; }

 private:
  struct Pair {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int64_t count = 0;
    std::uint64_t touched = 0;              // by which merge
    bool is_listed = false;                 // in pairs_of_
    std::vector<std::int32_t> places = {};  // of left symbols; some are no more
  };
  struct Candidate {
    double score = 0;
    std::uint32_t pair = 0;
  };
  // A symbol of a word; its neighbours are -1 at the ends, its id -1 when another one took it.
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
  std::vector<std::vector<std::uint32_t>> pairs_of_;  // of symbols, for the likelihood
  std::vector<Candidate> queue_;                      // a heap
  std::vector<std::uint32_t> touched_;
  std::uint64_t merges_ = 0;
};

}  // namespace longspan
