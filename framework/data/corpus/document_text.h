// The texts of a file's documents, for what is learnt of them before there are tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "framework/core/input_file.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/progress.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Whether a file is nothing but its text: it is not packed and has no JSON lines.
bool is_plain_text(const InputFile& file, const DocumentFormat& form);

// Tokenizer::characters_of, of the texts of the documents.
Tokenizer characters_of_documents(std::shared_ptr<const InputFile> file,
                                  const DocumentFormat& form,
                                  bool with_unknown,
                                  const ProgressCallback& listener = {});

// At most about so many bytes of the documents' texts, as many of the beginning as of the end, with
// a line's end after each, in a temporary file with the path of the file. Reads all of the text
// once. Throws DataError for what is wrong with it.
std::shared_ptr<const InputFile> sample_of_documents(const std::shared_ptr<const InputFile>& file,
                                                     const DocumentFormat& form,
                                                     std::int64_t bytes,
                                                     const ProgressCallback& listener = {});

// train_sentencepiece of plain texts and of samples of the documents of others, at least one.
SentencePieceModel train_subwords_of_documents(
    std::span<const std::shared_ptr<const InputFile>> texts,
    const DocumentFormat& form,
    SentencePieceModelType kind,
    std::int64_t vocabulary,
    const ProgressCallback& listener = {});

}  // namespace longspan
