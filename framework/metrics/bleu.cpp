#include "framework/metrics/bleu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "framework/core/error.h"
#include "framework/metrics/text.h"

namespace longspan {
namespace {

constexpr std::uint32_t unknown = ~std::uint32_t{0};

// Numbers keys from 0 by first occurrence. Uses open addressing: a sentence needs a dozen small
// tables, and std::unordered_map would allocate each entry.
class NumberTable {
 public:
  // Clears the table, with capacity for `most` keys.
  void clear(std::size_t most) {
    const std::size_t size = std::bit_ceil(2 * most + 2);
    keys_.assign(size, empty);
    numbers_.resize(size);
    count_ = 0;
  }
  std::size_t count() const { return count_; }

  std::uint32_t number(std::uint64_t key) {
    const std::size_t place = slot_of(key);
    if (keys_[place] == empty) {
      keys_[place] = key;
      numbers_[place] = count_++;
    }
    return numbers_[place];
  }
  std::uint32_t find(std::uint64_t key) const {
    const std::size_t place = slot_of(key);
    return keys_[place] == empty ? unknown : numbers_[place];
  }

 private:
  // Not a key: numbers are below `unknown`.
  static constexpr std::uint64_t empty = ~std::uint64_t{0};

  std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = keys_.size() - 1;
    const std::uint64_t mixed = (key ^ (key >> 32)) * 0x9E3779B97F4A7C15u;
    std::size_t place = static_cast<std::size_t>(mixed >> 32) & mask;
    while (keys_[place] != empty && keys_[place] != key) place = (place + 1) & mask;
    return place;
  }

  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> numbers_;
  std::uint32_t count_ = 0;
};

// An n-gram is identified by the number of its first n - 1 items and its last item.
std::uint64_t key_of(std::uint32_t first, std::uint32_t last) {
  return (std::uint64_t{first} << 32) | last;
}

using Items = std::vector<std::uint32_t>;

std::string tokenized(std::string_view sentence, BleuTokens tokens) {
  const std::string_view text = without_trailing_space(sentence);
  if (tokens == BleuTokens::thirteen_a) return tokenize_13a(text);
  return tokens == BleuTokens::chinese ? tokenize_zh(text) : std::string(text);
}

// sacreBLEU's replacement of log(0).
double floored_log(double x) { return x == 0 ? -9999999999. : std::log(x); }

using Orders = std::vector<ChrfSums::Order>;

// Python's string.punctuation: printable ASCII other than letters, digits and space.
bool is_punctuation(char letter) {
  return (letter >= '!' && letter <= '/') || (letter >= ':' && letter <= '@') ||
         (letter >= '[' && letter <= '`') || (letter >= '{' && letter <= '~');
}

// Splits words, and from each a trailing punctuation mark, else a leading one.
std::vector<std::string_view> words_and_marks(std::string_view text) {
  std::vector<std::string_view> result;
  for (const std::string_view word : words_of(text)) {
    const std::size_t last = word.size() - 1;
    std::size_t cut = 0;
    if (last > 0) cut = is_punctuation(word[last]) ? last : (is_punctuation(word[0]) ? 1 : 0);
    if (cut > 0) result.push_back(word.substr(0, cut));
    result.push_back(word.substr(cut));
  }
  return result;
}

void count(const Items& hypothesis, const Items& reference, std::span<ChrfSums::Order> orders) {
  std::vector<std::int64_t> matches(orders.size(), 0);
  add_ngram_matches(hypothesis, {&reference, 1}, matches);
  for (std::size_t n = 1; n <= orders.size(); ++n) {
    const std::int64_t theirs = ngrams_in(reference.size(), n);
    orders[n - 1] = {.hypothesis = theirs > 0 ? ngrams_in(hypothesis.size(), n) : 0,
                     .reference = theirs,
                     .matches = matches[n - 1]};
  }
}

// Returns the F-score of mean precision and mean recall over the orders that both sides have.
double score_of(const Orders& orders, double beta) {
  double precision = 0, recall = 0, used = 0;
  for (const ChrfSums::Order& order : orders) {
    if (order.hypothesis == 0 || order.reference == 0) continue;
    const auto matches = static_cast<double>(order.matches);
    precision += matches / static_cast<double>(order.hypothesis);
    recall += matches / static_cast<double>(order.reference);
    ++used;
  }
  if (precision + recall == 0) return 0;
  precision /= used;
  recall /= used;
  const double factor = beta * beta;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

}  // namespace

void add_ngram_matches(std::span<const std::uint32_t> hypothesis,
                       std::span<const std::vector<std::uint32_t>> references,
                       std::span<std::int64_t> matches) {
  NumberTable table;
  // Number of the n-gram that begins at each item.
  std::vector<std::uint32_t> own(hypothesis.size(), 0);
  std::vector<std::vector<std::uint32_t>> theirs;
  for (const auto& reference : references) theirs.emplace_back(reference.size(), 0);
  std::vector<std::int64_t> counts, most, here;
  for (std::size_t n = 1; n <= matches.size(); ++n) {
    if (hypothesis.size() < n) return;
    table.clear(hypothesis.size());
    counts.assign(hypothesis.size(), 0);
    for (std::size_t i = 0; i + n <= hypothesis.size(); ++i) {
      own[i] = table.number(key_of(own[i], hypothesis[i + n - 1]));
      ++counts[own[i]];
    }
    most.assign(table.count(), 0);
    for (std::size_t r = 0; r < references.size(); ++r) {
      here.assign(table.count(), 0);
      for (std::size_t i = 0; i + n <= references[r].size(); ++i) {
        std::uint32_t& number = theirs[r][i];
        if (number == unknown) continue;  // longer n-grams are then missing too
        number = table.find(key_of(number, references[r][i + n - 1]));
        if (number != unknown) ++here[number];
      }
      for (std::size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], here[k]);
    }
    for (std::size_t k = 0; k < most.size(); ++k) matches[n - 1] += std::min(counts[k], most[k]);
  }
}

