#include "framework/data/corpus/corpus.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>

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

// A single file retains its own hash, so that a list of one equals the file.
std::uint64_t hash_of_all(const std::vector<std::uint64_t>& hashes) {
  if (hashes.size() == 1) return hashes.front();
  return XXH3_64bits(hashes.data(), hashes.size() * sizeof(std::uint64_t));
}

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

Corpus::Corpus(CorpusFile file) : Corpus(file.path(), std::vector{file}) {}

Corpus::Corpus(const ConfigPath& path, const Tokenizer& tokenizer, const ProgressCallback& listener)
    : Corpus(CorpusFile(path, tokenizer, listener)) {}

Corpus::Corpus(std::shared_ptr<const InputFile> file,
               const Tokenizer& tokenizer,
               const ProgressCallback& listener)
    : Corpus(CorpusFile(std::move(file), tokenizer, listener)) {}

Corpus::Corpus(std::string path, std::vector<CorpusFile> files) {
  require(!files.empty(), "{}: expected at least one file, found none", path);
  Files all{std::move(path), std::move(files)};
  for (const CorpusFile& file : all.files) {
    all.first_tokens.push_back(all.first_tokens.back() + file.tokens());
    all.first_bytes.push_back(all.first_bytes.back() + file.bytes());
  }
  all_ = std::make_shared<const Files>(std::move(all));
}

bool Corpus::is_text() const { return std::ranges::all_of(files(), &CorpusFile::is_text); }

std::uint64_t Corpus::fingerprint() const {
  std::vector<std::uint64_t> hashes;
  for (const CorpusFile& file : files()) hashes.push_back(file.fingerprint());
  return hash_of_all(hashes);
}

std::optional<std::uint64_t> Corpus::full_hash(std::int64_t max_bytes) const {
  if (files().size() > 1 && bytes() > max_bytes) return std::nullopt;
  std::vector<std::uint64_t> hashes;
  for (const CorpusFile& file : files()) {
    const auto hash = file.full_hash(max_bytes);
    if (!hash) return std::nullopt;
    hashes.push_back(*hash);
  }
  return hash_of_all(hashes);
}

std::size_t Corpus::file_of(std::int64_t token) const {
  require(token >= 0 && token <= tokens(),
          "{}: token {} is out of range ({} tokens)",
          path(),
          token,
          tokens());
  const auto& first = all_->first_tokens;
  const auto after = std::ranges::upper_bound(first.begin(), first.end() - 1, token);
  return static_cast<std::size_t>(after - first.begin()) - 1;
}

CorpusPosition Corpus::seek(std::int64_t token) const {
  const std::size_t file = file_of(token);
  const CorpusPosition in_file = files()[file].seek(token - all_->first_tokens[file]);
  return {token, all_->first_bytes[file] + in_file.byte};
}

CorpusPosition Corpus::begin_at(std::int64_t token) const {
  const std::size_t file = file_of(token);
  const CorpusPosition in_file = files()[file].begin_at(token - all_->first_tokens[file]);
  return {token, all_->first_bytes[file] + in_file.byte};
}

CorpusPosition Corpus::read(CorpusPosition at, std::span<std::int64_t> out) const {
  require(at.token >= 0 && at.token + std::ssize(out) <= tokens(),
          "{}: tokens {} to {} are out of range ({} tokens)",
          path(),
          at.token,
          at.token + std::ssize(out),
          tokens());
  for (std::size_t file = file_of(at.token); !out.empty(); ++file) {
    const std::int64_t first = all_->first_tokens[file];
    const std::int64_t byte = all_->first_bytes[file];
    const auto count = static_cast<std::size_t>(
        std::min(std::ssize(out), all_->first_tokens[file + 1] - at.token));
    const CorpusPosition after =
        files()[file].read({at.token - first, at.byte - byte}, out.first(count));
    at = {first + after.token, byte + after.byte};
    out = out.subspan(count);
  }
  return at;
}

CorpusPosition Corpus::read_pairs(CorpusPosition at,
                                  std::span<std::int64_t> tokens,
                                  std::span<std::int64_t> targets,
                                  std::int64_t& target_bytes) const {
  require(!tokens.empty() && tokens.size() == targets.size(),
          "expected as many targets as tokens, found {} tokens and {} targets",
          tokens.size(),
          targets.size());
  const CorpusPosition second = read(at, tokens.first(1));
  const CorpusPosition after = read(second, tokens.subspan(1));
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  const CorpusPosition end = read(after, targets.last(1));
  if (is_text()) target_bytes += end.byte - second.byte;
  return after;
}

Corpus joined(const std::string& path, const std::vector<Corpus>& corpora) {
  std::vector<CorpusFile> files;
  for (const Corpus& corpus : corpora)
    files.insert(files.end(), corpus.files().begin(), corpus.files().end());
  return {path, std::move(files)};
}

void require_pairs(const Corpus& corpus) {
  if (corpus.tokens() < 2)
    throw DataError("{}: expected at least 2 tokens, found {}", corpus.path(), corpus.tokens());
}

void require_same_corpus(const Corpus& corpus, const Communicator& all) {
  if (all.size() == 1) return;
  const std::array<std::int64_t, 1> mine = {static_cast<std::int64_t>(corpus.fingerprint())};
  const Device device = Device::cpu();
  const Tensor least = Tensor::from<std::int64_t>(mine, {1}, device, MemoryTag::workspace);
  const Tensor most = least.clone(MemoryTag::workspace);
  all.all_reduce(least, Reduction::minimum);
  all.all_reduce(most, Reduction::maximum);
  if (least.span<std::int64_t>()[0] != most.span<std::int64_t>()[0])
    throw DataError(
        "{}: text or vocabulary differs between ranks (here {} bytes, {} tokens); copy the same "
        "file to every node",
        corpus.path(),
        corpus.bytes(),
        corpus.tokens());
}

DocumentList::DocumentList(Corpus corpus, std::int64_t piece)
    : corpus_(std::move(corpus)), piece_(piece) {
  require(piece >= 1, "expected chunks of at least 1 token, found {}", piece);
  for (const CorpusFile& file : corpus_.files())
    firsts_.push_back(firsts_.back() + (file.documents() > 0
                                            ? file.documents()
                                            : (file.tokens() + piece - 1) / piece));
}

Range DocumentList::at(std::int64_t document) const {
  require(document >= 0 && document < count(),
          "document {} is out of range ({} documents)",
          document,
          count());
  const auto after = std::ranges::upper_bound(firsts_, document);
  const auto index = static_cast<std::size_t>(after - firsts_.begin()) - 1;
  const CorpusFile& file = corpus_.files()[index];
  const std::int64_t first = corpus_.file_range(index).begin;
  const std::int64_t own = document - firsts_[index];
  if (file.documents() > 0)
    return {first + file.document_begin(own), first + file.document_begin(own + 1)};
  return {first + own * piece_, first + std::min((own + 1) * piece_, file.tokens())};
}

std::int64_t DocumentList::document_of(std::int64_t token) const {
  require(token >= 0 && token < corpus_.tokens(),
          "token {} is out of range ({} tokens)",
          token,
          corpus_.tokens());
  // Binary search for the last document that does not begin after the token.
  std::int64_t low = 0, high = count();
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (at(middle).begin <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace longspan
