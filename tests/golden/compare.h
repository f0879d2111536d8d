// What the golden families share: tolerances, weights in and out, time-major data.
#pragma once

#include <string>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/nn/parameters.h"
#include "models/model_options.h"
#include "tests/golden/golden_file.h"

namespace longspan::golden {

// |found - expected| <= tolerance * max(1, largest |expected|), and the same number of elements.
inline constexpr double output_tolerance = 1e-11;
inline constexpr double gradient_tolerance = 1e-10;
void expect_output(const GoldenFile& file, const std::string& name, const Tensor& found);
void expect_gradient(const GoldenFile& file, const std::string& name, const Tensor& found);
void expect_near(const std::string& what,
                 const Tensor& found,
                 const Tensor& expected,
                 double tolerance);

// Of the attribute "activation".
FeedForwardActivation activation_of(const GoldenFile& file);

// The extent that an attribute states is the one that was found.
void expect_extent(const GoldenFile& file, const std::string& attribute, std::int64_t found);

// A leaf over a copy of inputs/NAME or weights/NAME.
Variable leaf_of(const GoldenFile& file, const std::string& dataset);
// A leaf's gradient; zeros where none arrived.
Tensor gradient_of(const Variable& leaf);

// Writes weights/NAME into a parameter, or parts of its leading axis, as even as the parameters
// are many, into several ("stacked" projections).
void load(const GoldenFile& file,
          const std::string& weight,
          const Parameters& parameters,
          const std::vector<std::string>& names);
// Compares gradients/NAME with the gradients of the same parameters.
void expect_weight_gradient(const GoldenFile& file,
                            const std::string& weight,
                            const Parameters& parameters,
                            const std::vector<std::string>& names);

// Which parameters each weight of a file is.
struct WeightName {
  std::string weight;
  std::vector<std::string> parameters;
};
// All of the parameters' weights come from the file: throws where one is not in the list.
void load(const GoldenFile& file,
          const std::vector<WeightName>& names,
          const Parameters& parameters);
void expect_weight_gradients(const GoldenFile& file,
                             const std::vector<WeightName>& names,
                             const Parameters& parameters);

// [a, b, ...] to [b, a, ...].
Tensor exchanged_leading_axes(const Tensor& tensor);
// The rows of the leading axis, last first.
Tensor reversed(const Tensor& tensor);
// [batch * heads, time, dim] as [batch * heads, time, 1, dim]: each row is a batch row of one head.
Variable by_row(const Variable& x);
// [batch, heads, time, dim] as [batch, time, heads, dim], and back.
Variable inside(const Variable& x);
Variable outside(const Variable& x);
// The hyperbolic tangent of each element, in float64.
Variable tanh_of(const Variable& x);
// A mask of 0 and 1 as u8; throws DataError for other numbers.
Tensor mask_of(const GoldenFile& file, const std::string& dataset);
// The file's mask of keys, whatever its name, as u8 with 1 for padding. Files say it both ways: a
// padding mask has 1 for padding, the others 1 for what is seen.
Tensor padding_of(const GoldenFile& file);

}  // namespace longspan::golden
