// Training of tokenizer.json models.
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

// Streams the texts once on all cores. They may be compressed and larger than memory; only distinct
// words and their counts are stored. Document boundaries are ignored, except in JSON Lines, where
// each `field` (data.documents.text_field) is a text. Deterministic: equal texts and rules give
// equal bytes for any number of threads. Text without a cut position within 16 MiB is cut after any
// character. Throws DataError as DocumentReader, for invalid UTF-8, and where there are too few
// pairs or too many characters for the vocabulary. The listener receives the read progress.
JsonTokenizer train_json_tokenizer(std::span<const std::shared_ptr<const InputFile>> texts,
                                   const std::optional<std::string>& field,
                                   const TokenizerRules& rules,
                                   const ProgressCallback& listener = {});

}  // namespace longspan
