// Token caches of a corpus: unchanged, and with a valid hash.
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "framework/data/token_file.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

constexpr std::size_t header_bytes = 128;
constexpr std::size_t counts_at = 64;    // counts of tokens, documents and text
constexpr std::size_t content_at = 120;  // the hash

TokenFileKey key_of(std::int64_t vocabulary) {
  return {.text = 1, .tokenizer = 2, .form = 3, .file_bytes = 4, .vocabulary = vocabulary};
}

// Returns the file with the requested key and a valid hash.
std::string sealed(std::string_view bytes, const TokenFileKey& key) {
  std::string file(bytes);
  std::memcpy(file.data() + counts_at - sizeof(key), &key, sizeof(key));
  XXH3_state_t* const hash = XXH3_createState();
  XXH3_64bits_reset(hash);
  XXH3_64bits_update(hash, file.data() + header_bytes, file.size() - header_bytes);
  XXH3_64bits_update(hash, file.data() + counts_at, content_at - counts_at);
  const std::uint64_t content = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  std::memcpy(file.data() + content_at, &content, sizeof(content));
  return file;
}

void read_tokens(const std::string& path, const TokenFileKey& key) {
  const TokenFile file(path, key);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(file.tokens()));
  const CorpusPosition end = file.read(file.seek(0), ids);
  expect(end.byte - file.seek(0).byte <= file.tokens() * max_token_bytes, "tokens are too long");
  for (const std::int64_t id : ids)
    expect(id >= 0 && id < key.vocabulary, "an id that is not in the vocabulary is given");
  std::int64_t before = 0;
  for (std::int64_t document = 0; document <= file.documents(); ++document) {
    const std::int64_t begin = file.document_begin(document);
    expect(begin >= before && begin <= file.tokens(), "a document begins before the one before it");
    before = begin;
  }
  for (std::int64_t token = 0; token <= file.tokens(); token += 1 + file.tokens() / 4)
    file.seek(token);
  std::vector<SubwordToken> tokens(std::min<std::size_t>(ids.size(), 16));
  file.read_tokens(file.tokens() - std::ssize(tokens), tokens);
}

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  const TokenFileKey key = key_of(take_byte(bytes) % 2 == 0 ? 100 : 70000);
  is_read([&] { read_tokens(folder.put("raw.tokens", bytes), key); });
  if (bytes.size() >= header_bytes)
    read_tokens(folder.put("sealed.tokens", sealed(bytes, key)), key);
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
