#include "checkpoints/json_fields.h"

#include <bit>
#include <charconv>
#include <limits>

#include "framework/core/quote.h"

namespace longspan {
namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 56;

Json json_of(const Shape& shape) {
  const auto extents = shape.extents();
  return std::vector<std::int64_t>(extents.begin(), extents.end());
}

// Returns nonnegative integers whose product, zeros aside, does not overflow.
std::vector<std::int64_t> integers_of(const Json& value, const std::string& place) {
  std::vector<std::int64_t> result;
  for (const Json& entry : array_of(value, place)) {
    if (result.size() == Shape::max_dimensions)
      throw DataError("{}: expected at most {} dimensions", place, Shape::max_dimensions);
    result.push_back(integer_of(entry, 0, max_elements, place));
  }
  return result;
}

Shape shape_of_json(const Json& value, const std::string& place) {
  const auto extents = integers_of(value, place);
  std::int64_t elements = 1;
  for (const auto extent : extents) {
    if (extent > 0 && elements > max_elements / extent)
      throw DataError("{}: expected a shape of at most 2^56 elements", place);
    if (extent > 0) elements *= extent;
  }
  return Shape(std::span<const std::int64_t>(extents));
}

DType dtype_of_json(const Json& value, const std::string& place) {
  const std::string& name = text_of(value, place);
  try {
    return parse_dtype(name);
  } catch (const DataError& error) {
    throw DataError("{}: {}", place, error.what());
  }
}

ManifestPiece piece_of_json(const Json& value,
                            const std::string& name,
                            const Shape& whole,
                            int files,
                            const std::string& place) {
  ManifestPiece piece;
  object_of(value, place);
  piece.file = static_cast<int>(integer_of(member(value, "file", place), 0, files - 1, place));
  piece.dataset = text_of(member(value, "dataset", place), place);
  const std::string& suffix = piece.dataset;
  int number = 0;
  if (suffix.size() > name.size() + 1)
    std::from_chars(suffix.data() + name.size() + 1, suffix.data() + suffix.size(), number);
  if (number < 0 || piece.dataset != dataset_name(name, number))
    throw DataError("{}: unexpected dataset {} of a piece", place, quote(piece.dataset));
  piece.box.shape = shape_of_json(member(value, "shape", place), place);
  piece.box.offset = integers_of(member(value, "offset", place), place);
  if (!lies_in(piece.box, full_box(whole).shape) || piece.box.shape.elements() == 0)
    throw DataError(
        "{}: piece {} is not within {}", place, piece.box.to_string(), whole.to_string());
  piece.hash = Hash::from_string(text_of(member(value, "hash", place), place), place);
  return piece;
}

}  // namespace

std::string bits_of(double value) {
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}

double double_of_bits(const std::string& digits, const std::string& place) {
  std::uint64_t bits = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  const double value = std::bit_cast<double>(bits);
  if (bits_of(value) != digits)
    throw DataError("{}: expected 16 hexadecimal digits, found {}", place, quote(digits));
  return value;
}

Json parse_json(const std::string& text, const std::string& place) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw DataError("{}: invalid JSON: {}", place, truncated(error.what(), 200));
  }
}

std::string found_text(const Json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return truncated(value.dump());
}

const Json& member(const Json& object, const std::string& key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end()) throw DataError("{}: missing \"{}\"", place, key);
  return *found;
}

std::int64_t integer_of(const Json& value,
                        std::int64_t least,
                        std::int64_t most,
                        const std::string& place) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < least || number > most)
    throw DataError(
        "{}: expected an integer from {} to {}, found {}", place, least, most, found_text(value));
  return number;
}

const std::string& text_of(const Json& value, const std::string& place) {
  if (!value.is_string())
    throw DataError("{}: expected a string, found {}", place, found_text(value));
  return value.get_ref<const std::string&>();
}

const Json& object_of(const Json& value, const std::string& place) {
  if (!value.is_object())
    throw DataError("{}: expected an object, found {}", place, found_text(value));
  return value;
}

const Json& array_of(const Json& value, const std::string& place) {
  if (!value.is_array())
    throw DataError("{}: expected an array, found {}", place, found_text(value));
  return value;
}

Json json_of(const Scalars& scalars) {
  Json result = Json::object();
  for (const auto& [name, value] : scalars.values()) {
    if (const auto* number = std::get_if<double>(&value))
      result[name] = {{"f64", bits_of(*number)}, {"value", *number}};
    else
      std::visit([&, &key = name](const auto& plain) { result[key] = plain; }, value);
  }
  return result;
}

Scalars scalars_of_json(const Json& value, const std::string& place) {
  Scalars scalars;
  for (const auto& [name, entry] : object_of(value, place).items()) {
    const std::string where = fmt::format("{}: scalar {}", place, quote(name));
    auto& result = scalars.values()[name];
    if (entry.is_boolean())
      result = entry.get<bool>();
    else if (entry.is_string())
      result = entry.get<std::string>();
    else if (entry.is_object())
      result = double_of_bits(text_of(member(entry, "f64", where), where), where);
    else
      result = integer_of(entry,
                          std::numeric_limits<std::int64_t>::min(),
                          std::numeric_limits<std::int64_t>::max(),
                          where);
  }
  return scalars;
}

Json json_of(const ManifestFile& file) {
  return {
      {"name", file.name}, {"bytes", file.content.bytes}, {"hash", file.content.hash.to_string()}};
}

ManifestFile file_of_json(const Json& value, const std::string& place) {
  object_of(value, place);
  ManifestFile file;
  file.name = text_of(member(value, "name", place), place);
  file.content.bytes = integer_of(member(value, "bytes", place), 0, std::int64_t{1} << 60, place);
  file.content.hash = Hash::from_string(text_of(member(value, "hash", place), place), place);
  return file;
}

Json json_of(const ManifestTensor& tensor) {
  Json pieces = Json::array();
  for (const ManifestPiece& piece : tensor.pieces)
    pieces.push_back({{"file", piece.file},
                      {"dataset", piece.dataset},
                      {"offset", piece.box.offset},
                      {"shape", json_of(piece.box.shape)},
                      {"hash", piece.hash.to_string()}});
  return {{"dtype", std::string(name_of(tensor.dtype))},
          {"shape", json_of(tensor.shape)},
          {"pieces", std::move(pieces)}};
}

ManifestTensor tensor_of_json(const Json& value,
                              const std::string& name,
                              int files,
                              const std::string& place) {
  const std::string where = fmt::format("{}: tensor {}", place, quote(name));
  if (const auto problem = validate_name(name); !problem.empty())
    throw DataError("{}: {}", where, problem);
  object_of(value, where);
  ManifestTensor tensor;
  tensor.dtype = dtype_of_json(member(value, "dtype", where), where);
  tensor.shape = shape_of_json(member(value, "shape", where), where);
  for (const Json& piece : array_of(member(value, "pieces", where), where))
    tensor.pieces.push_back(piece_of_json(piece, name, tensor.shape, files, where));
  return tensor;
}

}  // namespace longspan
