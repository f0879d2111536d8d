// Rotary position embedding (RoPE, Su et al. 2021) and its scaling for sequences longer than those
// in training.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/core/range.h"

namespace longspan {

// With n rotated features, pair j rotates by base^(-2j / n) per position. Scaling of these
// frequencies:
enum class RotaryScaling : std::uint8_t {
  none,
  linear,  // all frequencies divided by `factor` (Chen et al. 2023)
  // base multiplied by factor^(n / (n - 2)): keeps the highest frequency and divides the lowest by
  // `factor` (NTK-aware interpolation)
  ntk,
  dynamic,  // ntk for sequences longer than the original length, by their length ratio
  // low frequencies divided by `factor`, high ones kept, with a ramp between; sharper scores (Peng
  // et al. 2024)
  yarn,
  llama3,  // as yarn, with a ramp over wavelengths (Llama 3.1)
  // each pair divided by its own factor: short factors, or long factors for sequences longer than
  // the original length (Ding et al. 2024)
  longrope
};

struct RotaryOptions {
  double base = 10000;
  double share = 1;  // fraction of the features of a head that are rotated: the first ones
  RotaryLayout pairs = RotaryLayout::halves;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;                          // ratio of the sequence length to the original one
  std::optional<std::int64_t> original = {};  // length that the base was trained for
  double low_frequency = 1;   // llama3: rotations in the original length; fewer are low frequency
  double high_frequency = 4;  // and more are high frequency
  double beta_fast = 32;      // yarn: rotations in the original length; more are high frequency
  double beta_slow = 1;
  std::vector<double> short_factors = {};  // longrope: one per pair
  std::vector<double> long_factors = {};
  // Factor of the rotated features. None: 0.1 ln(factor) + 1 for yarn, sqrt(1 + ln(factor) /
  // ln(original)) for longrope, otherwise 1.
  std::optional<double> attention_factor = {};

  // Returns the number of rotated features of a head of `dim`, which is even.
  std::int64_t turned(std::int64_t dim) const;
  // Returns whether the angles depend on the sequence length.
  bool by_length() const {
    return scaling == RotaryScaling::dynamic || scaling == RotaryScaling::longrope;
  }
};

// Returns an error message that starts with a key of section `model`, if heads of `dim` features do
// not support the options. Otherwise empty.
std::string validate_rotary(const RotaryOptions& options, std::int64_t dim);

// Angle per position of each pair, and factor of the rotated features.
struct RotaryAngles {
  std::vector<double> frequencies;
  double factor = 1;
};
// Returns the angles for a sequence of `length` positions.
RotaryAngles rotary_angles(const RotaryOptions& options, std::int64_t dim, std::int64_t length);

// Rotates the heads of a model. Copies share the last table, because the layers of a stack use the
// same positions in succession. Not thread-safe.
class Rotary {
 public:
  // Tables use the accumulator dtype of `compute`. Throws ConfigurationError with the message of
  // validate_rotary.
  Rotary(const RotaryOptions& options, std::int64_t dim, DType compute, const Device& device);

  // x: [batch, time, heads, dim], rows at `positions` of a sequence of `length`. Writes in place if
  // x has no other owner.
  Variable turn(Variable&& x, const Ranges& positions, std::int64_t length) const;

  // Returns the state of a linear recurrence over rotated keys, [batch, heads, dim, n], after the
  // `length` positions of a segment, rotated for a next segment whose positions start at 0. Its
  // queries then see the keys in the state at the right distances, if the frequencies of both
  // segments are equal (RotaryOptions::by_length).
  Tensor restart(const Tensor& state, std::int64_t length) const;

 private:
  struct Made {
    Ranges positions = {};
    std::int64_t length = 0;
    double factor = 1;
    Tensor frequencies;
    Tensor table;
  };
  Tensor table(const Ranges& positions, std::int64_t length) const;
  // Computes the frequencies for a sequence of `length` unless `made_` has them.
  void set_frequencies(std::int64_t length) const;

  RotaryOptions options_;
  std::int64_t dim_;
  DType dtype_;
  Device device_;
  std::shared_ptr<Made> made_;
};

}  // namespace longspan
