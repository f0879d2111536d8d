#include "framework/tasks/continuations.h"

#include <algorithm>

#include "framework/data/token_text.h"
#include "framework/decoding/generation.h"

namespace longspan {
namespace {

constexpr std::int64_t most_read = 32;
constexpr std::int64_t written = 64;

// The text of tokens that come after others.
std::string text_after(const Tokenizer& tokenizer,
                       std::span<const std::int64_t> before,
                       std::span<const std::int64_t> tokens) {
  TokenText text(tokenizer, before);
  Utf8Stream characters;
  std::string whole;
  for (const std::int64_t token : tokens) whole += characters.push(text.push(token));
  whole += characters.push(text.finish());
  return whole + characters.finish();
}

}  // namespace

std::vector<TextSample> continuations(const Model& model,
                                      const Corpus& corpus,
                                      const ContinuationOptions& options) {
  const std::int64_t read = std::min(most_read, corpus.tokens() - 1);
  const std::int64_t known = std::min(written, corpus.tokens() - read);
  std::vector<std::int64_t> beginning(static_cast<std::size_t>(read + known));
  corpus.read(corpus.seek(0), beginning);
  const std::span<const std::int64_t> all(beginning);
  const auto prompt = all.first(static_cast<std::size_t>(read));
  const Tokenizer& tokenizer = corpus.tokenizer();
  const auto found = generate(model,
                              prompt,
                              {.tokens = written,
                               .samples = options.samples,
                               .seed = options.seed,
                               .vocabulary = tokenizer.vocabulary(),
                               .segment = options.segment});
  const std::string input = text_after(tokenizer, {}, prompt);
  const std::string reference = text_after(tokenizer, prompt, all.subspan(prompt.size()));
  std::vector<TextSample> samples;
  for (const std::vector<std::int64_t>& tokens : found)
    samples.push_back({input, text_after(tokenizer, prompt, tokens), reference});
  return samples;
}

}  // namespace longspan
