// Hash tables for encoding: from strings and pairs of ids to ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Maps strings to ids. Open addressing; the strings are stored in one block of memory.
class TokenTable {
 public:
  TokenTable() : slots_(16) {}
  // Replaces an existing value.
  void set(std::string_view text, std::int32_t id);
  // Returns -1 where the text is absent.
  std::int32_t find(std::string_view text) const;
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // hash tag; 0: free
    std::int32_t id = -1;
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  std::size_t slot_of(std::string_view text, std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;
  std::string texts_;
  std::size_t size_ = 0;
};

// Maps 64-bit keys, except all ones, to two numbers.
class KeyTable {
 public:
  struct Entry {
    std::uint64_t key = ~std::uint64_t{0};
    std::uint32_t first = 0;
    std::int32_t second = -1;
  };
  KeyTable() : slots_(16) {}
  void reserve(std::size_t count);
  // Replaces an existing value.
  void set(std::uint64_t key, std::uint32_t first, std::int32_t second);
  // Returns null where the key is absent.
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

// A trie of strings by bytes, for prefix matching.
class PrefixTree {
 public:
  void add(std::string_view text, std::int32_t id);
  // Calls f(bytes, id) for each stored string that is a prefix of `text`, shortest first.
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
  KeyTable nodes_;  // (node, byte) to the next node, and the id of the string that ends there
  std::uint32_t count_ = 1;
};

}  // namespace longspan
