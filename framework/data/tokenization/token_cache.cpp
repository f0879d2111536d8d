#include "framework/data/tokenization/token_cache.h"

#include <fmt/format.h>
#include <omp.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/span.h"
#include "framework/core/system.h"
#include "framework/data/corpus/decompressed_file.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/rank_zero.h"
#include "framework/data/tokenization/file_tokenizer.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;
using SharedText = std::shared_ptr<const InputFile>;

std::uint64_t hash_of(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && ::access(directory.c_str(), W_OK | X_OK) != 0)
    error = std::error_code(errno, std::generic_category());
  if (error)
    throw ConfigurationError("{}: cannot be written: {}; set data.cache_dir to another directory",
                             directory.string(),
                             error.message());
}

// Hash of the format as it applies to this file.
std::uint64_t form_of(const InputFile& file,
                      const DocumentFormat& form,
                      const Tokenizer& tokenizer) {
  if (!has_documents(file, form)) return hash_of("none");
  const std::string what = is_json_lines(file, form) ? "field " + form.text_field()
                                                     : std::string(name_of(form.boundary));
  return hash_of(fmt::format("{} {}", what, end_of_text_id(form, tokenizer).value_or(-1)));
}

TokenFileKey key_of(const InputFile& text,
                    const DocumentFormat& form,
                    const Tokenizer& tokenizer,
                    std::uint64_t hash) {
  return {.text = hash,
          .tokenizer = tokenizer.fingerprint(),
          .form = form_of(text, form, tokenizer),
          .file_bytes = text.size(),
          .vocabulary = tokenizer.vocabulary()};
}

fs::path token_path(const InputFile& text,
                    const Tokenizer& tokenizer,
                    const TokenFileKey& key,
                    const fs::path& directory) {
  // Includes the encoding version, so that another reading of an equal tokenizer gets another file.
  const bool is_json = tokenizer.json_tokenizer() != nullptr;
  const std::uint64_t hash = hash_of(fmt::format("{} {} {:x} {:x} {:x} {} {}",
                                                 encoding_version,
                                                 max_line_piece_length,
                                                 key.text,
                                                 key.tokenizer,
                                                 key.form,
                                                 key.file_bytes,
                                                 is_json ? JsonTokenizer::version() : ""));
  return directory / fmt::format("{}-{:016x}.tokens", fs::path(text.path()).stem().string(), hash);
}

TokenizedFile make(const SharedText& text,
                   const DocumentFormat& form,
                   const Tokenizer& tokenizer,
                   const fs::path& cache,
                   const TokenFileKey& key,
                   const ProgressCallback& heard,
                   const TokenizationOptions& making) {
  TokenizedFile made{.path = token_path(*text, tokenizer, key, cache)};
  made.existed = path_exists(made.path);
  if (made.existed) {
    remove_parts_of(made.path);  // left by a process killed before this
  } else {
    make_directory(cache);
    made.cached_bytes = FileTokenizer(text, form, tokenizer, made.path, key, heard, making).run();
  }
  return made;
}

// Returns whether this rank is the first on its node that lacks something. Collective.
bool is_first_without(bool lacks, const Communicator& all) {
  const std::string mine = (lacks ? "1" : "0") + host_name();
  const auto ranks = all.all_gather(mine);
  return lacks && std::ranges::find(ranks, mine) - ranks.begin() == all.rank();
}

void require_same(const TokenFile& tokens, const std::string& path, const Communicator& all) {
  const auto mine = static_cast<std::int64_t>(tokens.fingerprint());
  if (all.all_reduce(mine, Reduction::minimum) == all.all_reduce(mine, Reduction::maximum)) return;
  throw DataError(
      "{}: text differs between ranks (here {} tokens); copy the same file to every node",
      path,
      tokens.tokens());
}

// An earlier file has failed, so that this result is not used.
struct Abandoned {};

class Preparation {
 public:
  Preparation(std::span<const ConfigPath> files,
              const DocumentFormat& form,
              const Tokenizer& tokenizer,
              const std::filesystem::path& cache,
              const ProgressCallback& listener,
              const TokenizationOptions& making,
              const std::function<void(const PreparedFile&)>& told)
      : files_(files),
        form_(form),
        tokenizer_(tokenizer),
        cache_(cache),
        listener_(listener),
        making_(making),
        on_progress_(told),
        first_problem_(files.size()) {}

