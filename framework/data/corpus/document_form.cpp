#include "framework/data/corpus/document_form.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/decompressed_file.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/options/options.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

// Usual names of special tokens that end a document.
constexpr std::array<const char*, 5> usual_ends = {
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>"};

// Returns a hint at the tokenizer's own end token, or "".
std::string own_end_hint(const Tokenizer& tokenizer) {
  const std::int64_t id = own_end_of_text(tokenizer);
  if (id < 0) return "";
  const SentencePieceModel* const model = tokenizer.subword_model();
  return fmt::format(
      "; set it to {}, the end token of the tokenizer",
      quote(model != nullptr ? model->piece(id) : tokenizer.json_tokenizer()->token(id)));
}

constexpr std::size_t max_names = 8;
constexpr std::size_t max_bytes_of_a_beginning = std::size_t{1} << 16;
constexpr std::string_view blanks = " \t\r\n";

// SAX handler that extracts one field.
class FieldFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  FieldFinder(const std::string& field, const std::string& place) : field_(field), place_(place) {}

  std::string take() {
    if (!is_found_)
      throw DataError(
          "{}: expected the field {}, found {}; set data.documents.text_field (longspan tokenizer: "
          "--text-field)",
          place_,
          quote(field_),
          names_.empty() ? "no fields" : fmt::format("{}", fmt::join(names_, ", ")));
    return std::move(text_);
  }

  bool null() override { return see("null"); }
  bool boolean(bool) override { return see("true or false"); }
  bool number_integer(number_integer_t) override { return see("a number"); }
  bool number_unsigned(number_unsigned_t) override { return see("a number"); }
  bool number_float(number_float_t, const string_t&) override { return see("a number"); }
  bool binary(binary_t&) override { return see("bytes"); }
  bool string(string_t& value) override {
    if (is_requested_) {
      text_ = std::move(value);
      is_found_ = true;
      is_requested_ = false;
      return true;
    }
    return see("a string");
  }
  bool start_object(std::size_t) override {
    if (depth_ > 0) see("an object");
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    see("a list");
    ++depth_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    if (names_.size() < max_names) names_.push_back(quote(name));
    if (name != field_) return true;
    if (is_found_) throw DataError("{}: duplicate field {}", place_, quote(field_));
    is_requested_ = true;
    return true;
  }
  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::json::exception& error) override {
    throw DataError("{}: invalid JSON at byte {} of the line: {}",
                    place_,
                    position > 0 ? position - 1 : 0,
                    truncated(error.what(), 200));
  }

 private:
  bool see(const char* what) {
    if (depth_ == 0) throw DataError("{}: expected an object, found {}", place_, what);
    if (is_requested_)
      throw DataError("{}: field {}: expected a string, found {}", place_, quote(field_), what);
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::string& field_;
  const std::string& place_;
  std::string text_;
  std::vector<std::string> names_;  // quoted
  std::int64_t depth_ = 0;
  bool is_requested_ = false;  // the next value is the field's
  bool is_found_ = false;
};

}  // namespace

std::string_view name_of(DocumentBoundary boundary) {
  switch (boundary) {
    case DocumentBoundary::none:
      return "none";
    case DocumentBoundary::file:
      return "document";
    case DocumentBoundary::line:
      return "line";
    case DocumentBoundary::paragraph:
      return "paragraph";
  }
  throw Failure("unnamed document boundary");
}

void declare(OptionTable& table, DocumentFormat& form) {
  table.add(
      "data.documents.sample_by",
      form.boundary,
      "unit of text that is a document: none (no documents: the files are one text), document "
      "(a file), line, or paragraph (separated by blank lines). Each JSON line "
      "(data.documents.text_field) is always a document. Files may be compressed by gzip or "
      "zstd; a document has at most 1 GiB",
      {{"none", DocumentBoundary::none},
       {"document", DocumentBoundary::file},
       {"line", DocumentBoundary::line},
       {"paragraph", DocumentBoundary::paragraph}});
  table.add("data.documents.text_field",
            form.field,
            "field with the text in the JSON object of each line of NAME.jsonl, NAME.ndjson or "
            "NAME.json, if set also of other files whose first line has the field; none: text",
            not_empty());
  table.add("data.documents.end_token",
            form.end_of_text,
            "token appended to each document: its id, or its name in the tokenizer, such as "
            "\"<|endoftext|>\" of GPT-2 or \"</s>\" of SentencePiece; none: no token. Ignored "
            "without documents: with data.documents.sample_by: none and no JSON lines",
            not_empty());
}

