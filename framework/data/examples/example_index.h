// Offsets and lengths of the examples of a file, 8 bytes an example.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

class ExampleIndex {
 public:
  static constexpr std::int64_t max_offset = (std::int64_t{1} << 40) - 1;
  static constexpr std::int64_t max_tokens = (std::int64_t{1} << 24) - 1;

  // Appends an example that begins at this byte. Throws DataError, prefixed with `place`, when a
  // value does not fit.
  void add(std::int64_t offset, std::int64_t tokens, std::string_view place);
  // Sets the end of the last example.
  void finish(std::int64_t end) { end_ = end; }

  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  // Returns the first byte of an example; it ends where the next one begins.
  std::int64_t begin(std::int64_t example) const {
    return static_cast<std::int64_t>(at(example).offset);
  }
  std::int64_t end(std::int64_t example) const {
    return example + 1 < size() ? begin(example + 1) : end_;
  }
  std::int64_t tokens(std::int64_t example) const {
    return static_cast<std::int64_t>(at(example).tokens);
  }

  // Serializes the index for other ranks of an equal machine architecture, and back.
  std::string bytes() const;
  static ExampleIndex from_bytes(std::string_view bytes);

 private:
  struct Entry {
    std::uint64_t offset : 40;
    std::uint64_t tokens : 24;
  };
  static_assert(sizeof(Entry) == 8);
  const Entry& at(std::int64_t example) const {
    return entries_[static_cast<std::size_t>(example)];
  }

  std::vector<Entry> entries_;
  std::int64_t end_ = 0;
};

}  // namespace longspan
