// A JSON value with its path, for error messages.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace longspan {

// A view: the JSON must outlive it. Null equals absence. A value of another type throws DataError:
// the path, the found and the expected value.
class JsonCursor {
 public:
  JsonCursor(const nlohmann::json& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  bool is_present() const { return !value_->is_null(); }
  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  bool has(std::string_view key) const { return value_->is_object() && value_->contains(key); }
  const nlohmann::json& value() const { return *value_; }
  // Returns "FILE: model.vocab".
  std::string place() const { return path_.empty() ? place_ : place_ + ": " + path_; }

  // Accesses a member of an object; null where the key is absent.
  JsonCursor operator[](std::string_view key) const;
  // Accesses an element of a list.
  JsonCursor operator[](std::size_t index) const;
  // Requires a list or an object.
  std::size_t size() const;
  const std::string& text() const;
  std::string text_or(std::string_view otherwise) const;
  // Requires a string of a single character.
  char32_t character() const;
  bool flag(bool otherwise) const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double number() const;

  [[noreturn]] void throw_data_error(std::string_view wanted) const;
  // Throws DataError for an unsupported value.
  [[noreturn]] void unknown(std::string_view known) const;

 private:
  JsonCursor(const nlohmann::json& value, std::string place, std::string path)
      : value_(&value), place_(std::move(place)), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string place_;
  std::string path_;  // of keys, within the file
};

}  // namespace longspan
