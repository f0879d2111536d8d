// Opening the texts and the tokenizer of a run, the same on every rank.
#pragma once

#include <filesystem>
#include <string>

#include "framework/data/corpus/corpus.h"
#include "framework/data/data_options.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// data.cache_dir, or without it `tokens` in the run's directory.
std::filesystem::path token_directory(const DataOptions& options,
                                      const std::filesystem::path& run_directory);

// Who listens hears of texts that are read from end to end.

// The tokenizer that the options ask for. A subword model, of SentencePiece or a tokenizer.json, is
// read by rank 0, or trained by it and kept in the run's directory under a name that holds the hash
// of the text and of the settings; the other ranks get its bytes. Each file of data.train is
// trained on once, whatever its weight. A collective. Throws DataError.
Tokenizer prepare_tokenizer(const DataOptions& options,
                            const std::filesystem::path& run_directory,
                            const Communicator& all,
                            const ProgressCallback& listener = {});

// A file as data.train has it. Where its tokens have no place that can be reckoned, where it is
// packed or has documents, rank 0 encodes it into a file of data.cache_dir, unless that is there
// already; ranks that do not see that file, as on another node, make their own. A collective.
// Throws DataError for what is wrong with the text, and ConfigurationError when the folder cannot
// be written.
CorpusFile open_corpus_file(const ConfigPath& path,
                            const DataOptions& options,
                            const Tokenizer& tokenizer,
                            const std::filesystem::path& run_directory,
                            const Communicator& all,
                            const ProgressCallback& listener = {});

// The files of each path of a list. A collective. Throws as below.
std::vector<Corpus> open_each(const PathList& paths,
                              const DataOptions& options,
                              const Tokenizer& tokenizer,
                              const std::filesystem::path& run_directory,
                              const Communicator& all,
                              const ProgressCallback& listener = {});

// All files of a list, one after another, whatever their weights. A collective. Throws as above,
// and when the ranks do not all see the same files.
Corpus open_corpus(const PathList& paths,
                   const DataOptions& options,
                   const Tokenizer& tokenizer,
                   const std::filesystem::path& run_directory,
                   const Communicator& all,
                   const ProgressCallback& listener = {});

}  // namespace longspan
