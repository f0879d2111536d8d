// Shared helpers of golden families: tolerances, weights, time-major data.
#pragma once

#include <string>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/nn/parameters.h"
#include "models/model_options.h"
#include "tests/golden/golden_file.h"

namespace longspan::golden {

// Requires |found - expected| <= tolerance * max(1, largest |expected|) and equal numbers of
// elements.
inline constexpr double output_tolerance = 1e-11;
inline constexpr double gradient_tolerance = 1e-10;
void expect_output(const GoldenFile& file, const std::string& name, const Tensor& found);
void expect_gradient(const GoldenFile& file, const std::string& name, const Tensor& found);
void expect_near(const std::string& what,
                 const Tensor& found,
                 const Tensor& expected,
                 double tolerance);

// Parses the attribute "activation".
FeedForwardActivation activation_of(const GoldenFile& file);

// Requires that the attribute equals `found`.
void expect_extent(const GoldenFile& file, const std::string& attribute, std::int64_t found);

// A leaf over a copy of inputs/NAME or weights/NAME.
Variable leaf_of(const GoldenFile& file, const std::string& dataset);
// A leaf's gradient; zeros where none arrived.
Tensor gradient_of(const Variable& leaf);

// Copies weights/NAME into the parameters. Several names receive successive parts of the leading
// axis (stacked projections).
void load(const GoldenFile& file,
          const std::string& weight,
          const Parameters& parameters,
          const std::vector<std::string>& names);
// Compares gradients/NAME with the gradients of these parameters.
void expect_weight_gradient(const GoldenFile& file,
                            const std::string& weight,
                            const Parameters& parameters,
                            const std::vector<std::string>& names);

// Maps a weight of a file to parameters.
struct WeightName {
  std::string weight;
  std::vector<std::string> parameters;
};
// Loads all parameters from the file. Throws if a parameter is not in the list.
void load(const GoldenFile& file,
          const std::vector<WeightName>& names,
          const Parameters& parameters);
void expect_weight_gradients(const GoldenFile& file,
                             const std::vector<WeightName>& names,
                             const Parameters& parameters);

// [a, b, ...] to [b, a, ...].
Tensor exchanged_leading_axes(const Tensor& tensor);
// Reverses the rows of the leading axis.
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
// The file's key mask under any of its names, as u8 with 1 for padding. Padding masks have 1 for
// padding; other masks have 1 for visible keys.
Tensor padding_of(const GoldenFile& file);
// [batch, time] i64: the position of each token in its document, from inputs/document; undefined
// without it. Document 0 continues the initial state, so that its first token is far from 0.
Tensor document_positions(const GoldenFile& file);

}  // namespace longspan::golden
