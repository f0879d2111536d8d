// JSON in checkpoints: tokenizers and label names.
#include "framework/data/examples/label_set.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/interop/label_names.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_tokenizer(std::string_view text) {
  const Tokenizer tokenizer = Tokenizer::from_json(text, "tokenizer");
  expect(Tokenizer::from_json(tokenizer.to_json(), "again") == tokenizer, "a tokenizer changes");
  tokenizer.fingerprint();
  tokenizer.unknown_nats();
  const auto ids = tokenizer.encode("0 1 ab\n", "a text");
  for (const std::int64_t id : ids)
    expect(id >= 0 && id < tokenizer.vocabulary(), "a text becomes an id that is none");
  tokenizer.decode(ids);
}

void read_labels(std::string_view text) {
  const LabelSet labels = LabelSet::from_json(text, "labels");
  expect(LabelSet::from_json(labels.to_json(), "again") == labels, "labels change");
  for (std::int64_t id = 0; id < labels.size(); ++id)
    expect(labels.id_of(labels.name(id)) == id, "a label has another's id");
  labels.id_at("a label", "label", "a file");
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longspan;
  return fuzzing::fuzz(data, size, [](std::string_view text) {
    fuzzing::is_read([&] { fuzzing::read_tokenizer(text); });
    fuzzing::is_read([&] { fuzzing::read_labels(text); });
    fuzzing::is_read([&] {
      original_label_names({"a", "b (2)"}, std::string(text), "a checkpoint");
    });
  });
}
