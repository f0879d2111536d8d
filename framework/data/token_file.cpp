#include "framework/data/token_file.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "framework/core/error.h"
#include "framework/core/system.h"
#include "framework/data/atomic_file.h"
#include "framework/data/file_values.h"

namespace longspan {

namespace {

// A header, then blocks of 65,536 tokens: text offset of the block, ids, and text bytes of each
// token. The last block may be shorter. The first token of each document follows, as 64 bits.
constexpr std::int64_t block_tokens = 65536;
constexpr std::array<char, 16> magic = {"longspan tokens"};
constexpr std::uint64_t token_file_version = 2;

struct Header {
  std::array<char, 16> name = magic;
  std::uint64_t version = token_file_version;
  TokenFileKey key = {};
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;
  TokenFileEnd end = {};
  std::uint64_t content = 0;  // XXH3 of the data after the header and of the counts above
};
static_assert(sizeof(Header) == 128);
static_assert(std::has_unique_object_representations_v<Header>);
constexpr std::int64_t bytes_of_header = sizeof(Header);

std::int64_t id_bytes_of(std::int64_t vocabulary) { return vocabulary <= 65536 ? 2 : 4; }

// Returns the offset of the document table.
std::int64_t bytes_before_documents(std::int64_t tokens, std::int64_t id_bytes) {
  const std::int64_t blocks = (tokens + block_tokens - 1) / block_tokens;
  return bytes_of_header + blocks * std::int64_t{sizeof(std::int64_t)} +
         tokens * (id_bytes + std::int64_t{sizeof(std::uint16_t)});
}

void add_counts(XXH3_state_t* hash, const Header& header) {
  XXH3_64bits_update(hash, &header.tokens, offsetof(Header, content) - offsetof(Header, tokens));
}

template <typename T>
std::span<const char> bytes_of(const T* values, std::size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

}  // namespace

struct TokenFileWriter::State {
  SpillBuffer begins;
  AtomicFile file;
  Header header;
  XXH3_state_t* hash = XXH3_createState();
  std::int64_t block_byte = 0;
  std::int64_t byte = 0;
  std::vector<std::uint32_t> ids;
  std::vector<std::uint16_t> widths;

  explicit State(const std::filesystem::path& path) : begins(path.parent_path()), file(path) {
    XXH3_64bits_reset(hash);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(hash); }

