#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "framework/core/quote.h"
#include "framework/interop/safetensors.h"

namespace longspan {
namespace {

constexpr std::int64_t max_offset = std::int64_t{1} << 60;
constexpr std::int64_t max_bits = std::int64_t{1} << 62;
constexpr std::size_t max_dimensions = 64;
constexpr std::string_view metadata_key = "__metadata__";

struct StoredType {
  std::string_view name;
  std::int64_t bits;
};
// All dtypes of the format.
constexpr std::array<StoredType, 20> stored_types = {{
    {"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
    {"I32", 32},    {"U32", 32}, {"F32", 32}, {"F64", 64},    {"I64", 64},
    {"U64", 64},    {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
}};

std::int64_t bits_of_stored(const std::string& dtype) {
  const auto found = std::ranges::find(stored_types, dtype, &StoredType::name);
  return found == stored_types.end() ? 0 : found->bits;
}

// SAX handler that stores only the tensors. Throws for unexpected content.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(const std::string& place) : place_(place) {}
  StoredTensors take() && { return std::move(tensors_); }

  bool null() override {
    // MLX writes `"__metadata__": null`.
    if (depth_ != 1 || !in_metadata_) return scalar("null");
    in_metadata_ = false;
    name_.clear();
    return true;
  }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_float(double, const std::string& text) override { return scalar(shown_number(text)); }
  bool number_integer(std::int64_t value) override { return scalar(fmt::format("{}", value)); }
  bool number_unsigned(std::uint64_t value) override {
    if (depth_ != 2 || list_ == nullptr) return scalar(fmt::format("{}", value));
    if (value > static_cast<std::uint64_t>(max_offset))
      wrong(fmt::format("\"{}\": expected at most 2^60, found {}", field_, value));
    if (list_->size() == max_dimensions)
      wrong(fmt::format("\"{}\": expected at most {} numbers", field_, max_dimensions));
    list_->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || list_ != nullptr || field_ != "dtype") return scalar(quote(text));
    if (bits_of_stored(text) == 0) wrong(fmt::format("unknown dtype {}", quote(text)));
    entry_->dtype = std::move(text);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) override { return scalar("bytes"); }
  bool start_object(std::size_t) override {
    if (depth_ == 2 || list_ != nullptr) scalar("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) {
      if (!in_metadata_) check_entry();
      in_metadata_ = false;
      name_.clear();
    }
    return true;
  }
  bool start_array(std::size_t) override {
    const bool is_list = depth_ == 2 && list_ == nullptr && !in_metadata_ &&
                         (field_ == "shape" || field_ == "data_offsets");
    if (!is_list) return scalar("a list");
    list_ = field_ == "shape" ? &entry_->shape : &offsets_;
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1)
      begin_entry(text);
    else if (!in_metadata_)
      begin_field(text);
    return true;
  }
  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::json::exception&) override {
    throw DataError("{}: invalid JSON in the header at byte {}", place_, position);
  }

