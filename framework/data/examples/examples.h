// What a source in batches of like length reads: a numbered set of examples of one kind.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "framework/core/device.h"
#include "framework/core/random.h"
#include "framework/data/batch.h"
#include "framework/data/examples/image_shape.h"

namespace longspan {

// Of an example in tokens, or of a batch in columns. Only pairs have a source.
struct Lengths {
  std::int64_t source = 0;
  std::int64_t target = 0;

  std::int64_t total() const { return source + target; }
  friend bool operator==(const Lengths&, const Lengths&) = default;
};

// Some rows of a batch.
struct BatchRequest {
  std::span<const std::int64_t> examples;  // one a row; -1: an empty row
  Lengths columns;                         // which hold the longest of them
  std::int64_t longest = 0;    // tokens of a side after which an example is cut; 0: none
  bool with_left_out = false;  // whether a field names the tags that a cut leaves out
  // Of the run and the epoch, where something is drawn for each example; the seed otherwise.
  Random place = Random(0);
  // How sharply subwords are drawn (Kudo 2018); 0: the usual ones.
  double subword_sampling = 0;
};

// Reading is thread-safe and holds nothing of the file.
class Examples {
 public:
  virtual ~Examples() = default;

  virtual std::int64_t size() const = 0;
  // What the examples are read from, for messages.
  virtual const std::string& path() const = 0;
  // "FILE:LINE" where an example begins.
  virtual std::string place(std::int64_t example) const = 0;
  // Tokens, nothing cut; `target` is never 0.
  virtual Lengths lengths(std::int64_t example) const = 0;
  // Columns of the target beside those of its tokens.
  virtual std::int64_t extra_columns() const { return 0; }
  // Of images the shape, which all have.
  virtual std::optional<ImageShape> image() const { return std::nullopt; }
  // Whether a part of an example is an example.
  virtual bool can_be_cut() const { return true; }
  // What is wrong with a label, as an error begins; "" where training had all of them. Only of
  // examples that may have others, whose `label` is ignored_target.
  virtual std::string label_problem() const { return ""; }
  // Fields and counts of these rows; ids of padding are 0, its targets ignored_target. Throws
  // DataError where the file has changed.
  virtual Batch read(const BatchRequest& request) const = 0;
};

// A field of i64 for the host, each element `value`.
Tensor full_tensor(const Shape& shape, std::int64_t value);

// The row of a field.
std::span<std::int64_t> row_of(const Tensor& field, std::size_t row);

}  // namespace longspan