  void write(std::span<const char> bytes) {
    XXH3_64bits_update(hash, bytes.data(), bytes.size());
    file.write(bytes);
  }
  void write_block();
};

void TokenFileWriter::State::write_block() {
  if (ids.empty()) return;
  write(bytes_of(&block_byte, 1));
  if (id_bytes_of(header.key.vocabulary) == 2) {
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    write(bytes_of(narrow.data(), narrow.size()));
  } else {
    write(bytes_of(ids.data(), ids.size()));
  }
  write(bytes_of(widths.data(), widths.size()));
  ids.clear();
  widths.clear();
  block_byte = byte;
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, const TokenFileKey& key)
    : state_(std::make_unique<State>(path)) {
  state_->header.key = key;
  // Reserves space. The header is complete only at the end.
  state_->file.write(bytes_of(&state_->header, 1));
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::add(const SubwordToken& token) {
  State& state = *state_;
  if (token.bytes > max_token_bytes)
    throw DataError(
        "a token covers {} bytes before byte {} of the text, which exceeds {}; use a model that "
        "preserves spaces",
        token.bytes,
        state.byte + token.bytes,
        max_token_bytes);
  state.ids.push_back(static_cast<std::uint32_t>(token.id));
  state.widths.push_back(static_cast<std::uint16_t>(token.bytes));
  state.byte += token.bytes;
  ++state.header.tokens;
  if (static_cast<std::int64_t>(state.ids.size()) == block_tokens) state.write_block();
}

void TokenFileWriter::begin_document() {
  state_->begins.add(static_cast<std::uint64_t>(state_->header.tokens));
}

std::int64_t TokenFileWriter::tokens() const { return state_->header.tokens; }

std::int64_t TokenFileWriter::bytes() const { return state_->byte; }

void TokenFileWriter::finish(const TokenFileEnd& end) {
  State& state = *state_;
  state.write_block();
  state.header.documents = state.begins.size();
  state.begins.for_each([&state](std::span<const std::uint64_t> begins) {
    state.write(bytes_of(begins.data(), begins.size()));
  });
  state.header.text_bytes = state.byte;
  state.header.end = end;
  add_counts(state.hash, state.header);
  state.header.content = XXH3_64bits_digest(state.hash);
  state.file.write_begin(bytes_of(&state.header, 1));
  state.file.finish();
}

TokenFile::TokenFile(const std::filesystem::path& path, const TokenFileKey& key)
    : file_(std::make_shared<const InputFile>(path.string())),
      id_bytes_(id_bytes_of(key.vocabulary)),
      vocabulary_(key.vocabulary) {
  const auto refuse = [&path] { throw DataError("{}: is corrupt; delete it", path.string()); };
  Header header;
  if (file_->size() < bytes_of_header) refuse();
  file_->copy(0, {reinterpret_cast<char*>(&header), sizeof(header)});
  const auto is_count = [this](std::int64_t count) { return count >= 0 && count <= file_->size(); };
  if (header.name != magic || header.version != token_file_version || !(header.key == key) ||
      !is_count(header.tokens) || !is_count(header.documents) || header.text_bytes < 0)
    refuse();
  tokens_ = header.tokens;
  documents_ = header.documents;
  text_bytes_ = header.text_bytes;
  end_ = header.end;
  content_ = header.content;
  begins_at_ = bytes_before_documents(tokens_, id_bytes_);
  if (file_->size() != begins_at_ + documents_ * std::int64_t{sizeof(std::uint64_t)}) refuse();
  XXH3_state_t* const hash = XXH3_createState();
  XXH3_64bits_reset(hash);
  std::vector<char> buffer(std::size_t{1} << 20);
  for (std::int64_t at = bytes_of_header; at < file_->size();) {
    const auto length = std::min<std::int64_t>(std::ssize(buffer), file_->size() - at);
    file_->copy(at, std::span(buffer).first(static_cast<std::size_t>(length)));
    XXH3_64bits_update(hash, buffer.data(), static_cast<std::size_t>(length));
    at += length;
  }
  add_counts(hash, header);
  const std::uint64_t content = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  if (content != content_) refuse();
  for (std::int64_t block = 0; block * block_tokens < tokens_; ++block) {
    std::int64_t byte = 0;
    file_->copy(block_begin(block), {reinterpret_cast<char*>(&byte), sizeof(byte)});
    if (byte < (first_bytes_.empty() ? 0 : first_bytes_.back()) || byte > text_bytes_) refuse();
    first_bytes_.push_back(byte);
  }
  // The hash detects corruption, not malicious content.
  std::int64_t begin = 0;
  for_each_value<std::uint64_t>(
      *file_, begins_at_, documents_, [&](std::int64_t, std::uint64_t token) {
        if (token < static_cast<std::uint64_t>(begin) ||
            token > static_cast<std::uint64_t>(tokens_))
          refuse();
        begin = static_cast<std::int64_t>(token);
      });
}

void TokenFile::throw_id_out_of_range(std::int64_t token, std::int64_t id) const {
  throw DataError("{}: is corrupt; delete it: token {} is {}, but the vocabulary has {} ids",
                  file_->path(),
                  token,
                  id,
                  vocabulary_);
}

std::int64_t TokenFile::block_begin(std::int64_t block) const {
  // All preceding blocks are full.
  return bytes_of_header +
         block * (std::int64_t{sizeof(std::int64_t)} +
                  block_tokens * (id_bytes_ + std::int64_t{sizeof(std::uint16_t)}));
}

CorpusPosition TokenFile::seek(std::int64_t token) const {
  if (token == tokens_) return {token, text_bytes_};
  const std::int64_t block = token / block_tokens;
  const std::int64_t count = std::min(block_tokens, tokens_ - block * block_tokens);
  const std::int64_t widths =
      block_begin(block) + std::int64_t{sizeof(std::int64_t)} + count * id_bytes_;
  CorpusPosition at{token, first_bytes_[static_cast<std::size_t>(block)]};
  for_each_value<std::uint16_t>(
      *file_, widths, token % block_tokens, [&at](std::int64_t, std::uint16_t width) {
        at.byte += width;
      });
  return at;
}

std::int64_t TokenFile::document_begin(std::int64_t document) const {
  require(document >= 0 && document <= documents_,
          "{}: document {} is out of range ({} documents)",
          file_->path(),
          document,
          documents_);
  if (document == documents_) return tokens_;
  std::int64_t begin = 0;
  file_->copy(begins_at_ + document * std::int64_t{sizeof(begin)},
              {reinterpret_cast<char*>(&begin), sizeof(begin)});
  return begin;
}

// Calls of_id(i, id) and of_width(i, bytes) for `count` tokens.
template <typename OfId, typename OfWidth>
void TokenFile::visit(std::int64_t token,
                      std::int64_t count,
                      OfId&& of_id,
                      OfWidth&& of_width) const {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t block = (token + done) / block_tokens;
    const std::int64_t within = (token + done) % block_tokens;
    const std::int64_t in_block = std::min(block_tokens, tokens_ - block * block_tokens);
    const std::int64_t part = std::min(in_block - within, count - done);
    const std::int64_t ids = block_begin(block) + std::int64_t{sizeof(std::int64_t)};
    const auto put = [&](std::int64_t i, std::int64_t id) {
      if (id >= vocabulary_) throw_id_out_of_range(token + done + i, id);
      of_id(done + i, id);
    };
    if (id_bytes_ == 2)
      for_each_value<std::uint16_t>(*file_, ids + within * 2, part, put);
    else
      for_each_value<std::uint32_t>(*file_, ids + within * 4, part, put);
    for_each_value<std::uint16_t>(
        *file_,
        ids + in_block * id_bytes_ + within * std::int64_t{sizeof(std::uint16_t)},
        part,
        [&of_width, done](std::int64_t i, std::int64_t width) { of_width(done + i, width); });
    done += part;
  }
}

CorpusPosition TokenFile::read(CorpusPosition at, std::span<std::int64_t> out) const {
  visit(
      at.token,
      std::ssize(out),
      [&out](std::int64_t i, std::int64_t id) { out[static_cast<std::size_t>(i)] = id; },
      [&at](std::int64_t, std::int64_t width) { at.byte += width; });
  at.token += std::ssize(out);
  return at;
}

void TokenFile::read_tokens(std::int64_t token, std::span<SubwordToken> out) const {
  visit(
      token,
      std::ssize(out),
      [&out](std::int64_t i, std::int64_t id) { out[static_cast<std::size_t>(i)].id = id; },
      [&out](std::int64_t i, std::int64_t width) {
        out[static_cast<std::size_t>(i)].bytes = width;
      });
}

namespace {

[[noreturn]] void fail(const std::filesystem::path& folder) {
  throw Failure("{}: a file in it cannot be written: {}", folder.string(), errno_message());
}

}  // namespace

SpillBuffer::~SpillBuffer() {
  if (file_ != nullptr) std::fclose(file_);
}

void SpillBuffer::add(std::uint64_t number) {
  held_.push_back(number);
  if (held_.size() >= max_in_memory_) spill();
}

void SpillBuffer::spill() {
  if (file_ == nullptr) {
    const int descriptor = open_unnamed_file(folder_.string());
    if (descriptor < 0) fail(folder_);
    file_ = ::fdopen(descriptor, "w+b");
    if (file_ == nullptr) {
      ::close(descriptor);
      fail(folder_);
    }
  }
  if (std::fwrite(held_.data(), sizeof(std::uint64_t), held_.size(), file_) != held_.size())
    fail(folder_);
  spilled_ += std::ssize(held_);
  held_.clear();
}

void SpillBuffer::for_each(const std::function<void(std::span<const std::uint64_t>)>& f) {
  if (spilled_ > 0) {
    if (std::fflush(file_) != 0 || std::fseek(file_, 0, SEEK_SET) != 0) fail(folder_);
    std::vector<std::uint64_t> part(max_in_memory_);
    for (std::int64_t done = 0; done < spilled_; done += std::ssize(part)) {
      if (std::fread(part.data(), sizeof(std::uint64_t), part.size(), file_) != part.size())
        fail(folder_);
      f(part);
    }
    if (std::fseek(file_, 0, SEEK_END) != 0) fail(folder_);
  }
  if (!held_.empty()) f(held_);
}

}  // namespace longspan
