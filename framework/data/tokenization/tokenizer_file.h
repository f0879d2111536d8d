// The files in which the tokenizers of others lie.
#pragma once

#include <optional>
#include <string>

#include "framework/core/config_path.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {

// Of a tokenizer.json, or of a folder that has one, or the files of a slow tokenizer
// (framework/tokenizers/slow_tokenizer.h). Throws DataError.
JsonTokenizer read_json_tokenizer(const ConfigPath& path);

// Writes a tokenizer.json that is seen at its path once it is whole. Throws Failure.
void write_json_tokenizer(const JsonTokenizer& tokenizer, const std::string& path);

// Whether a folder has what `read_json_tokenizer` reads: the file that says so.
std::optional<std::string> tokenizer_file_in(const std::string& folder);
// The end of a message on a folder without such a file: the names of others, and of one that is
// there and that Longspan does not read.
std::string other_tokenizer_files(const std::string& folder);

}  // namespace longspan
