#include "framework/data/corpus/corpus.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>

#include "framework/core/error.h"

namespace longspan {
namespace {

// A single file retains its own hash, so that a list of one equals the file.
std::uint64_t hash_of_all(const std::vector<std::uint64_t>& hashes) {
  if (hashes.size() == 1) return hashes.front();
  return XXH3_64bits(hashes.data(), hashes.size() * sizeof(std::uint64_t));
}

}  // namespace

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

}  // namespace longspan
