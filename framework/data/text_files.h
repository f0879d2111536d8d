// Opening the texts and the tokenizer of a run, the same on every rank.
#pragma once

#include <filesystem>
#include <string>

#include "framework/comm/communicator.h"
#include "framework/data/corpus.h"
#include "framework/data/data_options.h"

namespace longspan {

// data.token_cache, or without it `tokens` in the run's directory.
std::filesystem::path token_directory(const DataOptions& options,
                                      const std::filesystem::path& run_directory);

// Who listens hears of texts that are read from end to end.

// The tokenizer that the options ask for. A subword model, of SentencePiece or a tokenizer.json, is
// read by rank 0, or trained by it and
// kept in the run's directory under a name that holds the hash of the text and of the settings; the
// other ranks get its bytes. A collective. Throws DataError.
Tokenizer prepare_tokenizer(const DataOptions& options,
                            const std::filesystem::path& run_directory,
                            const Communicator& all,
                            const ScanListener& listener = {});

// The text of a file. Where its tokens are subwords, rank 0 encodes it into a file of `tokens`
// whose name holds the hash of text and tokenizer, unless it is there already; ranks that do not
// see that file, as on another node, make their own. A collective. Throws DataError for what is
// wrong with the text, also when the ranks do not all see the same one, and ConfigurationError when
// the directory cannot be written.
Corpus open_corpus(const NamedPath& path,
                   const Tokenizer& tokenizer,
                   const std::filesystem::path& tokens,
                   const Communicator& all,
                   const ScanListener& listener = {});

}  // namespace longspan
