// tokenizer.json. After 0x1E: a text.
#include "tests/fuzz/json_tokenizer_texts.h"

namespace longspan::fuzzing {
namespace {

void read_tokenizer(std::string_view bytes) {
  const JsonTokenizer tokenizer(std::string(take_part(bytes)), "tokenizer.json");
  read_texts(tokenizer, bytes);
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_tokenizer);
}
