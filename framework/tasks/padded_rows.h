// Token ids of unequal rows as a model reads them.
#pragma once

#include <span>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

struct PaddedRows {
  Tensor ids;      // [rows, longest], 0 behind a row's end; one column at least
  Tensor lengths;  // [rows]
};
PaddedRows padded_rows(std::span<const std::vector<std::int64_t>* const> rows, const Device& host);

}  // namespace longspan
