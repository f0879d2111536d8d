// Rotary positions (Su et al. 2021) and the ways in which their angles are made for longer
// sequences than a model was trained on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/autograd/rotary.h"
#include "framework/core/range.h"

namespace longspan {

// With n features turned, pair j turns by base^(-2j / n) at each position. What becomes of that:
enum class RotaryScaling : std::uint8_t {
  none,
  linear,  // all frequencies divided by the factor (Chen et al. 2023)
  ntk,     // a base larger by factor^(n / (n - 2)): the fastest pair as before, the slowest divided
           // by the factor (NTK-aware interpolation)
  dynamic,  // the same once a sequence is longer than the original length, by how much it is
  yarn,     // slow pairs divided by the factor, fast ones not, between them a ramp; scores sharper
            // (Peng et al. 2024)
  llama3,   // the same with a ramp over wavelengths (Llama 3.1)
  longrope  // each pair divided by a number of its own, of the short factors or, where a sequence
            // is longer than the original length, of the long ones (Ding et al. 2024)
};

struct RotaryOptions {
  double base = 10000;
  double share = 1;  // of a head's features, that are turned: the first ones
  RotaryLayout pairs = RotaryLayout::halves;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;  // how much longer sequences are than the original ones
  std::optional<std::int64_t> original = {};  // the length that the base was trained for
  double low_frequency = 1;   // of llama3: turns in the original length, below which
  double high_frequency = 4;  // a pair is slow, and above which it is fast
  double beta_fast = 32;      // of yarn: the same, above and below
  double beta_slow = 1;
  std::vector<double> short_factors = {};  // of longrope, one a pair
  std::vector<double> long_factors = {};
  // What turned features are multiplied by; none: of yarn 0.1 ln(factor) + 1, of longrope sqrt(1 +
  // ln(factor) / ln(original)), else 1.
  std::optional<double> attention_factor = {};

  // Features of a head of `dim` that are turned, an even number.
  std::int64_t turned(std::int64_t dim) const;
  // Whether angles depend on how long the sequence is that is read together.
  bool by_length() const {
    return scaling == RotaryScaling::dynamic || scaling == RotaryScaling::longrope;
  }
};

// What keeps heads of `dim` features from being turned so, as a sentence that begins with a key of
// the section model; empty where nothing does.
std::string rotary_problem(const RotaryOptions& options, std::int64_t dim);

// By position, the angle of each pair; and what turned features are multiplied by.
struct RotaryAngles {
  std::vector<double> frequencies;
  double factor = 1;
};
// Of a sequence of `length` positions.
RotaryAngles rotary_angles(const RotaryOptions& options, std::int64_t dim, std::int64_t length);

// Turns the heads of a model. Copies share the table that was made last: the layers of a stack turn
// by the same positions, one after another. For one thread.
class Rotary {
 public:
  // Tables are made in the accumulator's dtype of `compute`. Throws ConfigurationError with
  // rotary_problem.
  Rotary(const RotaryOptions& options, std::int64_t dim, DType compute, const Device& device);

  // x: [batch, time, heads, dim], whose rows stand at `positions` of a sequence of `length`.
  // Written over x where nobody else holds it.
  Variable turn(Variable&& x, const Ranges& positions, std::int64_t length) const;

 private:
  struct Made {
    Ranges positions = {};
    std::int64_t length = 0;
    double factor = 1;
    Tensor frequencies;
    Tensor table;
  };
  Tensor table(const Ranges& positions, std::int64_t length) const;

  RotaryOptions options_;
  std::int64_t dim_;
  DType dtype_;
  Device device_;
  std::shared_ptr<Made> made_;
};

}  // namespace longspan
