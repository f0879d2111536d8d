// Where the documents of a text are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longspan {

class OptionTable;
class Tokenizer;

// none: a text without documents. file: the whole file is one. line: each line, without its end.
// paragraph: lines one after another, with one or more lines between them that have nothing but
// blanks; without the end of the last line.
enum class DocumentBoundary : std::uint8_t { none, file, line, paragraph };
std::string_view name_of(DocumentBoundary boundary);

struct DocumentForm {
  DocumentBoundary boundary = DocumentBoundary::none;  // data.documents: of texts
  std::string field = "text";                          // data.text_field: of .jsonl
  // data.end_of_text: the id of a token, or what it is called, that stands after each document.
  std::optional<std::string> end_of_text = std::nullopt;
};

void declare(OptionTable& table, DocumentForm& form);

// Whether a file has a document in each line, as JSON: NAME.jsonl, NAME.jsonl.gz, NAME.jsonl.zst.
bool is_json_lines(std::string_view path);

// Whether the file has documents, as it is called and by the form.
bool has_documents(std::string_view path, const DocumentForm& form);

// The id of the token that ends documents. Throws ConfigurationError where the tokenizer has no
// such token.
std::optional<std::int64_t> end_of_text_id(const DocumentForm& form, const Tokenizer& tokenizer);

}  // namespace longspan
