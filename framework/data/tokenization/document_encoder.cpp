#include "framework/data/tokenization/document_encoder.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/token_id_file.h"
#include "framework/data/tokenization/character_scan.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

using Sink = std::function<void(const SubwordToken&)>;

void require_utf8(std::string_view text, std::string_view place, std::int64_t offset) {
  for_each_character(text, offset, true, place, [](char32_t, std::int64_t) {});
}

std::int64_t utf8_bytes(char32_t code_point) {
  return code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
}

void encode_lines(const SentencePieceModel& model, std::string_view text, const Sink& sink) {
  std::size_t used = 0;
  for (const LineChunk& line : split_lines(text, true, used)) {
    const auto tokens = model.encode_line(line.text);
    for (const SubwordToken& token : tokens) sink(token);
    if (tokens.empty()) sink({no_token, std::ssize(line.text)});
    if (line.ends_line) sink({model.line_end(), 1});
  }
}

void encode_pieces(const SentencePieceModel& model,
                   std::string_view text,
                   bool is_continuation,
                   const Sink& sink) {
  std::int64_t held = 0, given = 0;  // bytes not yet assigned; bytes of tokens so far
  model.encode(text, is_continuation, [&](const SubwordToken& token) {
    held += token.bytes;
    given += token.bytes;
    const std::int64_t bytes = std::min(held, max_token_bytes);
    sink({token.id, bytes});
    held -= bytes;
  });
  held += std::ssize(text) - given;
  if (held > 0) sink({no_token, held});
}

void encode_full(const JsonTokenizer& model,
                 std::string_view text,
                 std::string_view place,
                 std::int64_t begin,
                 const Sink& sink) {
  // Bytes before `at` are assigned to tokens. A very long token leaves the rest to its successors.
  std::int64_t at = begin;
  model.encode(
      text,
      place,
      [&at, &sink](const JsonToken& token) {
        const std::int64_t bytes = std::min(token.end - at, max_token_bytes);
        sink({token.id, bytes});
        at += bytes;
      },
      begin);
  const std::int64_t end = begin + std::ssize(text);
  if (at < end) sink({no_token, end - at});
}

// A number covers its digits. Blanks before it have no token.
void encode_ids(std::string_view text,
                std::int64_t vocabulary,
                std::string_view place,
                const Sink& sink) {
  std::size_t given = 0;
  const auto skip_to = [&](std::size_t at) {
    if (at > given) sink({no_token, static_cast<std::int64_t>(at - given)});
    given = at;
  };
  for_each_id(text, vocabulary, place, [&](std::int64_t id, std::size_t begin, std::size_t end) {
    skip_to(begin);
    const std::size_t bytes = std::min(end - begin, static_cast<std::size_t>(max_token_bytes));
    sink({id, static_cast<std::int64_t>(bytes)});
    given += bytes;
  });
  skip_to(text.size());
}

}  // namespace

void encode_document(const Tokenizer& tokenizer,
                     std::string_view text,
                     std::string_view place,
                     std::int64_t offset,
                     bool is_continuation,
                     const Sink& sink) {
  if (tokenizer.kind() == TokenizerKind::bytes) {
    for (const char byte : text) sink({static_cast<unsigned char>(byte), 1});
    return;
  }
  if (tokenizer.kind() == TokenizerKind::characters) {
    for_each_character(text, offset, true, place, [&](char32_t code_point, std::int64_t at) {
      sink({tokenizer.id_at(code_point, place, at), utf8_bytes(code_point)});
    });
    return;
  }
  if (tokenizer.kind() == TokenizerKind::ids)
    return encode_ids(text, tokenizer.vocabulary(), place, sink);
  require_utf8(text, place, offset);
  if (const JsonTokenizer* const model = tokenizer.json_tokenizer())
    encode_full(*model, text, place, is_continuation ? std::max<std::int64_t>(offset, 1) : 0, sink);
  else if (const SentencePieceModel* const pieces = tokenizer.subword_model(); pieces == nullptr)
    throw Failure("tokenizer type {} does not support encoding documents",
                  name_of(tokenizer.kind()));
  else if (pieces->encodes_lines())
    encode_lines(*pieces, text, sink);
  else
    encode_pieces(*pieces, text, is_continuation, sink);
}

std::int64_t bytes_of_tokens(const Tokenizer& tokenizer,
                             std::string_view text,
                             std::int64_t count,
                             std::string_view place) {
  std::int64_t tokens = 0, bytes = 0, unseen = 0;
  encode_document(tokenizer, text, place, 0, false, [&](const SubwordToken& token) {
    if (tokens == count) return;
    unseen += token.bytes;
    if (token.id == no_token) return;
    bytes += std::exchange(unseen, 0);
    ++tokens;
  });
  return bytes;
}

void DocumentEncoder::begin() {
  end();
  is_open_ = true;
}

void DocumentEncoder::push(SubwordToken token) {
  if (token.id == no_token) {
    unseen_ += token.bytes;
    return;
  }
  if (held_) writer_.add(*held_);
  if (!has_tokens_) writer_.begin_document();
  has_tokens_ = true;
  consume_unseen(token);
  held_ = token;
}

void DocumentEncoder::end() {
  if (!is_open_) return;
  if (has_tokens_) {
    flush();
    if (end_of_text_) writer_.add({*end_of_text_, 0});
  } else {
    ++left_out_;
  }
  unseen_ = 0;
  is_open_ = has_tokens_ = false;
}

void DocumentEncoder::flush() {
  if (held_) {
    consume_unseen(*held_);
    writer_.add(*held_);
    held_.reset();
  }
}

// Bytes above the limit of one token are left for the next one.
void DocumentEncoder::consume_unseen(SubwordToken& token) {
  const std::int64_t bytes = std::min(unseen_, max_token_bytes - token.bytes);
  token.bytes += bytes;
  unseen_ -= bytes;
}

}  // namespace longspan
