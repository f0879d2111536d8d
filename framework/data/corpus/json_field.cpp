#include "framework/data/corpus/json_field.h"

#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/decompressed_file.h"

namespace longspan {
namespace {

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
