#include "framework/tokenizers/token_table.h"

#include <xxhash.h>

#include <utility>

namespace longspan {
namespace {

std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32) | 1U; }

}  // namespace

std::size_t TokenTable::slot_of(std::string_view text, std::uint64_t hash) const {
  const std::uint32_t tag = tag_of(hash);
  std::size_t at = hash & (slots_.size() - 1);
  while (slots_[at].tag != 0) {
    const Slot& slot = slots_[at];
    if (slot.tag == tag && std::string_view(texts_).substr(slot.begin, slot.bytes) == text) break;
    at = (at + 1) & (slots_.size() - 1);
  }
  return at;
}

void TokenTable::set(std::string_view text, std::int32_t id) {
  if (2 * (size_ + 1) > slots_.size()) grow();
  const std::uint64_t hash = XXH3_64bits(text.data(), text.size());
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.tag == 0) {
    slot = {tag_of(hash), id, texts_.size(), text.size()};
    texts_.append(text);
    ++size_;
  }
  slot.id = id;
}

std::int32_t TokenTable::find(std::string_view text) const {
  return slots_[slot_of(text, XXH3_64bits(text.data(), text.size()))].id;
}

void TokenTable::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  for (const Slot& slot : old) {
    if (slot.tag == 0) continue;
    const auto text = std::string_view(texts_).substr(slot.begin, slot.bytes);
    slots_[slot_of(text, XXH3_64bits(text.data(), text.size()))] = slot;
  }
}

void KeyTable::reserve(std::size_t count) {
  std::size_t wanted = slots_.size();
  while (wanted < 2 * count) wanted *= 2;
  if (wanted == slots_.size()) return;
  const std::vector<Entry> old = std::exchange(slots_, std::vector<Entry>(wanted));
  size_ = 0;
  for (const Entry& entry : old)
    if (entry.key != ~std::uint64_t{0}) set(entry.key, entry.first, entry.second);
}

void KeyTable::set(std::uint64_t key, std::uint32_t first, std::int32_t second) {
  if (2 * (size_ + 1) > slots_.size()) reserve(2 * (size_ + 1));
  std::size_t at = mixed(key) & (slots_.size() - 1);
  while (slots_[at].key != key && slots_[at].key != ~std::uint64_t{0})
    at = (at + 1) & (slots_.size() - 1);
  if (slots_[at].key != key) ++size_;
  slots_[at] = {key, first, second};
}

void PrefixTree::add(std::string_view text, std::int32_t id) {
  std::uint64_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t key = node << 8 | static_cast<unsigned char>(text[i]);
    const auto* const next = nodes_.find(key);
    const std::uint32_t number = next == nullptr ? count_++ : next->first;
    const std::int32_t before = next == nullptr ? -1 : next->second;
    nodes_.set(key, number, i + 1 == text.size() ? id : before);
    node = number;
  }
}

}  // namespace longspan
