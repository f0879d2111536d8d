#include "framework/data/file_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace longspan {

std::uint64_t hash_of_file(const InputFile& file, const ProgressCallback& listener) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                             XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  std::vector<char> buffer(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < file.size();) {
    const auto length = std::min<std::int64_t>(std::ssize(buffer), file.size() - at);
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(length));
    file.copy(at, bytes);
    XXH3_64bits_update(hash.get(), bytes.data(), bytes.size());
    at += length;
    if (listener) listener({file.path(), at, file.size()});
  }
  return XXH3_64bits_digest(hash.get());
}

}  // namespace longspan
