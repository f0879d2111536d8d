// Document boundaries of text files, and fields of JSON Lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/input_file.h"

namespace longspan {

class OptionTable;
class Tokenizer;

// none: no document boundaries. file: the file is one document. line: each line, without its end.
// paragraph: consecutive lines, separated by one or more blank lines, without the end of the last
// line.
enum class DocumentBoundary : std::uint8_t { none, file, line, paragraph };
std::string_view name_of(DocumentBoundary boundary);

struct DocumentFormat {
  DocumentBoundary boundary = DocumentBoundary::none;  // data.documents.sample_by, for text
  // data.documents.text_field: of JSON Lines. Unset: "text" for files with a JSON Lines extension.
  std::optional<std::string> field = std::nullopt;
  // data.documents.end_token: id or name of the token appended to each document.
  std::optional<std::string> end_of_text = std::nullopt;

  std::string text_field() const { return field.value_or("text"); }
};

void declare(OptionTable& table, DocumentFormat& form);

// Returns whether a file is JSON Lines, one object with a document per line. The names NAME.jsonl
// and NAME.ndjson are, in any case of letters and with .gz or .zst appended. Otherwise the first
// line decides: it must be an object, and either the name is NAME.json, or the object has the field
// data.documents.text_field. With data.documents.sample_by: file, the line of a NAME.json must have
// the field too. Throws DataError for an array of objects in a file with such a name, and as
// DecompressedFile does.
bool is_json_lines(const InputFile& file, const DocumentFormat& form);

// Returns whether the file has documents, by its format or by the options.
bool has_documents(const InputFile& file, const DocumentFormat& form);

// Returns the id of data.documents.end_token; none where it is unset or the tokenizer lacks it.
std::optional<std::int64_t> find_end_of_text(const DocumentFormat& form,
                                             const Tokenizer& tokenizer);

// Returns the id of data.documents.end_token. Throws ConfigurationError when the tokenizer lacks
// it.
std::optional<std::int64_t> end_of_text_id(const DocumentFormat& form, const Tokenizer& tokenizer);

// Returns that id, or none for a file without documents, which does not use the token.
std::optional<std::int64_t> end_of_text_id(const InputFile& file,
                                           const DocumentFormat& form,
                                           const Tokenizer& tokenizer);

// Returns the id of the tokenizer's own end token, or -1: the end of a sentence of a SentencePiece
// model, or the special token of a tokenizer.json with a usual name, such as <|endoftext|>.
std::int64_t own_end_of_text(const Tokenizer& tokenizer);

// Fields of JSON Lines.

// Returns the string member `field` of the JSON object in a line. The rest is not stored. Throws
// DataError, prefixed with `place`, for invalid JSON (RFC 8259) or a line that is not an object.
// Throws it also for a field that is missing, duplicated or not a string.
std::string json_field(std::string_view line, const std::string& field, const std::string& place);

// First nonblank line of a file, up to 64 KiB.
struct JsonBeginning {
  bool is_object = false;                // the line is an object, or its first 64 KiB start one
  bool is_array_of_objects = false;      // the line starts an array of objects
  std::vector<std::string> fields = {};  // string members of the object
};

// Reads the beginning of a file. Throws DataError as DecompressedFile does.
JsonBeginning beginning_of(const InputFile& file);

}  // namespace longspan
