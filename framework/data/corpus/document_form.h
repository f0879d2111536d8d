// Where the documents of a text are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longspan {

class InputFile;
class OptionTable;
class Tokenizer;

// none: a text without documents. file: the whole file is one. line: each line, without its end.
// paragraph: lines one after another, with one or more lines between them that have nothing but
// blanks; without the end of the last line.
enum class DocumentBoundary : std::uint8_t { none, file, line, paragraph };
std::string_view name_of(DocumentBoundary boundary);

struct DocumentFormat {
  DocumentBoundary boundary = DocumentBoundary::none;  // data.documents.sample_by: of texts
  // data.documents.text_field: of JSON lines; none: "text" of files that are named as such.
  std::optional<std::string> field = std::nullopt;
  // data.documents.end_token: the id of a token, or what it is called, that stands after each
  // document.
  std::optional<std::string> end_of_text = std::nullopt;

  std::string text_field() const { return field.value_or("text"); }
};

void declare(OptionTable& table, DocumentFormat& form);

// Whether each line of a file is an object of JSON with a document: by its name, NAME.jsonl or
// NAME.ndjson, whatever its letters' case and with .gz or .zst after it; else by its first line,
// which is an object, where the name is NAME.json or where data.documents.text_field is set and the
// object has that field. Of a NAME.json that data.documents.sample_by makes one document the line
// must have the field too. Throws DataError for an array of objects in a file with such a name, and
// as DecompressedFile does.
bool is_json_lines(const InputFile& file, const DocumentFormat& form);

// Whether the file has documents, as it is and by the form.
bool has_documents(const InputFile& file, const DocumentFormat& form);

// The id of the token that ends documents. Throws ConfigurationError where the tokenizer has no
// such token.
std::optional<std::int64_t> end_of_text_id(const DocumentFormat& form, const Tokenizer& tokenizer);

}  // namespace longspan
