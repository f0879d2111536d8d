// Tagged words: two columns, or CoNLL-U.
#include "framework/data/examples/tagged_words.h"
#include "tests/fuzz/example_rows.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  const unsigned choice = take_byte(bytes);
  const auto columns = static_cast<TagColumns>(choice % 3);
  const std::string path = folder.put("tags.txt", bytes);
  for_each_sentence(InputFile(path), columns, {}, [](const TaggedSentence& sentence) {
    expect(!sentence.words.empty() && sentence.words.size() == sentence.lines.size(),
           "a sentence has words without lines");
  });
  // Starts a thread, which is slow.
  if (choice % 2 == 0) return;
  const LabelSet tags = learn_tags(path, columns, {}).labels;
  read_rows(*open_tags(path, columns, tags, Tokenizer(), {}));
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
