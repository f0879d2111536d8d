// Making a tokenizer.json of texts.
#pragma once

#include <span>

#include "framework/data/scan_listener.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/tokenizers/tokenizer_trainer.h"

namespace longspan {

class MappedFile;

// Texts are read once, some megabytes at a time and on all cores, and may be larger than memory:
// what is kept are their different words and how often each is there. The same texts and rules give
// the same bytes, whatever the number of threads. A stretch of 16 MiB without a space at which a
// text can be cut is cut behind any character. Throws DataError where a text is not UTF-8, and
// where it has too few pairs, or too many characters, for the vocabulary. The listener hears of the
// texts as they are read.
JsonTokenizer train_json_tokenizer(std::span<const MappedFile* const> texts,
                                   const TokenizerRules& rules,
                                   const ScanListener& listener = {});

}  // namespace longspan
