#include "framework/tasks/continuations.h"

#include <algorithm>

#include "framework/data/tokenization/text_streamer.h"
#include "framework/decoding/generation.h"

namespace longspan {
namespace {

constexpr std::int64_t max_read = 32;
constexpr std::int64_t written = 64;

// Returns the text of tokens that follow others.
std::string text_after(const Tokenizer& tokenizer,
                       std::span<const std::int64_t> before,
                       std::span<const std::int64_t> tokens) {
  TextStreamer text(tokenizer, before);
  Utf8Stream characters;
  std::string whole;
  for (const std::int64_t token : tokens) whole += characters.push(text.push(token));
  whole += characters.push(text.finish());
  return whole + characters.finish();
}

// Returns whether a byte token continues a UTF-8 character.
bool continues_character(const Tokenizer& tokenizer, std::int64_t token) {
  return tokenizer.kind() == TokenizerKind::bytes && (token & 0xC0) == 0x80;
}

}  // namespace

std::vector<TextSample> continuations(const Model& model,
                                      const Corpus& corpus,
                                      const ContinuationOptions& options) {
  const std::int64_t read = std::min(max_read, corpus.tokens() - 1);
  const std::int64_t known = std::min(written, corpus.tokens() - read);
  const std::int64_t last = corpus.tokens() - read - known;
  const Tokenizer& tokenizer = corpus.tokenizer();
  std::vector<std::int64_t> passage(static_cast<std::size_t>(read + known));
  const std::span<const std::int64_t> all(passage);
  const auto prompt = all.first(static_cast<std::size_t>(read));
  std::vector<TextSample> samples;
  for (std::int64_t i = 0; i < options.samples; ++i) {
    std::int64_t begin = last * i / options.samples;
    corpus.read(corpus.seek(begin), passage);
    constexpr int max_skipped = 3;  // continuation bytes of a character
    for (int k = 0; k < max_skipped && begin < last; ++k) {
      if (!continues_character(tokenizer, passage.front())) break;
      corpus.read(corpus.seek(++begin), passage);
    }
    const auto found = generate(model,
                                prompt,
                                {.tokens = written,
                                 .samples = 1,
                                 .seed = options.seed + static_cast<std::uint64_t>(i),
                                 .vocabulary = tokenizer.vocabulary(),
                                 .segment = options.segment});
    samples.push_back({text_after(tokenizer, {}, prompt),
                       text_after(tokenizer, prompt, found.front()),
                       text_after(tokenizer, prompt, all.subspan(prompt.size()))});
  }
  return samples;
}

}  // namespace longspan
