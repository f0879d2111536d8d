// Token files of texts and their documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "framework/core/config_path.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/progress.h"
#include "framework/data/token_file.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Returns whether a text needs a token file. Otherwise it is uncompressed, has no documents, and
// its token positions are computable.
bool needs_token_file(const InputFile& file,
                      const DocumentFormat& form,
                      const Tokenizer& tokenizer);

struct TokenizedFile {
  std::filesystem::path path;
  std::shared_ptr<const TokenFile> tokens = nullptr;
  bool existed = false;           // the file already existed
  std::int64_t cached_bytes = 0;  // decompressed text bytes that earlier runs had encoded
};

// Part sizes and memory limits, in bytes of text.
struct TokenizationOptions {
  std::int64_t part = std::int64_t{1} << 28;
  std::int64_t batch = std::int64_t{1} << 21;
};

// Encodes a file into a token file in `cache`, named by the hash of content, format and tokenizer,
// unless it exists. Documents are encoded independently on the OpenMP threads. Their ids are those
// of Tokenizer::encode, followed by the end-of-document token. A document without tokens is skipped
// and counted.
//
// Long texts are saved in parts until the file is complete, so that an interrupted call can be
// resumed. Concurrent writers of an equal file are supported. Throws DataError for invalid text,
// and ConfigurationError when the directory is not writable.
TokenizedFile tokenize_file(const ConfigPath& file,
                            const DocumentFormat& form,
                            const Tokenizer& tokenizer,
                            const std::filesystem::path& cache,
                            const ProgressCallback& listener = {},
                            const TokenizationOptions& making = {});

// Encodes a file for all ranks. Rank 0 creates it; then one rank of each node that cannot read it
// does. Throws as tokenize_file, and DataError where the ranks read different text. Collective.
std::shared_ptr<const TokenFile> tokens_of_documents(const ConfigPath& file,
                                                     const DocumentFormat& form,
                                                     const Tokenizer& tokenizer,
                                                     const std::filesystem::path& cache,
                                                     const Communicator& all,
                                                     const ProgressCallback& listener = {});

// Concurrent encoding of several files.

struct PreparedFile {
  ConfigPath file;
  std::optional<TokenizedFile> made = std::nullopt;  // unset: read without a token file
  double seconds = 0;
};

// Calls tokenize_file for each file that needs_token_file, on the OpenMP threads. Each thread
// encodes one file; when fewer files are left, files share the threads. Calls told(prepared) for
// finished files, and the listener with progress, one call at a time, on worker threads. After an
// error no further file is started; throws the error of the first failing file.
void tokenize_files(std::span<const ConfigPath> files,
                    const DocumentFormat& form,
                    const Tokenizer& tokenizer,
                    const std::filesystem::path& cache,
                    const ProgressCallback& listener,
                    const TokenizationOptions& making,
                    const std::function<void(const PreparedFile&)>& told);

}  // namespace longspan
