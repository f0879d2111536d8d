// Concurrent encoding of several files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "framework/data/tokenization/token_cache.h"

namespace longspan {

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
