// Texts of a file's documents, for training tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "framework/core/input_file.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/progress.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Returns whether a file is only its text: neither compressed nor JSON Lines.
bool is_plain_text(const InputFile& file, const DocumentFormat& form);

// As Tokenizer::characters_of, for the texts of the documents.
Tokenizer characters_of_documents(std::shared_ptr<const InputFile> file,
                                  const DocumentFormat& form,
                                  bool with_unknown,
                                  const ProgressCallback& listener = {});

// Returns a sample of about `bytes` bytes at most: every n-th document, one per line. It is a
// temporary file that reports the path of the original. Reads all of the text once. Throws
// DataError for invalid text.
std::shared_ptr<const InputFile> sample_of_documents(const std::shared_ptr<const InputFile>& file,
                                                     const DocumentFormat& form,
                                                     std::int64_t bytes,
                                                     const ProgressCallback& listener = {});

// As train_sentencepiece, for at least one file. Files that are not plain text are sampled.
SentencePieceModel train_subwords_of_documents(
    std::span<const std::shared_ptr<const InputFile>> texts,
    const DocumentFormat& form,
    SentencePieceModelType kind,
    std::int64_t vocabulary,
    const ProgressCallback& listener = {},
    std::string_view key = "data.tokenizer.vocab_size");

}  // namespace longspan
