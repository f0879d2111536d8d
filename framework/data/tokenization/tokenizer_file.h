// Tokenizer files of other libraries, read and written.
#pragma once

#include <optional>
#include <string>

#include "framework/core/config_path.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {

// Reads a tokenizer.json, a directory that contains one, or the files of a slow tokenizer
// (framework/tokenizers/slow_tokenizer.h). Throws DataError.
JsonTokenizer read_json_tokenizer(const ConfigPath& path);

// Writes a tokenizer.json atomically. Throws Failure.
void write_json_tokenizer(const JsonTokenizer& tokenizer, const std::string& path);

// Returns the file in a directory that `read_json_tokenizer` would read, if any.
std::optional<std::string> tokenizer_file_in(const std::string& folder);
// Returns the end of an error message for a directory without such a file: supported names, and an
// unsupported tokenizer file that exists.
std::string other_tokenizer_files(const std::string& folder);

// Export of tokenizers to Hugging Face `tokenizers`.

// Returns a tokenizer.json with the ids of Tokenizer::encode, except for text that contains the
// name of a special token. A tokenizer.json is returned unchanged. Returns nothing for ids. Also
// returns nothing for SentencePiece models of words, with spaces after words, or without a newline
// piece.
std::optional<std::string> package_json(const Tokenizer& tokenizer);

}  // namespace longspan
