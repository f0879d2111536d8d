// Pads token id rows to one length.
#pragma once

#include <span>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

struct PaddedRows {
  Tensor ids;      // [rows, longest], 0 after a row's end; at least one column
  Tensor lengths;  // [rows]
};
PaddedRows padded_rows(std::span<const std::vector<std::int64_t>* const> rows, const Device& host);

}  // namespace longspan
