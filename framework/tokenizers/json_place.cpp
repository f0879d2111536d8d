#include "framework/tokenizers/json_place.h"

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/tokenizers/characters.h"

namespace longspan {
namespace {

const nlohmann::json nothing;

std::string found_text(const nlohmann::json& value) {
  if (value.is_null()) return "nothing";
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return truncated(value.dump());
}

}  // namespace

JsonCursor JsonCursor::operator[](std::string_view key) const {
  if (!value_->is_object()) throw_data_error("an object");
  const auto found = value_->find(key);
  return {found == value_->end() ? nothing : *found,
          place_,
          path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

JsonCursor JsonCursor::operator[](std::size_t index) const {
  if (index >= size() || !value_->is_array())
    throw_data_error(fmt::format("a list of more than {}", index));
  return {(*value_)[index], place_, fmt::format("{}[{}]", path_, index)};
}

std::size_t JsonCursor::size() const {
  if (!value_->is_structured()) throw_data_error("a list");
  return value_->size();
}

const std::string& JsonCursor::text() const {
  if (!value_->is_string()) throw_data_error("a string");
  return value_->get_ref<const std::string&>();
}

std::string JsonCursor::text_or(std::string_view otherwise) const {
  return is_present() ? text() : std::string(otherwise);
}

char32_t JsonCursor::character() const {
  const std::string& bytes = text();
  if (bytes.empty() || next_character(bytes).width != bytes.size())
    throw_data_error("one character");
  return next_character(bytes).code_point;
}

bool JsonCursor::flag(bool otherwise) const {
  if (!is_present()) return otherwise;
  if (!value_->is_boolean()) throw_data_error("true or false");
  return value_->get<bool>();
}

std::int64_t JsonCursor::integer(std::int64_t least, std::int64_t most) const {
  const bool fits = value_->is_number_unsigned()
                        ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most) &&
                              value_->get<std::int64_t>() >= least
                        : value_->is_number_integer() && value_->get<std::int64_t>() >= least &&
                              value_->get<std::int64_t>() <= most;
  if (!fits) throw_data_error(fmt::format("an integer from {} to {}", least, most));
  return value_->get<std::int64_t>();
}

double JsonCursor::number() const {
  if (!value_->is_number()) throw_data_error("a number");
  return value_->get<double>();
}

void JsonCursor::throw_data_error(std::string_view wanted) const {
  throw DataError(
      "{}: expected {}, found {}", truncated(place(), 300), wanted, found_text(*value_));
}

void JsonCursor::unknown(std::string_view known) const {
  throw_data_error(fmt::format("one of {}", known));
}

}  // namespace longspan
