#include "framework/environments/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool is_comment = false, in_word = false;
  for (const char letter : text) {
    if (letter == '#') is_comment = true;
    if (letter == '\n') is_comment = false;
    const bool is_of_word =
        !is_comment && std::string_view(" \t\r\n").find(letter) == std::string_view::npos;
    if (is_of_word && !in_word) words.emplace_back();
    if (is_of_word) words.back() += letter;
    in_word = is_of_word;
  }
  return words;
}

template <typename Named>
std::string names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& one : all) names.push_back(one.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const EnvironmentKind& parse_kind(const std::string& name, const std::string& place) {
  const auto kinds = environment_kinds();
  const auto found = std::ranges::find(kinds, name, &EnvironmentKind::name);
  if (found == kinds.end())
    throw DataError("{}: unknown environment {} (choices: {})",
                    place,
                    quote(name),
                    names_of(std::vector<EnvironmentKind>(kinds.begin(), kinds.end())));
  return *found;
}

std::optional<std::int64_t> number_of(const std::string& word) {
  std::int64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [read, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || read != end) return std::nullopt;
  return number;
}

}  // namespace

Episode Environment::episode(const Random& random) const {
  Episode episode;
  WorldState now = begin(random);
  const auto advise = guide(random);
  while (true) {
    episode.observations += observation(now);
    const ExpertAction advice = advise(now);
    episode.actions.push_back(advice.asked);
    if (act(now, advice.taken, random).ending != Termination::none) return episode;
  }
}

std::span<const EnvironmentKind> environment_kinds() {
  static const std::array all = {t_maze(), memory_maze(), numpad(), associative_recall()};
  return all;
}

Environment parse_environment(std::string_view text, const std::string& place) {
  const std::vector<std::string> words = words_of(text);
  if (words.empty())
    throw DataError("{}: expected the name of an environment and its parameters, found nothing",
                    place);
  const EnvironmentKind& kind = parse_kind(words.front(), place);
  EnvironmentNumbers numbers;
  for (std::size_t i = 1; i < words.size(); i += 2) {
    const auto known = std::ranges::find(kind.numbers, words[i], &EnvironmentNumber::name);
    if (known == kind.numbers.end())
      throw DataError("{}: unknown parameter {} of {} (choices: {})",
                      place,
                      quote(words[i]),
                      kind.name,
                      names_of(kind.numbers));
    const std::string found = i + 1 < words.size() ? words[i + 1] : "";
    const std::optional<std::int64_t> number = number_of(found);
    if (!number || *number < known->least || *number > known->most)
      throw DataError("{}: {}: expected a number from {} to {}, found {}",
                      place,
                      words[i],
                      known->least,
                      known->most,
                      quote(found));
    if (!numbers.emplace(words[i], *number).second)
      throw DataError("{}: duplicate parameter {}", place, words[i]);
  }
  for (const EnvironmentNumber& number : kind.numbers) numbers.emplace(number.name, number.usual);
  return kind.make(numbers);
}

std::vector<std::int64_t> neighbors_of(std::int64_t cell, std::int64_t side) {
  std::vector<std::int64_t> result;
  const std::int64_t row = cell / side, column = cell % side;
  if (row > 0) result.push_back(cell - side);
  if (column > 0) result.push_back(cell - 1);
  if (column + 1 < side) result.push_back(cell + 1);
  if (row + 1 < side) result.push_back(cell + side);
  return result;
}

}  // namespace longspan
