// XXH3 with 128 bits: the hash of pieces, files and manifests.
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

  // 32 lower-case hexadecimal digits.
  std::string to_string() const;
  // Throws DataError, beginning with `place`, unless the text is what `to_string` prints.
  static Hash from_string(std::string_view text, const std::string& place);

  friend bool operator==(const Hash&, const Hash&) = default;
};

// The hash of bytes that come in parts.
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
