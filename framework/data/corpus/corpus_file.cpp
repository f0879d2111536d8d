#include "framework/data/corpus/corpus_file.h"

#include <xxhash.h>

#include <algorithm>
#include <array>

#include "framework/core/error.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/tokenization/character_scan.h"

namespace longspan {

namespace {

constexpr std::int64_t index_step = 65536;   // characters between index entries
constexpr std::int64_t piece_bytes = 16384;  // bytes read at a time

// Incremental XXH3.
class ByteHash {
 public:
  ByteHash() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }
  void add(std::string_view bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  std::uint64_t result() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace

CorpusFile::CorpusFile(const ConfigPath& path,
                       const Tokenizer& tokenizer,
                       const ProgressCallback& listener)
    : CorpusFile(open_text(path), tokenizer, listener) {}

CorpusFile::CorpusFile(std::shared_ptr<const InputFile> file,
                       const Tokenizer& tokenizer,
                       const ProgressCallback& listener)
    : file_(std::move(file)), tokenizer_(tokenizer) {
  require(!tokenizer_.needs_token_file(), "{}: a subword corpus requires its token file", path());
  if (tokenizer_.kind() == TokenizerKind::bytes) {
    tokens_ = file_->size();
  } else {
    index_characters(listener);
  }
}

CorpusFile::CorpusFile(std::shared_ptr<const InputFile> file,
                       const Tokenizer& tokenizer,
                       std::shared_ptr<const TokenFile> encoded,
                       bool has_documents)
    : file_(std::move(file)),
      tokenizer_(tokenizer),
      encoded_(std::move(encoded)),
      has_documents_(has_documents),
      tokens_(encoded_->tokens()) {}

CorpusFile::CorpusFile(const TokenIdFile& ids, const Tokenizer& tokenizer)
    : file_(ids.file()), tokenizer_(tokenizer), ids_(ids), tokens_(ids.tokens()) {}

void CorpusFile::index_characters(const ProgressCallback& listener) {
  ByteHash hash;
  for_each_character(
      *file_,
      listener,
      [this](char32_t code_point, std::int64_t offset) {
        tokenizer_.id_at(code_point, file_->path(), offset);
        if (tokens_ % index_step == 0) index_.push_back(offset);
        ++tokens_;
      },
      [&hash](std::string_view bytes) { hash.add(bytes); });
  hash_ = hash.result();
}

std::optional<std::uint64_t> CorpusFile::full_hash(std::int64_t max_bytes) const {
  if (hash_ || file_->size() > max_bytes) return hash_;
  constexpr std::int64_t at_once = std::int64_t{1} << 20;
  std::vector<char> buffer(static_cast<std::size_t>(std::min(at_once, file_->size())));
  ByteHash hash;
  for (std::int64_t at = 0; at < file_->size(); at += at_once) {
    const std::int64_t length = std::min(at_once, file_->size() - at);
    const auto part = std::span(buffer).first(static_cast<std::size_t>(length));
    file_->copy(at, part);
    hash.add({part.data(), part.size()});
  }
  return hash.result();
}

std::uint64_t CorpusFile::fingerprint() const {
  constexpr std::int64_t blocks = 256;
  constexpr std::int64_t block = 4096;
  std::vector<std::uint64_t> words = {static_cast<std::uint64_t>(file_->size()),
                                      tokenizer_.fingerprint()};
  if (ids_) words.push_back(static_cast<std::uint64_t>(ids_->id_bytes()));
  if (ids_ && ids_->documents() > 0) words.push_back(static_cast<std::uint64_t>(ids_->documents()));
  // Where tokens do not cover the raw bytes, the fingerprint includes how they were encoded.
  if (encoded_ && (has_documents_ || encoded_->bytes() != file_->size()))
    words.push_back(encoded_->fingerprint());
  std::array<char, block> buffer;
  const std::int64_t step = std::max(block, file_->size() / blocks);
  for (std::int64_t at = 0; at < file_->size(); at += step) {
    const auto length = static_cast<std::size_t>(std::min(block, file_->size() - at));
    file_->copy(at, std::span(buffer).first(length));
    words.push_back(XXH3_64bits(buffer.data(), length));
  }
  return XXH3_64bits(words.data(), words.size() * sizeof(std::uint64_t));
}

std::int64_t CorpusFile::documents() const {
  if (ids_) return ids_->documents();
  return has_documents_ ? encoded_->documents() : 0;
}

std::int64_t CorpusFile::document_begin(std::int64_t document) const {
  require(documents() > 0, "{}: has no documents", path());
  return ids_ ? ids_->document_begin(document) : encoded_->document_begin(document);
}

CorpusPosition CorpusFile::seek(std::int64_t token) const {
  require(token >= 0 && token <= tokens_,
          "{}: token {} is out of range ({} tokens)",
          path(),
          token,
          tokens_);
  if (ids_) return {token, token * ids_->id_bytes()};
  if (encoded_) return encoded_->seek(token);
  if (tokenizer_.kind() == TokenizerKind::bytes) return {token, token};
  if (token == tokens_) return {token, bytes()};
  CorpusPosition at{token / index_step * index_step,
                    index_[static_cast<std::size_t>(token / index_step)]};
  std::array<std::int64_t, 4096> skipped{};
  while (at.token < token) {
    const auto count = std::min<std::int64_t>(skipped.size(), token - at.token);
    at = read_characters(at, std::span(skipped).first(static_cast<std::size_t>(count)));
  }
  return at;
}

CorpusPosition CorpusFile::read(CorpusPosition at, std::span<std::int64_t> out) const {
  require(at.token >= 0 && at.token + static_cast<std::int64_t>(out.size()) <= tokens_,
          "{}: tokens {} to {} are out of range ({} tokens)",
          path(),
          at.token,
          at.token + static_cast<std::int64_t>(out.size()),
          tokens_);
  if (ids_) {
    ids_->read(at.token, out);
    return seek(at.token + std::ssize(out));
  }
  if (encoded_) return encoded_->read(at, out);
  return tokenizer_.kind() == TokenizerKind::bytes ? read_bytes(at, out) : read_characters(at, out);
}

CorpusPosition CorpusFile::read_bytes(CorpusPosition at, std::span<std::int64_t> out) const {
  std::array<char, piece_bytes> buffer;
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t count = std::min(buffer.size(), out.size() - done);
    file_->copy(at.byte, std::span(buffer).first(count));
    for (std::size_t i = 0; i < count; ++i) out[done + i] = static_cast<unsigned char>(buffer[i]);
    done += count;
    at.token += static_cast<std::int64_t>(count);
    at.byte += static_cast<std::int64_t>(count);
  }
  return at;
}

CorpusPosition CorpusFile::read_characters(CorpusPosition at, std::span<std::int64_t> out) const {
  std::array<char, piece_bytes> buffer;
  for (std::size_t done = 0; done < out.size();) {
    // A character has at most 4 bytes, so this reads at least one and rarely far too many.
    const auto wanted = static_cast<std::int64_t>(out.size() - done) * 4;
    const std::int64_t length = std::min({piece_bytes, wanted, bytes() - at.byte});
    if (length <= 0) throw DataError("{}: changed while reading", path());
    std::string_view text(buffer.data(), static_cast<std::size_t>(length));
    file_->copy(at.byte, std::span(buffer).first(text.size()));
    while (!text.empty() && done < out.size()) {
      const Utf8Character character = decode_utf8(text);
      const bool last = at.byte + static_cast<std::int64_t>(text.size()) == bytes();
      if (character.status == Utf8Status::incomplete && !last) break;
      if (character.status != Utf8Status::valid)
        throw_invalid_utf8(path(), at.byte, text, character);
      out[done++] = tokenizer_.id_at(character.code_point, path(), at.byte);
      ++at.token;
      at.byte += character.width;
      text.remove_prefix(static_cast<std::size_t>(character.width));
    }
  }
  return at;
}

}  // namespace longspan
