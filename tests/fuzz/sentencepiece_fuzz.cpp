// SentencePiece models. First byte: length of the text for the model, which follows.
#include <algorithm>

#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/data/tokenization/tokenizer.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_line(const SentencePieceModel& model, std::string_view line) {
  std::vector<std::int64_t> ids;
  std::int64_t bytes = 0;
  for (const SubwordToken& token : model.encode_line(line)) {
    expect(token.id >= 0 && token.id < model.vocabulary() && token.bytes >= 0,
           "a line becomes a token that the model does not have");
    ids.push_back(token.id);
    bytes += token.bytes;
  }
  expect(ids.empty() || bytes == std::ssize(line), "the tokens of a line stand for other bytes");
  model.decode_line(ids);
  for (const SubwordSegmentation& each : model.segmentations(line, 4))
    for (const std::int64_t id : each.ids)
      expect(id >= 0 && id < model.vocabulary(), "a segmentation has no token of the model");
}

void read_model(std::string_view bytes) {
  const std::size_t length = take_byte(bytes);
  const std::string_view text = bytes.substr(0, length);
  bytes.remove_prefix(text.size());
  const SentencePieceModel model(std::string(bytes), "a.model");
  model.sentence_begin();
  model.sentence_end();
  for (std::int64_t id = 0; id < std::min<std::int64_t>(model.vocabulary(), 300); ++id)
    model.id_of(model.piece(id));
  expect(model.line_end() >= 0 && model.line_end() < model.vocabulary(), "a line has no end");
  const Tokenizer tokenizer = Tokenizer::subwords(model);
  is_read([&] { tokenizer.decode(tokenizer.encode(text, "a text")); });
  is_read([&] { read_line(model, "a line of words, 12"); });
  // Texts are decoded as UTF-8 before the model reads them.
  if (tokenizer.kind() == TokenizerKind::sentencepiece)
    is_read([&] { Tokenizer::from_json(tokenizer.to_json(), "tokenizer.json"); });
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_model);
}
