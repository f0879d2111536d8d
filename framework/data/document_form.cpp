#include "framework/data/document_form.h"

#include <algorithm>
#include <charconv>

#include "framework/core/error.h"
#include "framework/core/option_text.h"
#include "framework/core/options.h"
#include "framework/data/subword_model.h"
#include "framework/data/tokenizer.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {

std::string_view name_of(DocumentBoundary boundary) {
  switch (boundary) {
    case DocumentBoundary::none:
      return "none";
    case DocumentBoundary::file:
      return "file";
    case DocumentBoundary::line:
      return "line";
    case DocumentBoundary::paragraph:
      return "paragraph";
  }
  throw Failure("a boundary of documents without a name");
}

void declare(OptionTable& table, DocumentForm& form) {
  table.add("data.documents",
            form.boundary,
            "what a document of a text is: nothing (none: the text goes on from end to end), a "
            "file, a line, or a paragraph, with blank lines between them. Each line of a file "
            "NAME.jsonl is a document of its own, whatever this says. Texts may be packed by gzip "
            "or zstd; a document has at most 1 GiB",
            {{"none", DocumentBoundary::none},
             {"file", DocumentBoundary::file},
             {"line", DocumentBoundary::line},
             {"paragraph", DocumentBoundary::paragraph}});
  table.add("data.text_field",
            form.field,
            "the member that has the text of the JSON object in each line of a file NAME.jsonl",
            not_empty());
  table.add("data.end_of_text",
            form.end_of_text,
            "a token that is added after each document: its id, or what it is called in the "
            "tokenizer, as \"<|endoftext|>\"",
            not_empty());
}

bool is_json_lines(std::string_view path) {
  for (const std::string_view packed : {".gz", ".zst"})
    if (path.ends_with(packed)) {
      path.remove_suffix(packed.size());
      break;
    }
  return path.ends_with(".jsonl");
}

bool has_documents(std::string_view path, const DocumentForm& form) {
  return form.boundary != DocumentBoundary::none || is_json_lines(path);
}

std::optional<std::int64_t> end_of_text_id(const DocumentForm& form, const Tokenizer& tokenizer) {
  if (!form.end_of_text) return std::nullopt;
  const std::string& name = *form.end_of_text;
  std::int64_t id = -1;
  if (const JsonTokenizer* const json = tokenizer.json_tokenizer()) id = json->id_of(name);
  if (const SubwordModel* const model = tokenizer.subword_model()) id = model->id_of(name);
  if (id >= 0) return id;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  const bool is_id = error == std::errc() && end == name.data() + name.size() && id >= 0 &&
                     id < tokenizer.vocabulary();
  if (!is_id)
    throw ConfigurationError(
        "data.end_of_text: found {}; wanted an id from 0 to {}{}",
        in_quotes(name),
        tokenizer.vocabulary() - 1,
        tokenizer.needs_token_file()
            ? ", or the name of a token that data.tokenizer_model has"
            : fmt::format("; tokens of {} have no names", name_of(tokenizer.kind())));
  return id;
}

}  // namespace longspan
