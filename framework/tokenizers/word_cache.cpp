#include "framework/tokenizers/word_cache.h"

#include <xxhash.h>

namespace longspan {
namespace {

constexpr std::size_t slots = std::size_t{1} << 18;

}  // namespace

WordCache::WordCache() : slots_(slots) {}

std::span<const WordToken> WordCache::encode(std::string_view word, const WordModel& model) {
  if (2 * words_ > slots) *this = WordCache();
  const std::uint64_t hash = XXH3_64bits(word.data(), word.size()) | 1;
  std::size_t at = (hash >> 1) & (slots - 1);
  for (; slots_[at].hash != 0; at = (at + 1) & (slots - 1)) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && std::string_view(texts_).substr(slot.text, slot.bytes) == word)
      return std::span(tokens_).subspan(slot.tokens, slot.count);
  }
  const std::size_t begin = tokens_.size();
  model.encode(word, tokens_);
  slots_[at] = {hash,
                static_cast<std::uint32_t>(texts_.size()),
                static_cast<std::uint32_t>(begin),
                static_cast<std::uint16_t>(word.size()),
                static_cast<std::uint16_t>(tokens_.size() - begin)};
  texts_.append(word);
  ++words_;
  return std::span(tokens_).subspan(begin);
}

}  // namespace longspan
