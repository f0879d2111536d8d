// The tokens of several files, made side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "framework/data/document_tokens.h"

namespace longspan {

struct PreparedFile {
  NamedPath file;
  std::optional<TokensMade> made = std::nullopt;  // none: it is read where it is
  double seconds = 0;
};

// make_tokens of each file that needs_token_file, on the threads of OpenMP: of as many files as
// there are threads at once, and on more threads of each when fewer are left. Calls told(prepared)
// as they are done, and what the listener is told of any of them, one call at a time, on threads of
// its own. Throws what the first of the files that fail throws; no other is begun then.
void prepare_files(std::span<const NamedPath> files,
                   const DocumentForm& form,
                   const Tokenizer& tokenizer,
                   const std::filesystem::path& cache,
                   const ScanListener& listener,
                   const TokenMaking& making,
                   const std::function<void(const PreparedFile&)>& told);

}  // namespace longspan
