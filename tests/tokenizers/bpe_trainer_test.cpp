#include "framework/tokenizers/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "framework/core/error.h"
#include "framework/tokenizers/tokenizer_trainer.h"

namespace longspan::bpe_trainer_test {
namespace {

using Word = std::vector<std::string>;
using Words = std::vector<std::pair<Word, std::int64_t>>;
using Merges = std::vector<std::pair<std::string, std::string>>;

Word letters_of(const std::string& word) {
  Word letters;
  for (const char letter : word) letters.emplace_back(1, letter);
  return letters;
}

Word with_end(Word word, bool glued) {
  if (glued)
    word.back() += "</w>";
  else
    word.emplace_back("</w>");
  return word;
}

std::string joined(const std::string& left, std::string right, const std::string& prefix) {
  if (right.starts_with(prefix)) right.erase(0, prefix.size());
  return left + right;
}

std::vector<std::string> symbols_of(const Words& words) {
  std::vector<std::string> symbols;
  for (const auto& [word, count] : words) symbols.insert(symbols.end(), word.begin(), word.end());
  std::ranges::sort(symbols);
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  return symbols;
}

struct Trained {
  Merges merges;
  std::vector<std::string> symbols;
};

Trained trained(const Words& words, const PairRules& rules, std::size_t merges) {
  const std::vector<std::string> symbols = symbols_of(words);
  BpeTrainer trainer(symbols, rules);
  for (const auto& [word, count] : words) {
    std::vector<std::int32_t> ids;
    for (const std::string& symbol : word)
      ids.push_back(
          static_cast<std::int32_t>(std::ranges::lower_bound(symbols, symbol) - symbols.begin()));
    trainer.add_word(ids, count);
  }
  Trained result;
  const auto most = static_cast<std::int64_t>(symbols.size() + merges);
  for (const PairMerge& merge : trainer.train(most)) {
    const auto text = [&](std::int32_t id) {
      return trainer.symbols()[static_cast<std::size_t>(id)];
    };
    result.merges.emplace_back(text(merge.left), text(merge.right));
    EXPECT_EQ(text(merge.whole), joined(text(merge.left), text(merge.right), rules.prefix));
  }
  result.symbols = trainer.symbols();
  return result;
}

// Reference: counts all pairs again for each merge.
Merges reference_bpe(Words words, const PairRules& rules, std::size_t merges) {
  std::vector<std::string> symbols = symbols_of(words);
  const std::size_t most = symbols.size() + merges;
  const auto id_of = [&symbols](const std::string& symbol) {
    return std::ranges::find(symbols, symbol) - symbols.begin();
  };
  Merges result;
  while (symbols.size() < most) {
    std::map<std::pair<std::string, std::string>, std::int64_t> pairs;
    std::map<std::string, std::int64_t> frequencies;
    for (const auto& [word, count] : words)
      for (std::size_t i = 0; i < word.size(); ++i) {
        frequencies[word[i]] += count;
        if (i > 0) pairs[{word[i - 1], word[i]}] += count;
      }
    double best_score = 0;
    std::pair<std::string, std::string> best;
    for (const auto& [pair, count] : pairs) {  // in byte order
      if (count < rules.min_count) continue;
      double score = static_cast<double>(count);
      if (rules.score == MergeScore::likelihood)
        score /= static_cast<double>(frequencies[pair.first]) *
                 static_cast<double>(frequencies[pair.second]);
      const bool wins_tie = rules.ties == TieBreak::ids && score == best_score &&
                            std::pair(id_of(pair.first), id_of(pair.second)) <
                                std::pair(id_of(best.first), id_of(best.second));
      if (score > best_score || wins_tie) {
        best_score = score;
        best = pair;
      }
    }
    if (best_score == 0) break;
    const std::string whole = joined(best.first, best.second, rules.prefix);
    for (auto& [word, count] : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i] == best.first && word[i + 1] == best.second) {
          word[i] = whole;
          word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
    if (std::ranges::find(symbols, whole) == symbols.end()) symbols.push_back(whole);
    result.push_back(best);
  }
  return result;
}

// Wikipedia, Byte-pair encoding (aaabdaaabac); Sennrich et al. 2016, Algorithm 1.
TEST(BpeTrainer, MatchesPublishedExamples) {
  EXPECT_EQ(trained({{letters_of("aaabdaaabac"), 1}}, {}, 3).merges,
            (Merges{{"a", "a"}, {"a", "b"}, {"aa", "ab"}}));
  for (const bool glued : {false, true}) {
    Words words;
    for (const auto& [word, count] : {std::pair("low", 5),
                                      std::pair("lower", 2),
                                      std::pair("newest", 6),
                                      std::pair("widest", 3)})
      words.emplace_back(with_end(letters_of(word), glued), count);
    const Merges expected =
        glued
            ? Merges{{"e", "s"}, {"es", "t</w>"}, {"l", "o"}, {"e", "w"}, {"ew", "est</w>"}}
            : Merges{{"e", "s"}, {"es", "t"}, {"est", "</w>"}, {"l", "o"}, {"lo", "w"}, {"e", "w"}};
    EXPECT_EQ(trained(words, {}, expected.size()).merges, expected);
  }
}

TEST(BpeTrainer, IncrementalCountsMatchRecounting) {
  std::mt19937 random(3);
  for (const MergeScore score : {MergeScore::frequency, MergeScore::likelihood})
    for (const TieBreak ties : {TieBreak::bytes, TieBreak::ids})
      for (int round = 0; round < 20; ++round) {
        // Few letters in runs, so that pairs overlap.
        Words words;
        for (int i = 0; i < 40; ++i) {
          Word word;
          while (word.size() < 1 + random() % 12) {
            const std::string letter(1, static_cast<char>('a' + random() % (2 + round % 4)));
            for (auto n = 1 + random() % 3; n > 0; --n) word.push_back(letter);
          }
          words.emplace_back(word, 1 + random() % 5);
        }
        const PairRules rules = {.score = score, .ties = ties, .prefix = ""};
        EXPECT_EQ(trained(words, rules, 60).merges, reference_bpe(words, rules, 60));
      }
}

TEST(BpeTrainer, RemovesContinuationPrefixWithinPieces) {
  Words words;
  for (const char* word : {"hugs", "hug", "pug", "pugs", "bun", "bunhug"}) {
    Word letters = letters_of(word);
    for (std::size_t i = 1; i < letters.size(); ++i) letters[i].insert(0, "##");
    words.emplace_back(letters, 5 + static_cast<std::int64_t>(words.size()));
  }
  for (const MergeScore score : {MergeScore::frequency, MergeScore::likelihood}) {
    const PairRules rules = {.score = score, .prefix = "##"};
    const Trained result = trained(words, rules, 9);
    EXPECT_EQ(result.merges, reference_bpe(words, rules, 9));
    EXPECT_NE(std::ranges::find(result.symbols, "##ug"), result.symbols.end());
  }
}

// A merge with the text of an earlier one has the id of the earlier one.
TEST(BpeTrainer, PiecesWithEqualTextShareOneId) {
  const Words words = {{{"a", "b", "c"}, 5}, {{"a", "bc"}, 3}, {{"ab", "c"}, 3}};
  const Trained result = trained(words, {}, 1);
  EXPECT_EQ(result.symbols.back(), "abc");
  EXPECT_EQ(result.merges, reference_bpe(words, {}, 1));
  EXPECT_GT(result.merges.size(), 1U);
}

TEST(BpeTrainer, DoesNotMergePairsThatOccurOnce) {
  EXPECT_TRUE(trained({{letters_of("abc"), 1}}, {}, 5).merges.empty());
  EXPECT_EQ(trained({{letters_of("ab"), 2}}, {}, 5).merges.size(), 1U);
}

TEST(WordCounts, SortsByCountThenBytes) {
  WordCounts counts;
  for (const char* word : {"b", "a", "c", "b", "a"}) counts.add(word);
  WordCounts more;
  more.add("c", 4);
  counts.add(more);
  std::string text;
  for (const CountedWord& word : counts.sorted()) text += word.text + std::to_string(word.count);
  EXPECT_EQ(text, "c5a2b2");
}

TEST(WordCounts, DropsRareWordsAtMemoryLimit) {
  const std::size_t most = 100 * (WordCounts::bytes_of_entry + 8);
  WordCounts counts(most);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) counts.add("often" + std::to_string(i), 2);
    for (int i = 0; i < 500; ++i)
      counts.add("once" + std::to_string(round) + " " + std::to_string(i));
  }
  EXPECT_LE(counts.bytes(), most);
  EXPECT_GT(counts.size(), 20U);
  const std::vector<CountedWord> words = counts.sorted();
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(words[i].text.starts_with("often"));
    EXPECT_EQ(words[i].count, 6);
  }
}

TEST(WordCounts, MemoryLimitIncludesWordLength) {
  constexpr std::size_t most = 10'000;
  WordCounts counts(most);
  counts.add("often", 2);
  for (int i = 0; i < 100; ++i) {
    counts.add(std::string(1000, 'x') + std::to_string(i));
    EXPECT_LE(counts.bytes(), most);
  }
  EXPECT_EQ(counts.sorted().front().text, "often");
  // The order of insertion has no effect.
  WordCounts one(most);
  WordCounts other(most);
  for (int i = 0; i < 60; ++i) one.add(std::to_string(i), i + 1);
  for (int i = 60; i-- > 0;) other.add(std::to_string(i), i + 1);
  WordCounts from_one = counts;
  WordCounts from_other = counts;
  from_one.add(one);
  from_other.add(other);
  const auto as_text = [](const WordCounts& words) {
    std::string text;
    for (const CountedWord& word : words.sorted()) text += word.text + std::to_string(word.count);
    return text;
  };
  EXPECT_EQ(as_text(from_one), as_text(from_other));
}

}  // namespace
}  // namespace longspan::bpe_trainer_test
