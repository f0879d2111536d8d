// Opens the corpora and the tokenizer of a run, equal on every rank.
#pragma once

#include <filesystem>
#include <string>

#include "framework/data/corpus/corpus.h"
#include "framework/data/data_options.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Returns data.cache_dir; by default `tokens` in the run's directory.
std::filesystem::path token_directory(const DataOptions& options,
                                      const std::filesystem::path& run_directory);

// Below, `listener` receives the progress of full passes over a text.

// Returns the tokenizer of the options. Rank 0 reads a subword model (SentencePiece or
// tokenizer.json) and broadcasts it, or trains it. A trained model is saved in the run's directory,
// under a name that contains the hash of the text and the settings. Training reads each file of
// data.train once, whatever its weight. Throws DataError. Collective.
Tokenizer prepare_tokenizer(const DataOptions& options,
                            const std::filesystem::path& run_directory,
                            const Communicator& all,
                            const ProgressCallback& listener = {});

// Opens a file of data.train. Rank 0 encodes it into a token file of data.cache_dir if token
// positions are not computable, or the file is compressed or has documents. An existing token file
// is reused. Ranks that cannot read that file, as on another node, encode their own. Throws
// DataError for invalid text, and ConfigurationError when the directory is not writable.
// Collective.
CorpusFile open_corpus_file(const ConfigPath& path,
                            const DataOptions& options,
                            const Tokenizer& tokenizer,
                            const std::filesystem::path& run_directory,
                            const Communicator& all,
                            const ProgressCallback& listener = {});

// Opens the files of each path of a list. Throws as open_corpus. Collective.
std::vector<Corpus> open_each(const PathList& paths,
                              const DataOptions& options,
                              const Tokenizer& tokenizer,
                              const std::filesystem::path& run_directory,
                              const Communicator& all,
                              const ProgressCallback& listener = {});

// Opens all files of a list as one corpus, ignoring their weights. Throws as open_corpus_file, and
// when ranks read different files. Collective.
Corpus open_corpus(const PathList& paths,
                   const DataOptions& options,
                   const Tokenizer& tokenizer,
                   const std::filesystem::path& run_directory,
                   const Communicator& all,
                   const ProgressCallback& listener = {});

}  // namespace longspan
