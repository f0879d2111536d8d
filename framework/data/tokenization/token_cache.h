// Files of tokens of texts and their documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "framework/core/config_path.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/progress.h"
#include "framework/data/token_file.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Whether a text is read from a file of its tokens. Otherwise it is read where it is: it is not
// packed, has no documents, and the place of a token can be reckoned.
bool needs_token_file(const InputFile& file,
                      const DocumentFormat& form,
                      const Tokenizer& tokenizer);

struct TokenizedFile {
  std::filesystem::path path;
  std::shared_ptr<const TokenFile> tokens = nullptr;
  bool was_there = false;       // nothing had to be done
  std::int64_t kept_bytes = 0;  // of the unpacked text, whose tokens an earlier try had made
};

// When files are written and how much is in memory: of text, in bytes.
struct TokenizationOptions {
  std::int64_t part = std::int64_t{1} << 28;
  std::int64_t batch = std::int64_t{1} << 21;
};

// The tokens of a file in a file of the folder `cache`, whose name holds the hash of contents, form
// and tokenizer; it is made where it is not there. The documents are encoded on the threads of
// OpenMP, each by itself: the ids are those of Tokenizer::encode, with the token that ends
// documents behind each. A document without tokens is left out and counted.
//
// What is done of a long text is kept in files of its parts, until the whole is there: who is ended
// and called again goes on from them. Several may make the same file at once. Throws DataError for
// what is wrong with the text, and ConfigurationError when the folder cannot be written.
TokenizedFile tokenize_file(const ConfigPath& file,
                            const DocumentFormat& form,
                            const Tokenizer& tokenizer,
                            const std::filesystem::path& cache,
                            const ProgressCallback& listener = {},
                            const TokenizationOptions& making = {});

// The same of every rank's: rank 0 makes it, and after that, where some do not see its file, as on
// another node, one rank of each machine. A collective. Throws DataError too where the ranks do not
// all have the same text.
std::shared_ptr<const TokenFile> tokens_of_documents(const ConfigPath& file,
                                                     const DocumentFormat& form,
                                                     const Tokenizer& tokenizer,
                                                     const std::filesystem::path& cache,
                                                     const Communicator& all,
                                                     const ProgressCallback& listener = {});

}  // namespace longspan