bool is_json_lines(const InputFile& file, const DocumentFormat& form) {
  const std::string name = lower_case(std::filesystem::path(file.path()).filename().string());
  const auto is_named = [&name](std::string_view end) {
    return std::ranges::any_of(std::array{"", ".gz", ".zst"}, [&](const char* packing) {
      return name.ends_with(std::string(end) + packing);
    });
  };
  const bool is_lines = is_named(".jsonl") || is_named(".ndjson");
  const bool is_json = is_named(".json");
  if (!is_lines && !is_json && !form.field) return false;
  const JsonBeginning found = beginning_of(file);
  const bool is_complete = form.boundary == DocumentBoundary::file;
  if (found.is_array_of_objects && (is_lines || (is_json && (!is_complete || form.field))))
    throw DataError(
        "{}: expected a JSON object in each line, found an array of objects; convert it with jq -c "
        "'.[]' FILE > NAME.jsonl",
        file.path());
  if (is_lines) return true;
  const bool has_field = std::ranges::find(found.fields, form.text_field()) != found.fields.end();
  return found.is_object && (has_field || (is_json && !is_complete));
}

bool has_documents(const InputFile& file, const DocumentFormat& form) {
  return form.boundary != DocumentBoundary::none || is_json_lines(file, form);
}

std::optional<std::int64_t> find_end_of_text(const DocumentFormat& form,
                                             const Tokenizer& tokenizer) {
  if (!form.end_of_text) return std::nullopt;
  const std::string& name = *form.end_of_text;
  std::int64_t id = -1;
  if (const JsonTokenizer* const json = tokenizer.json_tokenizer()) id = json->id_of(name);
  if (const SentencePieceModel* const model = tokenizer.subword_model()) id = model->id_of(name);
  if (id >= 0) return id;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  const bool is_id = error == std::errc() && end == name.data() + name.size() && id >= 0 &&
                     id < tokenizer.vocabulary();
  return is_id ? std::optional(id) : std::nullopt;
}

std::optional<std::int64_t> end_of_text_id(const DocumentFormat& form, const Tokenizer& tokenizer) {
  const std::optional<std::int64_t> id = find_end_of_text(form, tokenizer);
  if (form.end_of_text && !id)
    throw ConfigurationError(
        "data.documents.end_token: expected an id from 0 to {}{}, found {}{}",
        tokenizer.vocabulary() - 1,
        tokenizer.needs_token_file()
            ? " or the name of a token of the tokenizer"
            : fmt::format(" (data.tokenizer.type: {} does not support token names)",
                          name_of(tokenizer.kind())),
        quote(*form.end_of_text),
        own_end_hint(tokenizer));
  return id;
}

std::optional<std::int64_t> end_of_text_id(const InputFile& file,
                                           const DocumentFormat& form,
                                           const Tokenizer& tokenizer) {
  return has_documents(file, form) ? end_of_text_id(form, tokenizer) : std::nullopt;
}

std::int64_t own_end_of_text(const Tokenizer& tokenizer) {
  if (const SentencePieceModel* const model = tokenizer.subword_model())
    return model->sentence_end();
  if (const JsonTokenizer* const json = tokenizer.json_tokenizer())
    for (const char* const name : usual_ends)
      if (const std::int64_t id = json->id_of(name); json->is_special(id)) return id;
  return -1;
}

std::string json_field(std::string_view line, const std::string& field, const std::string& place) {
  FieldFinder finder(field, place);
  nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
  return finder.take();
}

JsonBeginning beginning_of(const InputFile& file) {
  const std::shared_ptr<const InputFile> not_owned(std::shared_ptr<void>(), &file);
  DecompressedFile reader(not_owned, max_bytes_of_a_beginning);
  std::string bytes(max_bytes_of_a_beginning, '\0');
  bytes.resize(reader.read(bytes));
  std::string_view text = bytes;
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  JsonBeginning found;
  if (text.starts_with('[')) {
    const std::size_t next = text.find_first_not_of(blanks, 1);
    found.is_array_of_objects = next != std::string_view::npos && text[next] == '{';
  }
  if (!text.starts_with('{')) return found;
  const std::size_t end = text.find('\n');
  const bool is_cut = end == std::string_view::npos && bytes.size() == max_bytes_of_a_beginning;
  using nlohmann::json;
  std::string name;
  bool has_name = false;
  const auto see = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1) {
      name = value.get<std::string>();
      has_name = true;
    }
    if (event == json::parse_event_t::value && depth == 1 && value.is_string())
      found.fields.push_back(name);
    return depth == 0 || event == json::parse_event_t::key;
  };
  const json object = json::parse(text.substr(0, end), see, false);
  found.is_object = is_cut ? has_name : object.is_object();
  if (is_cut && has_name) found.fields.push_back(name);  // its value may be the truncated one
  return found;
}

}  // namespace longspan
