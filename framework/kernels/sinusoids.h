// Sinusoidal position encodings.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

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
