// Labeled texts.
#include "framework/data/examples/label_examples.h"
#include "tests/fuzz/example_rows.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  const std::string path = folder.put("labels.tsv", bytes);
  const LabelSet labels = learn_labels(path, {}).labels;
  expect(LabelSet::from_json(labels.to_json(), "labels") == labels, "labels change as JSON");
  read_rows(*open_labels(path, labels, Tokenizer(), {}));
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
