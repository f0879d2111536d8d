#include "launch/cli/prompt_text.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/text_input.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/training_loop/progress.h"
#include "launch/cli/command.h"

namespace longspan {

namespace {

constexpr const char* newline = "\n";

// Whether the tokens decode to exactly this text.
bool stands_for(const Tokenizer& tokenizer, const std::string& text) {
  try {
    const std::vector<std::int64_t> ids = tokenizer.encode(text, "the first token");
    return !ids.empty() && tokenizer.decode(ids) == text;
  } catch (const DataError&) {
    return false;  // an unsupported character
  }
}

// Returns a newline, a space, or the first token that round-trips; "" if there is none.
std::string first_text(const Tokenizer& tokenizer) {
  for (const char* const text : {newline, " "})
    if (stands_for(tokenizer, text)) return text;
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  for (std::int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (model != nullptr && model->is_special(id)) continue;
    const std::string text = tokenizer.decode({&id, 1});
    if (!text.empty() && stands_for(tokenizer, text)) return text;
  }
  return "";
}

std::string whole(const InputFile& file) {
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.copy(0, text);
  return text;
}

}  // namespace

PromptText::PromptText(std::optional<std::string> words, const std::string& file)
    : words_(std::move(words)) {
  if (file.empty()) return;
  file_ = open_plain_text(file);
  if (file_->size() > max_prompt_bytes)
    throw DataError(
        "{}: expected a prompt of at most {} ({} MiB), found {}; shorten it with tail -c {}M",
        file,
        format_bytes(static_cast<double>(max_prompt_bytes)),
        max_prompt_bytes >> 20,
        format_bytes(static_cast<double>(file_->size())),
        max_prompt_bytes >> 20);
}

void PromptText::begin_document(const Tokenizer& tokenizer,
                                const Session& session,
                                std::optional<std::int64_t> begin) {
  words_ = "";
  if (begin) {
    tokens_ = {*begin};
    return;
  }
  if (tokenizer.kind() == TokenizerKind::ids)
    throw ConfigurationError(
        "longspan generate: data.tokenizer.type: none requires a prompt; pass token ids from 0 to "
        "{}, as in --prompt \"17 4\", or set data.documents.end_token",
        tokenizer.vocabulary() - 1);
  const std::string found = first_text(tokenizer);
  if (found.empty())
    throw ConfigurationError(
        "longspan generate: expected a prompt, as no token of the vocabulary can begin a text; "
        "pass --prompt or --prompt-file");
  tokens_ = tokenizer.encode(found, "the first token");
  words_ = found;
  if (found != newline)
    inform(session,
           fmt::format("the vocabulary has no newline: the text begins with {}; pass --prompt to "
                       "change it",
                       quote(found)));
}

Prompt PromptText::prompt(const Tokenizer& tokenizer,
                          const Session& session,
                          std::optional<std::int64_t> first) {
  const bool is_ids = tokenizer.kind() == TokenizerKind::ids;
  if (!file_ || is_ids || tokenizer.needs_token_file()) {
    if (file_)
      tokens_ = tokenizer.encode(whole(*file_), file_->path());
    else if (words_)
      tokens_ = tokenizer.encode(*words_, "the prompt");
    else
      begin_document(tokenizer, session, first);
    if (is_ids && tokens_.empty())
      throw ConfigurationError(
          "expected token ids from 0 to {} separated by blanks, as in --prompt \"17 4\", found an "
          "empty prompt (data.tokenizer.type: none)",
          tokenizer.vocabulary() - 1);
    return {std::ssize(tokens_), [this](std::int64_t begin, std::span<std::int64_t> out) {
              std::copy_n(tokens_.begin() + begin, out.size(), out.begin());
            }};
  }
  const Corpus& corpus = corpus_.emplace(file_, tokenizer);
  const ProgressCallback listener =
      throttled_progress([&session](const std::string& sentence) { inform(session, sentence); });
  return {corpus.tokens(),
          [&corpus, listener, at = CorpusPosition()](std::int64_t begin,
                                                     std::span<std::int64_t> out) mutable {
            if (at.token != begin) at = corpus.seek(begin);
            at = corpus.read(at, out);
            listener({corpus.path(), at.byte, corpus.bytes()});
          }};
}

void PromptText::print(const Session& session) const {
  if (!file_) return longspan::print(session, words_.value_or(""));
  constexpr std::int64_t most = 1 << 20;
  for (std::int64_t at = 0; at < file_->size();) {
    std::string piece(static_cast<std::size_t>(std::min(most, file_->size() - at)), '\0');
    file_->copy(at, piece);
    longspan::print(session, piece);
    at += std::ssize(piece);
  }
}

}  // namespace longspan
