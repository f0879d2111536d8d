// Rotary positions: pairs of features turned by angles that grow with the position, so that a
// product of a query and a key knows their distance (Su et al. 2021).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Which features of a head are a pair. Weights made for one are not for the other.
enum class RotaryLayout : std::uint8_t {
  halves,     // j and j + n / 2 of the n that are turned (GPT-NeoX, Llama)
  neighbours  // 2j and 2j + 1 (RoFormer, GPT-J)
};

// Row t of out: factor cos(a) of all pairs, then factor sin(a), with a = (first + t) frequency.
// frequencies: [pairs] f64; out: [positions, 2 pairs] f32 or f64, written. Computed in double and
// rounded once.
struct CosSinTable {
  std::int64_t first = 0;
  double factor = 1;
  Tensor frequencies;
  Tensor out;
};
void fill_cos_sin_table(Cpu, const CosSinTable&);
void fill_cos_sin_table(Cuda, const CosSinTable&);

// y = x with the first 2 pairs features of each head turned as the row of `table` for its position
// says, or turned back: (u cos - v sin, v cos + u sin), or (u cos + v sin, v cos - u sin), which is
// the gradient of the former. x, y: [batch, time, heads, dim], of one dtype; table: [time, 2
// pairs], of the accumulator's. y is written and may be x.
struct RotaryArguments {
  RotaryLayout pairs = RotaryLayout::halves;
  bool inverse = false;
  Tensor x;
  Tensor table;
  Tensor y;
};
void apply_rotary(Cpu, const RotaryArguments&);
void apply_rotary(Cuda, const RotaryArguments&);

}  // namespace longspan
