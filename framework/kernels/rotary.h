// Rotary position embeddings: rotates pairs of features by angles proportional to the position.
// Query-key products then depend on the relative position (Su et al. 2021).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Pairing of the features of a head. Weights trained with one layout do not work with the other.
enum class RotaryLayout : std::uint8_t {
  halves,    // j and j + n / 2 of the n rotated features (GPT-NeoX, Llama)
  neighbors  // 2j and 2j + 1 (RoFormer, GPT-J)
};

// Row t of out: factor cos(a) of all pairs, then factor sin(a), with a = (first + t) frequency.
// frequencies: [pairs] f64; out: [positions, 2 pairs] f32 or f64, overwritten. Computed in double
// and rounded once.
struct CosSinTable {
  std::int64_t first = 0;
  double factor = 1;
  Tensor frequencies;
  Tensor out;
};
void fill_cos_sin_table(Cpu, const CosSinTable&);
void fill_cos_sin_table(Cuda, const CosSinTable&);

// Rotates the first 2 pairs features of each head by the angles in the row of `table` of its
// position: (u cos - v sin, v cos + u sin). The inverse rotation, (u cos + v sin, v cos - u sin),
// is the gradient. x, y: [batch, time, heads, dim], same dtype. table: [time, 2 pairs], accumulator
// dtype. Overwrites y, which may alias x.
struct RotaryArguments {
  RotaryLayout pairs = RotaryLayout::halves;
  bool inverse = false;
  Tensor x;
  Tensor table;
  Tensor y;
};
void apply_rotary(Cpu, const RotaryArguments&);
void apply_rotary(Cuda, const RotaryArguments&);

// Common layouts, which are not interchangeable.
enum class SinusoidLayout : std::uint8_t {
  interleaved,  // sin and cos alternate, 10000^(-2m/d) (Vaswani et al. 2017)
  halves,       // first all sin, then all cos, 10000^(-2m/d) (Transformer-XL)
  // as `halves`, with 10000^(-m/(d/2-1)), so that the last is exactly 1/10000 (tensor2tensor,
  // fairseq)
  halves_geometric
};

// Encodings of positions first, first + 1, .... Positions beyond `clamp` are clamped to it (clamp <
// 0: no clamping). out: [positions, width], floating, overwritten. An odd last column is 0.
// Computed in double and rounded once.
struct Sinusoids {
  SinusoidLayout layout = SinusoidLayout::interleaved;
  std::int64_t first = 0;
  std::int64_t clamp = -1;
  Tensor out;
};
void fill_sinusoids(Cpu, const Sinusoids&);
void fill_sinusoids(Cuda, const Sinusoids&);

}  // namespace longspan