  void run() {
    const std::size_t workers = std::min(files_.size(), static_cast<std::size_t>(threads_));
    working_ = static_cast<int>(workers);
    std::vector<std::thread> others;
    for (std::size_t i = 0; i < workers; ++i) others.emplace_back([this] { work(); });
    for (std::thread& other : others) other.join();
    if (problem_) std::rethrow_exception(problem_);
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < first_problem_; i = next_++) {
      try {
        prepare(i);
      } catch (const Abandoned&) {
        break;
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (i > first_problem_) continue;
        first_problem_ = i;
        problem_ = std::current_exception();
      }
    }
    --working_;
  }

  void prepare(std::size_t index) {
    acquire_threads();
    const ConfigPath& file = files_[index];
    PreparedFile prepared{.file = file};
    const Stopwatch stopwatch;
    if (needs_token_file(*open_text(file), form_, tokenizer_))
      prepared.made = tokenize_file(
          file,
          form_,
          tokenizer_,
          cache_,
          [this, index](const ScanProgress& progress) { report(index, progress); },
          making_);
    prepared.seconds = stopwatch.seconds();
    const std::lock_guard lock(mutex_);
    on_progress_(prepared);
  }

  void report(std::size_t index, const ScanProgress& progress) {
    if (index > first_problem_) throw Abandoned();
    acquire_threads();
    const std::lock_guard lock(mutex_);
    if (listener_) listener_(progress);
  }

  // Sets this thread's number of OpenMP threads to an equal share per active file.
  void acquire_threads() const {
    omp_set_num_threads(std::max(1, threads_ / std::max(1, +working_)));
  }

  std::span<const ConfigPath> files_;
  const DocumentFormat& form_;
  const Tokenizer& tokenizer_;
  const std::filesystem::path& cache_;
  const ProgressCallback& listener_;
  const TokenizationOptions& making_;
  const std::function<void(const PreparedFile&)>& on_progress_;
  const int threads_ = omp_get_max_threads();
  std::atomic<std::size_t> next_ = 0;
  std::atomic<int> working_ = 0;
  std::mutex mutex_;
  // The earliest file that failed; without one, the number of files. Earlier files are still
  // encoded, so that the reported failure does not depend on timing.
  std::atomic<std::size_t> first_problem_;
  std::exception_ptr problem_;
};

}  // namespace

bool needs_token_file(const InputFile& file,
                      const DocumentFormat& form,
                      const Tokenizer& tokenizer) {
  return tokenizer.needs_token_file() || has_documents(file, form) ||
         detect_compression(file) != Compression::none;
}

TokenizedFile tokenize_file(const ConfigPath& file,
                            const DocumentFormat& form,
                            const Tokenizer& tokenizer,
                            const fs::path& cache,
                            const ProgressCallback& listener,
                            const TokenizationOptions& making) {
  const auto text = open_text(file);
  end_of_text_id(*text, form, tokenizer);  // fails before the text is read
  const TokenFileKey key = key_of(*text, form, tokenizer, hash_of_file(*text, listener));
  TokenizedFile made = make(text, form, tokenizer, cache, key, listener, making);
  made.tokens = std::make_shared<const TokenFile>(made.path, key);
  return made;
}

std::shared_ptr<const TokenFile> tokens_of_documents(const ConfigPath& file,
                                                     const DocumentFormat& form,
                                                     const Tokenizer& tokenizer,
                                                     const fs::path& cache,
                                                     const Communicator& all,
                                                     const ProgressCallback& listener) {
  const auto text = open_text(file);
  end_of_text_id(*text, form, tokenizer);
  const auto work = [text, form, tokenizer, cache](const TokenFileKey& key,
                                                   const ProgressCallback& heard) {
    make(text, form, tokenizer, cache, key, heard, {});
  };
  const std::string hash = run_on_rank_zero(
      all, text->path(), text->size(), listener, [=](const ProgressCallback& heard) {
        const std::uint64_t found = hash_of_file(*text, heard);
        work(key_of(*text, form, tokenizer, found), heard);
        return std::to_string(found);
      });
  const TokenFileKey key = key_of(*text, form, tokenizer, std::stoull(hash));
  const fs::path path = token_path(*text, tokenizer, key, cache);
  while (all.all_reduce(std::int64_t{path_exists(path)}, Reduction::minimum) == 0)
    run_on_selected_ranks(all,
                          is_first_without(!path_exists(path), all),
                          text->path(),
                          text->size(),
                          listener,
                          [=](const ProgressCallback& heard) {
                            work(key, heard);
                            return std::string();
                          });
  auto tokens = std::make_shared<const TokenFile>(path, key);
  require_same(*tokens, text->path(), all);
  return tokens;
}

void tokenize_files(std::span<const ConfigPath> files,
                    const DocumentFormat& form,
                    const Tokenizer& tokenizer,
                    const std::filesystem::path& cache,
                    const ProgressCallback& listener,
                    const TokenizationOptions& making,
                    const std::function<void(const PreparedFile&)>& told) {
  Preparation(files, form, tokenizer, cache, listener, making, told).run();
}

}  // namespace longspan