std::vector<std::vector<std::uint32_t>> bleu_items(std::span<const std::string_view> texts,
                                                   BleuTokens tokens) {
  std::vector<Items> items;
  if (tokens == BleuTokens::characters) {
    for (const std::string_view text : texts) items.push_back(letters_of(text));
    return items;
  }
  std::vector<std::string> split;  // owns the text that the words refer to
  for (const std::string_view text : texts) split.push_back(tokenized(text, tokens));
  WordNumbers numbers;
  for (const std::string& text : split) items.push_back(numbers.of(words_of(text)));
  return items;
}

const char* name_of(BleuTokens tokens) {
  switch (tokens) {
    case BleuTokens::thirteen_a:
      return "13a";
    case BleuTokens::white_space:
      return "none";
    case BleuTokens::characters:
      return "char";
    case BleuTokens::chinese:
      return "zh";
  }
  return "";
}

void BleuSums::add(std::string_view hypothesis,
                   std::span<const std::string> references,
                   BleuTokens tokens) {
  require(!references.empty(), "BLEU requires a reference for every sentence");
  std::vector<std::string_view> texts = {hypothesis};
  texts.insert(texts.end(), references.begin(), references.end());
  const std::vector<Items> items = bleu_items(texts, tokens);
  const Items& own = items.front();
  const std::span<const Items> theirs = std::span(items).subspan(1);

  const std::int64_t length = std::ssize(own);
  std::int64_t closest = std::ssize(theirs.front());
  for (const auto& reference : theirs) {
    const std::int64_t candidate = std::ssize(reference);
    const std::int64_t difference = std::abs(candidate - length), best = std::abs(closest - length);
    if (difference < best || (difference == best && candidate < closest)) closest = candidate;
  }
  hypothesis_tokens += length;
  reference_tokens += closest;
  for (std::size_t n = 1; n <= orders; ++n) totals[n - 1] += ngrams_in(own.size(), n);
  add_ngram_matches(own, theirs, matches);
}

Bleu bleu(const BleuSums& sums, const BleuOptions& options) {
  constexpr auto orders = BleuSums::orders;
  const auto length = static_cast<double>(sums.hypothesis_tokens);
  const auto reference = static_cast<double>(sums.reference_tokens);
  Bleu result;
  result.brevity_penalty = 1;
  if (length < reference)
    result.brevity_penalty = length > 0 ? std::exp(1 - reference / length) : 0;
  bool any = false;
  for (const std::int64_t count : sums.matches) any = any || count > 0;
  if (!any) return result;
  const bool adds = options.smoothing == BleuSmoothing::add_k;
  const double value = options.value.value_or(adds ? 1 : 0.1);
  double halvings = 1;
  std::size_t used = orders;
  for (std::size_t n = 0; n < orders; ++n) {
    const double more = adds && n > 0 ? value : 0;
    const double match = static_cast<double>(sums.matches[n]) + more;
    const double total = static_cast<double>(sums.totals[n]) + more;
    if (total == 0) break;
    if (options.effective_order) used = n + 1;
    if (match > 0) {
      result.precisions[n] = 100. * match / total;
    } else if (options.smoothing == BleuSmoothing::exponential) {
      halvings *= 2;
      result.precisions[n] = 100. / (halvings * total);
    } else if (options.smoothing == BleuSmoothing::floor) {
      result.precisions[n] = 100. * value / total;
    }
  }
  double logarithms = 0;
  for (std::size_t n = 0; n < used; ++n) logarithms += floored_log(result.precisions[n]);
  result.score = result.brevity_penalty * std::exp(logarithms / static_cast<double>(used));
  return result;
}

std::vector<MetricValue> metric_values(const BleuSums& sums, const BleuOptions& options) {
  const Bleu found = bleu(sums, options);
  return {{"bleu", found.score, "percent"}, {"bleu_brevity_penalty", found.brevity_penalty, ""}};
}

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_point(char letter) { return letter == '.' || letter == ','; }

