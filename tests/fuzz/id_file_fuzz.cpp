// Files of token ids (data.format: tokens), and ids as text.
#include <algorithm>

#include "framework/data/corpus/corpus.h"
#include "framework/data/token_id_file.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_ids(const std::string& path, std::int64_t vocabulary, TokenDType bits) {
  const TokenIdFile file(std::make_shared<const InputFile>(path), vocabulary, bits);
  const CorpusFile corpus(file, Tokenizer::ids(vocabulary));
  corpus.fingerprint();
  std::vector<std::int64_t> ids(static_cast<std::size_t>(corpus.tokens()));
  corpus.read(corpus.seek(0), ids);
  for (const std::int64_t id : ids)
    expect(id >= 0 && id < vocabulary, "an id that is not in the vocabulary is given");
}

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  constexpr std::int64_t vocabularies[] = {1, 100, 65536, 70000, std::int64_t{1} << 40};
  const unsigned choice = take_byte(bytes);
  const std::int64_t vocabulary = vocabularies[choice % 5];
  is_read([&] {
    const auto ids = parse_token_ids(bytes, vocabulary, "a text");
    expect(parse_token_ids(format_token_ids(ids), vocabulary, "it again") == ids,
           "ids change as a text");
  });
  read_ids(folder.put("ids.bin", bytes), vocabulary, static_cast<TokenDType>(choice / 5 % 4));
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
