#include "checkpoints/hash.h"

#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY  // for the size of the state
#include <xxhash.h>

#include <charconv>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {

std::string Hash::to_string() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash Hash::from_string(std::string_view text, const std::string& place) {
  Hash hash;
  if (text.size() == 32) {
    std::from_chars(text.data(), text.data() + 16, hash.high, 16);
    std::from_chars(text.data() + 16, text.data() + 32, hash.low, 16);
  }
  // The round trip rejects capitals, signs and all other non-digits.
  if (hash.to_string() != text)
    throw DataError("{}: expected a hash of 32 hexadecimal digits, found {}", place, quote(text));
  return hash;
}

struct Hasher::State {
  XXH3_state_t hash;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }

Hasher::~Hasher() = default;

void Hasher::add(const void* bytes, std::size_t size) {
  if (size > 0) XXH3_128bits_update(&state_->hash, bytes, size);
}

Hash Hasher::result() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  return {hash.high64, hash.low64};
}

Hash hash_of(std::string_view bytes) {
  Hasher hasher;
  hasher.add(bytes.data(), bytes.size());
  return hasher.result();
}

}  // namespace longspan
