// The header of a file of safetensors: what tensors there are and where they lie.
//
// Such a file is 8 bytes, the length n of the header as a little-endian integer; n bytes of JSON,
// an object with an entry {"dtype", "shape", "data_offsets": [begin, end]} for each tensor and, if
// one likes, "__metadata__" of texts; then the elements, little-endian and row-major, without gaps.
// Offsets count from the end of the header.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/dtype.h"

namespace longspan {

// What is longer is taken for no header: it would be of some hundred thousand tensors.
inline constexpr std::int64_t most_header_bytes = std::int64_t{16} << 20;
inline constexpr std::size_t most_stored_tensors = std::size_t{1} << 18;

struct StoredTensor {
  std::string dtype;  // as the format writes it: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // bytes from the end of the header
  std::int64_t end = 0;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// The dtype of that name here; nothing for one that Longspan has no weights of.
std::optional<DType> dtype_of_stored(std::string_view name);
// "F64", "F32", "F16" or "BF16".
std::string_view stored_name_of(DType dtype);

// Reads the JSON of a header, of a file with `data_bytes` of elements behind it. Throws DataError,
// which begins with `place`, for anything but what is described above: a name given twice, a dtype
// that the format does not have, a shape that overflows or is not what the offsets hold, tensors
// that overlap or leave bytes between or behind them. Takes memory for what it returns alone.
StoredTensors read_header(std::string_view json, std::int64_t data_bytes, const std::string& place);

// The inverse: tensors by name and shape in the order in which they are to lie, of one dtype. Ends
// in blanks so that the elements begin at a multiple of 8 bytes.
std::string header_text(
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors, DType dtype);

}  // namespace longspan