// [\{-\~\[-\` -\&\(-\+\:-\@\/]
bool is_symbol(char letter) {
  return (letter >= '{' && letter <= '~') || (letter >= '[' && letter <= '`') ||
         (letter >= ' ' && letter <= '&') || (letter >= '(' && letter <= '+') ||
         (letter >= ':' && letter <= '@') || letter == '/';
}

// Replaces each adjacent pair for which `fits` holds, from the left and without overlap, by the
// output of `put`. Operating on bytes is safe: the rules contain ASCII characters only. A pair with
// a non-ASCII character equals a pair with its adjacent byte.
template <typename Fits, typename Put>
std::string replace_pairs(const std::string& text, const Fits& fits, const Put& put) {
  std::string result;
  result.reserve(text.size() + text.size() / 4);
  std::size_t i = 0;
  while (i < text.size()) {
    if (i + 1 < text.size() && fits(text[i], text[i + 1])) {
      put(result, text[i], text[i + 1]);
      i += 2;
    } else {
      result += text[i++];
    }
  }
  return result;
}

// The replacements r'\1 \2 ' and r' \1 \2' of a regular expression.
void append_split_after(std::string& text, char first, char second) {
  for (const char letter : {first, ' ', second, ' '}) text += letter;
}
void append_split_before(std::string& text, char first, char second) {
  for (const char letter : {' ', first, ' ', second}) text += letter;
}

std::string without_markup(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  return text;
}

// sacreBLEU's ranges. It writes two of them as "\u20000" and "\u2f800". Python parses these as
// U+2000 and U+2F80 followed by "0", so the ranges begin one character later.
constexpr std::pair<char32_t, char32_t> chinese_ranges[] = {
    {0x2001, 0x2A6D}, {0x2E80, 0x2EFF}, {0x2F00, 0x2FDF}, {0x2F81, 0x2FA1}, {0x2FF0, 0x2FFF},
    {0x3000, 0x303F}, {0x3100, 0x312F}, {0x31A0, 0x31BF}, {0x31C0, 0x31EF}, {0x3200, 0x32FF},
    {0x3300, 0x33FF}, {0x3400, 0x4DB5}, {0x4E00, 0x9FA5}, {0x9FA6, 0x9FBB}, {0xF900, 0xFA2D},
    {0xFA30, 0xFA6A}, {0xFA70, 0xFAD9}, {0xFE10, 0xFE1F}, {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF}};

bool is_chinese_of_sacrebleu(char32_t code_point) {
  return std::ranges::any_of(chinese_ranges, [&](const auto& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

// Equals sacrebleu.tokenizers.tokenizer_re.TokenizerRegexp.
std::string split_at_marks(std::string_view line) {
  std::string text;
  for (const char letter : line) {
    if (is_symbol(letter))
      text += {' ', letter, ' '};
    else
      text += letter;
  }
  // A period or comma after a non-digit; before a non-digit; a hyphen after a digit.
  text = replace_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_point(b); }, append_split_after);
  text = replace_pairs(
      text, [](char a, char b) { return is_point(a) && !is_digit(b); }, append_split_before);
  text = replace_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; }, append_split_after);
  std::string tokens;
  tokens.reserve(text.size());
  for (const std::string_view word : words_of(text)) {
    if (!tokens.empty()) tokens += ' ';
    tokens += word;
  }
  return tokens;
}

}  // namespace

std::string tokenize_13a(std::string_view line) {
  return split_at_marks(" " + without_markup(line) + " ");
}

std::string tokenize_zh(std::string_view line) {
  return split_at_marks(with_space_around(without_outer_space(line), is_chinese_of_sacrebleu));
}

void ChrfSums::add(std::string_view hypothesis, std::span<const std::string> references) {
  require(!references.empty(), "chrF requires a reference for every sentence");
  WordNumbers numbers;
  const bool with_words = word_orders() > 0;
  const Items letters = letters_of(hypothesis);
  const Items words = with_words ? numbers.of(words_and_marks(hypothesis)) : Items();
  Orders best;
  double best_score = -1;
  for (const std::string& reference : references) {
    Orders here(orders_.size());
    const std::span<Order> all = here;
    count(letters, letters_of(reference), all.first(letter_orders));
    if (with_words)
      count(words, numbers.of(words_and_marks(reference)), all.subspan(letter_orders));
    const double score = score_of(here, beta_);
    if (score <= best_score) continue;
    best_score = score;
    best = std::move(here);
  }
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    orders_[i].hypothesis += best[i].hypothesis;
    orders_[i].reference += best[i].reference;
    orders_[i].matches += best[i].matches;
  }
}

double ChrfSums::score() const { return score_of(orders_, beta_); }

std::vector<MetricValue> metric_values(const ChrfSums& sums) {
  return {{"chrf" + std::string(sums.word_orders(), '+'), sums.score(), "percent"}};
}

}  // namespace longspan
