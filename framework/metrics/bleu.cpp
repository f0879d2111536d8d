#include "framework/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "framework/core/error.h"
#include "framework/metrics/ngram_matches.h"
#include "framework/metrics/text.h"

namespace longspan {

namespace {

using Items = std::vector<std::uint32_t>;

std::string tokenized(std::string_view sentence, BleuTokens tokens) {
  const std::string_view text = without_trailing_space(sentence);
  if (tokens == BleuTokens::thirteen_a) return tokenize_13a(text);
  return tokens == BleuTokens::chinese ? tokenize_zh(text) : std::string(text);
}

// Maps the tokens of each text to shared indices.
std::vector<Items> items_of(std::span<const std::string_view> texts, BleuTokens tokens) {
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

// sacreBLEU's replacement of log(0).
double floored_log(double x) { return x == 0 ? -9999999999. : std::log(x); }

}  // namespace

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
  const std::vector<Items> items = items_of(texts, tokens);
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

}  // namespace longspan
