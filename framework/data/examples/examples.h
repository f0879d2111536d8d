// Indexed examples of one format, which length-batched sources read, and the index of their file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Offsets and lengths of the examples of a file, 8 bytes an example.

class ExampleIndex {
 public:
  static constexpr std::int64_t max_offset = (std::int64_t{1} << 40) - 1;
  static constexpr std::int64_t max_tokens = (std::int64_t{1} << 24) - 1;

  // Appends an example that begins at this byte. Throws DataError, prefixed with `place`, when a
  // value does not fit.
  void add(std::int64_t offset, std::int64_t tokens, std::string_view place);
  // Sets the end of the last example.
  void finish(std::int64_t end) { end_ = end; }

  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  // Returns the first byte of an example; it ends where the next one begins.
  std::int64_t begin(std::int64_t example) const {
    return static_cast<std::int64_t>(at(example).offset);
  }
  std::int64_t end(std::int64_t example) const {
    return example + 1 < size() ? begin(example + 1) : end_;
  }
  std::int64_t tokens(std::int64_t example) const {
    return static_cast<std::int64_t>(at(example).tokens);
  }

  // Serializes the index for other ranks of an equal machine architecture, and back.
  std::string bytes() const;
  static ExampleIndex from_bytes(std::string_view bytes);

 private:
  struct Entry {
    std::uint64_t offset : 40;
    std::uint64_t tokens : 24;
  };
  static_assert(sizeof(Entry) == 8);
  const Entry& at(std::int64_t example) const {
    return entries_[static_cast<std::size_t>(example)];
  }

  std::vector<Entry> entries_;
  std::int64_t end_ = 0;
};

}  // namespace longspan
