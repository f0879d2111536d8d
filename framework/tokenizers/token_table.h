// Tables that encoding looks up: texts and pairs of ids to ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Texts to ids. Open addressing; the texts lie in one block of memory.
class TokenTable {
 public:
  TokenTable() : slots_(16) {}
  // Replaces what the text had.
  void set(std::string_view text, std::int32_t id);
  // -1 where it has none.
  std::int32_t find(std::string_view text) const;
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // of the hash; 0: free
    std::int32_t id = -1;
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  std::size_t place_of(std::string_view text, std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;
  std::string texts_;
  std::size_t size_ = 0;
};

// Keys of 64 bits, none of which is all ones, to two numbers.
class KeyTable {
 public:
  struct Entry {
    std::uint64_t key = ~std::uint64_t{0};
    std::uint32_t first = 0;
    std::int32_t second = -1;
  };
  KeyTable() : slots_(16) {}
  void reserve(std::size_t count);
  // Replaces what the key had.
  void set(std::uint64_t key, std::uint32_t first, std::int32_t second);
  // Null where it has none.
  const Entry* find(std::uint64_t key) const {
    std::size_t at = mixed(key) & (slots_.size() - 1);
    while (slots_[at].key != key) {
      if (slots_[at].key == ~std::uint64_t{0}) return nullptr;
      at = (at + 1) & (slots_.size() - 1);
    }
    return &slots_[at];
  }

 private:
  static std::size_t mixed(std::uint64_t key) {
    key *= 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>(key ^ (key >> 32));
  }

  std::vector<Entry> slots_;
  std::size_t size_ = 0;
};

// Texts by their bytes, for what a text begins with.
class PrefixTree {
 public:
  void add(std::string_view text, std::int32_t id);
  // Calls f(bytes, id) for each text that `text` begins with, the shortest first.
  template <typename F>
  void for_each_prefix(std::string_view text, F&& f) const {
    std::uint64_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto* next = nodes_.find(node << 8 | static_cast<unsigned char>(text[i]));
      if (next == nullptr) return;
      node = next->first;
      if (next->second >= 0) f(i + 1, next->second);
    }
  }

 private:
  KeyTable nodes_;  // (node, byte) to the next node, and the id of the text that ends there
  std::uint32_t count_ = 1;
};

}  // namespace longspan
