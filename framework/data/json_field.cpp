#include "framework/data/json_field.h"

#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/option_text.h"

namespace longspan {
namespace {

// Hears of values as the parser comes to them.
class FieldFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  FieldFinder(const std::string& field, const std::string& place) : field_(field), place_(place) {}

  std::string take() {
    if (!is_found_) throw DataError("{}: found no field {}", place_, in_quotes(field_));
    return std::move(text_);
  }

  bool null() override { return see("null"); }
  bool boolean(bool) override { return see("true or false"); }
  bool number_integer(number_integer_t) override { return see("a number"); }
  bool number_unsigned(number_unsigned_t) override { return see("a number"); }
  bool number_float(number_float_t, const string_t&) override { return see("a number"); }
  bool binary(binary_t&) override { return see("bytes"); }
  bool string(string_t& value) override {
    if (is_wanted_) {
      text_ = std::move(value);
      is_found_ = true;
      is_wanted_ = false;
      return true;
    }
    return see("a text");
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
    if (depth_ != 1 || name != field_) return true;
    if (is_found_) throw DataError("{}: the field {} is there twice", place_, in_quotes(field_));
    is_wanted_ = true;
    return true;
  }
  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::json::exception& error) override {
    throw DataError("{}: is not JSON at byte {} of the line: {}",
                    place_,
                    position > 0 ? position - 1 : 0,
                    shortened(error.what(), 200));
  }

 private:
  bool see(const char* what) {
    if (depth_ == 0) throw DataError("{}: found {}; wanted an object", place_, what);
    if (is_wanted_)
      throw DataError(
          "{}: found {} in the field {}; wanted a text", place_, what, in_quotes(field_));
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::string& field_;
  const std::string& place_;
  std::string text_;
  std::int64_t depth_ = 0;
  bool is_wanted_ = false;  // what comes next is of the field
  bool is_found_ = false;
};

}  // namespace

std::string json_field(std::string_view line, const std::string& field, const std::string& place) {
  FieldFinder finder(field, place);
  nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
  return finder.take();
}

}  // namespace longspan