 private:
  static std::string shown_number(const std::string& text) { return truncated(text); }
  [[noreturn]] void wrong(const std::string& what) const {
    if (name_.empty()) throw DataError("{}: header: {}", place_, what);
    throw DataError("{}: tensor {}: {}", place_, quote(name_), what);
  }
  // Rejects a value at an unexpected position.
  bool scalar(const std::string& found) const {
    if (depth_ == 0) wrong(fmt::format("expected an object, found {}", found));
    if (depth_ == 1) wrong(fmt::format("expected an object, found {}", found));
    if (in_metadata_) wrong(fmt::format("expected a string, found {}", found));
    wrong(fmt::format("\"{}\": expected {}, found {}",
                      field_,
                      field_ == "dtype" ? "a dtype name" : "integers of at least 0",
                      found));
  }
  void begin_entry(std::string& name) {
    name_ = name;
    if (name == metadata_key) {
      if (had_metadata_) wrong("duplicate entry");
      in_metadata_ = had_metadata_ = true;
      return;
    }
    if (tensors_.size() == max_stored_tensors)
      throw DataError("{}: header: expected at most {} tensors", place_, max_stored_tensors);
    const auto [place, is_new] = tensors_.try_emplace(std::move(name));
    if (!is_new) wrong("duplicate entry");
    entry_ = &place->second;
    fields_ = 0;
    offsets_.clear();
  }
  void begin_field(const std::string& name) {
    const unsigned bit = name == "dtype" ? 1 : name == "shape" ? 2 : name == "data_offsets" ? 4 : 0;
    if (bit == 0)
      wrong(
          fmt::format("expected \"dtype\", \"shape\" and \"data_offsets\", found {}", quote(name)));
    if ((fields_ & bit) != 0) wrong(fmt::format("duplicate \"{}\"", name));
    fields_ |= bit;
    field_ = name;
  }
  void check_entry() {
    if (fields_ != 7) wrong("missing \"dtype\", \"shape\" or \"data_offsets\"");
    if (offsets_.size() != 2)
      wrong(fmt::format("\"data_offsets\": expected 2 numbers, found {}", offsets_.size()));
    entry_->begin = offsets_[0];
    entry_->end = offsets_[1];
    std::int64_t bits = bits_of_stored(entry_->dtype);
    for (const std::int64_t extent : entry_->shape) {
      if (extent > 0 && bits > max_bits / extent) wrong("shape overflows");
      bits *= extent;
    }
    if (entry_->begin > entry_->end || bits % 8 != 0 || bits / 8 != entry_->end - entry_->begin)
      wrong(fmt::format("expected {} bytes for {} of shape [{}], found offsets {} to {}",
                        bits / 8,
                        entry_->dtype,
                        fmt::join(entry_->shape, ", "),
                        entry_->begin,
                        entry_->end));
    entry_->shape.shrink_to_fit();
  }

  const std::string& place_;
  StoredTensors tensors_;
  std::string name_;
  std::string field_;
  StoredTensor* entry_ = nullptr;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t>* list_ = nullptr;  // destination of numbers
  unsigned fields_ = 0;
  int depth_ = 0;
  bool in_metadata_ = false;
  bool had_metadata_ = false;
};

// Checks that the tensors are contiguous and cover the data.
void check_offsets(const StoredTensors& tensors,
                   std::int64_t data_bytes,
                   const std::string& place) {
  std::vector<const StoredTensors::value_type*> in_order;
  in_order.reserve(tensors.size());
  for (const auto& tensor : tensors) in_order.push_back(&tensor);
  std::ranges::sort(in_order, {}, [](const auto* tensor) {
    return std::pair(tensor->second.begin, tensor->second.end);
  });
  std::int64_t end = 0;
  for (const auto* tensor : in_order) {
    const auto& [name, stored] = *tensor;
    if (stored.end > data_bytes)
      throw DataError("{}: tensor {}: ends at byte {}, but the file has {} bytes of elements",
                      place,
                      quote(name),
                      stored.end,
                      data_bytes);
    if (stored.begin != end)
      throw DataError("{}: tensor {}: begins at byte {}, {} the previous tensor, which ends at {}",
                      place,
                      quote(name),
                      stored.begin,
                      stored.begin < end ? "within" : "with a gap after",
                      end);
    end = stored.end;
  }
  if (end != data_bytes)
    throw DataError("{}: {} unused bytes after the last tensor", place, data_bytes - end);
}

}  // namespace

std::optional<DType> dtype_of_stored(std::string_view name) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    if (name == stored_name_of(dtype)) return dtype;
  return std::nullopt;
}

std::string_view stored_name_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    default:
      throw Failure("expected a floating-point dtype of weights, found {}", name_of(dtype));
  }
}

StoredTensors read_header(std::string_view json,
                          std::int64_t data_bytes,
                          const std::string& place) {
  HeaderEvents events(place);
  nlohmann::json::sax_parse(json.begin(), json.end(), &events);
  StoredTensors tensors = std::move(events).take();
  check_offsets(tensors, data_bytes, place);
  return tensors;
}

std::string header_text(
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors, DType dtype) {
  nlohmann::ordered_json header = {{metadata_key, {{"format", "pt"}}}};
  std::int64_t begin = 0;
  for (const auto& [name, shape] : tensors) {
    auto end = static_cast<std::int64_t>(size_of(dtype));
    for (const std::int64_t extent : shape) end *= extent;
    end += begin;
    header[name] = {
        {"dtype", stored_name_of(dtype)}, {"shape", shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace longspan
