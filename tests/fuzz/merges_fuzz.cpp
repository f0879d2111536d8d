// vocab.json and merges.txt, as for GPT-2 and CLIP. After another 0x1E: a text.
#include "tests/fuzz/json_tokenizer_texts.h"

namespace longspan::fuzzing {
namespace {

void read_files(std::string_view bytes) {
  const std::string_view vocabulary = take_part(bytes);
  const std::string_view merges = take_part(bytes);
  const std::string json = json_of_merges(vocabulary, "vocab.json", merges, "merges.txt");
  read_texts(JsonTokenizer(json, "merges.txt"), bytes);
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_files);
}
