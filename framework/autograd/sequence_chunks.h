// Rows of one rank in a sharded sequence, range by range. Private to framework/autograd.
#pragma once

#include <vector>

#include "framework/core/range.h"
#include "framework/core/tensor.h"
#include "framework/kernels/attention/attention.h"

namespace longspan {

// Copies rows of x [batch, time, heads, dim] between tensors.
void move_rows(const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count);

// Returns the rows of x [batch, time, heads, dim] of each range as a separate tensor. Throws
// Failure if rows and positions differ in number.
std::vector<Tensor> pieces_of(const Tensor& x, const Ranges& ranges);
// Inverse. Requires at least one piece.
Tensor joined(const std::vector<Tensor>& pieces);

// Returns the padding of each range of each rank, from that of a full sequence, [batch, positions]
// u8. Throws Failure if it does not cover all positions of the ranks.
std::vector<std::vector<Tensor>> padding_pieces(const Tensor& padding,
                                                std::int64_t batch,
                                                const std::vector<Ranges>& positions);

// Splits a sorted sequence by position ranges of queries and keys. Throws Failure if it does not
// cover all positions.
class SequenceParts {
 public:
  // `queries`: ranges of this rank, counted from the first query. `keys`: ranges of each rank.
  SequenceParts(const SortedSequence& whole,
                const Ranges& queries,
                const std::vector<Ranges>& keys);
  // Returns the parts for range i of the queries and range j of a rank's keys.
  SortedSequence between(std::size_t i, std::size_t rank, std::size_t j) const;

 private:
  SortedSequence whole_;
  std::vector<SortedSequence> queries_;
  std::vector<std::vector<SortedSequence>> keys_;
};

// Returns whether every position of a sequence is in exactly one range of one rank, and no range
// exceeds it.
bool cover_once(const std::vector<Ranges>& positions, const Range& sequence);

// Keys and values of one rank, or their gradients, in the layout for transfers: concatenated over
// position ranges, in a block sized for the largest rank.
class Block {
 public:
  struct Form {
    Shape key;    // [batch, any, heads, dim]
    Shape value;  // [batch, any, heads, value_dim]
    std::int64_t rows = 0;

    std::int64_t row_elements() const { return key[0] * key[2] * (key[3] + value[3]); }
  };

  Block() = default;
  Block(const Form& form, DType dtype, const Device& device, MemoryTag tag)
      : form_(form),
        elements_(Tensor::empty({form.rows * form.row_elements()}, dtype, device, tag)) {}

  const Tensor& elements() const { return elements_; }
  // Requires the ranges of the rank that owns the block.
  Tensor key(const Ranges& ranges, std::size_t i) const {
    const std::int64_t begin = begin_of(ranges, i);
    return view(begin, form_.key.with(1, ranges[i].count()));
  }
  Tensor value(const Ranges& ranges, std::size_t i) const {
    const Shape keys = form_.key.with(1, ranges[i].count());
    return view(begin_of(ranges, i) + keys.elements(), form_.value.with(1, ranges[i].count()));
  }

 private:
  std::int64_t begin_of(const Ranges& ranges, std::size_t i) const {
    std::int64_t rows = 0;
    for (std::size_t before = 0; before < i; ++before) rows += ranges[before].count();
    return rows * form_.row_elements();
  }
  Tensor view(std::int64_t begin, const Shape& shape) const {
    return elements_.slice(begin, begin + shape.elements()).reshape(shape);
  }

  Form form_;
  Tensor elements_;
};

}  // namespace longspan
