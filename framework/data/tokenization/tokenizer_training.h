// Making a tokenizer.json of texts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "framework/core/input_file.h"
#include "framework/data/progress.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/tokenizers/tokenizer_trainer.h"

namespace longspan {

// Texts are read once, some megabytes at a time and on all cores, and may be packed and larger than
// memory: what is kept are their different words and how often each is there. A text is counted
// from its beginning to its end, whatever its documents are; of JSON lines the field of that name
// (data.documents.text_field) in each is a text. The same texts and rules give the same bytes,
// whatever the number of threads. A stretch of 16 MiB without a space at which a text can be cut is
// cut behind any character. Throws DataError as DocumentReader does, where a text is not UTF-8, and
// where it has too few pairs, or too many characters, for the vocabulary. The listener hears of the
// texts as they are read.
JsonTokenizer train_json_tokenizer(std::span<const std::shared_ptr<const InputFile>> texts,
                                   const std::optional<std::string>& field,
                                   const TokenizerRules& rules,
                                   const ProgressCallback& listener = {});

}  // namespace longspan
