#include "launch/prompt_text.h"

#include <algorithm>

#include "framework/core/byte_text.h"
#include "framework/core/error.h"
#include "framework/data/text_input.h"
#include "framework/runs/reading.h"
#include "launch/command.h"

namespace longspan {

namespace {

std::string whole(const InputFile& file) {
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.copy(0, text);
  return text;
}

}  // namespace

PromptText::PromptText(std::string words, const std::string& file) : words_(std::move(words)) {
  if (file.empty()) return;
  file_ = open_plain_text(file);
  if (file_->size() > most_prompt_bytes)
    throw DataError(
        "{}: has {}; a prompt has at most {} ({} MiB): take the end of it, as with tail -c {}M",
        file,
        byte_text(static_cast<double>(file_->size())),
        byte_text(static_cast<double>(most_prompt_bytes)),
        most_prompt_bytes >> 20,
        most_prompt_bytes >> 20);
}

Prompt PromptText::prompt(const Tokenizer& tokenizer, const Session& session) {
  const bool is_ids = tokenizer.kind() == TokenizerKind::ids;
  if (!file_ || is_ids || tokenizer.needs_token_file()) {
    tokens_ = file_ ? tokenizer.encode(whole(*file_), file_->path())
                    : tokenizer.encode(words_, "the prompt");
    if (is_ids && tokens_.empty())
      throw ConfigurationError(
          "the prompt has no token; data.tokenizer is ids, so it is numbers of tokens, 0 to {}, "
          "with blanks between them, as in --prompt \"17 4\"",
          tokenizer.vocabulary() - 1);
    return {std::ssize(tokens_), [this](std::int64_t begin, std::span<std::int64_t> out) {
              std::copy_n(tokens_.begin() + begin, out.size(), out.begin());
            }};
  }
  const Corpus& corpus = corpus_.emplace(file_, tokenizer);
  const ScanListener listener =
      say_reading([&session](const std::string& sentence) { inform(session, sentence); });
  return {corpus.tokens(),
          [&corpus, listener, at = CorpusPosition()](std::int64_t begin,
                                                     std::span<std::int64_t> out) mutable {
            if (at.token != begin) at = corpus.seek(begin);
            at = corpus.read(at, out);
            listener({corpus.path(), at.byte, corpus.bytes()});
          }};
}

void PromptText::print(const Session& session) const {
  if (!file_) return longspan::print(session, words_);
  constexpr std::int64_t most = 1 << 20;
  for (std::int64_t at = 0; at < file_->size();) {
    std::string piece(static_cast<std::size_t>(std::min(most, file_->size() - at)), '\0');
    file_->copy(at, piece);
    longspan::print(session, piece);
    at += std::ssize(piece);
  }
}

}  // namespace longspan
