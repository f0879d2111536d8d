// XXH3-128: the hash of pieces, files and manifests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace longspan {

struct Hash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  // Returns 32 lowercase hexadecimal digits.
  std::string to_string() const;
  // Parses the output of `to_string`. Throws DataError, prefixed with `place`, for other text.
  static Hash from_string(std::string_view text, const std::string& place);

  friend bool operator==(const Hash&, const Hash&) = default;
};

// Incremental hash.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  void add(const void* bytes, std::size_t size);
  Hash result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Hash hash_of(std::string_view bytes);

}  // namespace longspan
