// Indexed examples of one format, which length-batched sources read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "framework/core/device.h"
#include "framework/core/random.h"
#include "framework/data/batch.h"
#include "framework/data/examples/images.h"

namespace longspan {

// Lengths of an example in tokens, or of a batch in columns. Only pairs have a source.
struct Lengths {
  std::int64_t source = 0;
  std::int64_t target = 0;

  std::int64_t total() const { return source + target; }
  friend bool operator==(const Lengths&, const Lengths&) = default;
};

// Rows of a batch to read.
struct BatchRequest {
  std::span<const std::int64_t> examples;  // one a row; -1: an empty row
  Lengths columns;                         // fit the longest example
  std::int64_t longest = 0;                // tokens per side that are kept; 0: all
  bool with_left_out = false;              // adds a field with tags that truncation drops
  // Random key of the run and the epoch where examples are sampled; otherwise the seed.
  Random place = Random(0);
  // Sampling sharpness of subword regularization (Kudo 2018); 0: no sampling.
  double subword_sampling = 0;
};

// Reading is thread-safe and caches nothing of the file.
class Examples {
 public:
  virtual ~Examples() = default;

  virtual std::int64_t size() const = 0;
  // Path of the examples, for messages.
  virtual const std::string& path() const = 0;
  // Returns "FILE:LINE" of the beginning of an example.
  virtual std::string place(std::int64_t example) const = 0;
  // Returns the lengths in tokens, without truncation; `target` is never 0.
  virtual Lengths lengths(std::int64_t example) const = 0;
  // Number of target columns in addition to its tokens.
  virtual std::int64_t extra_columns() const { return 0; }
  // Common shape of the images.
  virtual std::optional<ImageShape> image() const { return std::nullopt; }
  // Returns whether examples can be truncated.
  virtual bool can_be_cut() const { return true; }
  // Returns an error about labels absent from training, or "". Only for examples that accept such
  // labels; their `label` is ignored_target.
  virtual std::string validate_label() const { return ""; }
  // Returns the fields and counts of these rows. Padding has id 0 and target ignored_target. Throws
  // DataError when the file has changed.
  virtual Batch read(const BatchRequest& request) const = 0;
};

// Returns an i64 host field filled with `value`.
Tensor full_tensor(const Shape& shape, std::int64_t value);

// Returns a row of a field.
std::span<std::int64_t> row_of(const Tensor& field, std::size_t row);

}  // namespace longspan
