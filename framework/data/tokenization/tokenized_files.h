// The tokens of several files, made side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "framework/data/tokenization/token_cache.h"

namespace longspan {

struct PreparedFile {
  ConfigPath file;
  std::optional<TokenizedFile> made = std::nullopt;  // none: it is read where it is
  double seconds = 0;
};

// tokenize_file of each file that needs_token_file, on the threads of OpenMP: of as many files as
// there are threads at once, and on more threads of each when fewer are left. Calls told(prepared)
// as they are done, and what the listener is told of any of them, one call at a time, on threads of
// its own. Throws what the first of the files that fail throws; no other is begun then.
void tokenize_files(std::span<const ConfigPath> files,
                    const DocumentFormat& form,
                    const Tokenizer& tokenizer,
                    const std::filesystem::path& cache,
                    const ProgressCallback& listener,
                    const TokenizationOptions& making,
                    const std::function<void(const PreparedFile&)>& told);

}  // namespace longspan
