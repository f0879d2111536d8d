// Reverse-mode differentiation: an op is a free function that computes its output and records a
// closure for the gradient. Nothing here knows a layer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

class BackwardContext;

// What a variable is on the tape: where its gradient is collected and what produced it. It does not
// hold the value, so that a value lives only as long as somebody needs it.
struct Edge;

// A value, and its place on the tape if a gradient is wanted. A handle: copies are the same
// variable.
class Variable {
 public:
  Variable() = default;
  // A constant: nothing flows back into it.
  explicit Variable(Tensor value) : value_(std::move(value)) {}

  // A leaf that collects a gradient in `gradient_dtype` (by default the value's). The gradient is
  // collected in `gradient` where one is given: a range of a flat buffer.
  static Variable leaf(Tensor value, DType gradient_dtype, Tensor gradient = {});
  static Variable leaf(Tensor value) {
    const DType dtype = value.dtype();
    return leaf(std::move(value), dtype);
  }

  bool defined() const { return value_.defined(); }
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  bool requires_grad() const { return edge_ != nullptr; }

  // Leaves only. The collected gradient; undefined when nothing has arrived since the last
  // `clear_gradient`.
  Tensor gradient() const;
  void clear_gradient() const;
  // A gradient of zeros has arrived. Only for leaves with a buffer of their own.
  void zero_gradient() const;
  // The gradient is collected in what `buffer` returns. It is asked when the first part arrives
  // after a `clear_gradient`, which lets go of the buffer. An empty function: as without it.
  void set_gradient_buffer(std::function<Tensor()> buffer) const;
  // Called in `backward` as soon as the gradient of this leaf is complete.
  void register_gradient_hook(std::function<void()> action) const;

  // True when both are the same variable of the tape, or constants over the same elements.
  bool same_as(const Variable& other) const {
    return edge_ == other.edge_ && value_.bytes() == other.value_.bytes();
  }

  // The value without its past.
  Variable detach() const { return Variable(value_); }

 private:
  friend class Tape;

  Tensor value_;
  std::shared_ptr<Edge> edge_;
};

// Whether this thread records ops.
bool is_recording();

// Where a closure writes the gradient of an input: `tensor` is to be written, or added to where
// `add` is true.
struct GradientTarget {
  Tensor tensor;
  bool add = false;
};

using BackwardFunction = std::function<void(BackwardContext&)>;

// Enters an op in the tape. The closure keeps the tensors it needs, never a Variable of an output.
// Where no input requires a gradient, or recording is off, the output is a constant and the closure
// is dropped. `place`: the op, for whoever asks where the time goes (core/span.h).
Variable record(Tensor value,
                const std::vector<Variable>& inputs,
                BackwardFunction backward,
                const std::source_location& place = std::source_location::current());

// The same for several outputs.
std::vector<Variable> record(std::vector<Tensor> values,
                             const std::vector<Variable>& inputs,
                             BackwardFunction backward,
                             const std::source_location& place = std::source_location::current());

// What a closure sees while the tape is walked back.
class BackwardContext {
 public:
  // True when output i has a gradient (an output that nobody used has none).
  bool has_output(std::size_t output = 0) const;
  // The gradient of an output. The second form gives it away, so that it can be written over: a
  // copy is made only where somebody else holds it.
  const Tensor& output(std::size_t output = 0) const;
  Tensor release_output(std::size_t output = 0);

  // True when the gradient of input i is wanted.
  bool needs_gradient(std::size_t input) const;
  // A place for the gradient of an input, shaped as its value.
  GradientTarget target(std::size_t input);
  // The same for kernels that only add: zeros the first time.
  Tensor accumulate_target(std::size_t input);
  // Hands over a gradient of the input's dtype and number of elements. The caller must not write it
  // afterwards.
  void set(std::size_t input, Tensor gradient);

 private:
  friend class Tape;
  BackwardContext(std::span<const std::shared_ptr<Edge>> inputs, std::vector<Tensor> outputs)
      : inputs_(inputs), outputs_(std::move(outputs)) {}

  std::span<const std::shared_ptr<Edge>> inputs_;
  std::vector<Tensor> outputs_;
};

struct BackwardOptions {
  // Called after each op, to move other work on (collectives under way).
  std::function<void()> between = {};
  // Whether `register_gradient_hook` actions are called. A node that walks a tape of its own inside
  // its closure (recomputation, reversible stacks) lists the leaves as its inputs and leaves the
  // call to the outer walk.
  bool announce_leaves = true;
};

// Walks the tape from the roots, newest op first, and adds to the gradients of the leaves. `seeds`
// are the gradients of the roots. Ops are released as they are done: a tape is walked once.
void backward(const std::vector<Variable>& roots,
              std::vector<Tensor> seeds,
              const BackwardOptions& options = {});
// From a root of one element, with seed 1.
void backward(const Variable& root, const BackwardOptions& options = {});

// While one lives, this thread records nothing.
class NoGradGuard {
 public:
  NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;
  ~NoGradGuard();

 private:
  bool before_;
};

// While one lives, this thread records, also inside a NoGradGuard: for recomputation within a
// backward pass.
class EnableGradGuard {
 public:
  EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;
  ~EnableGradGuard();

 private:
  bool before_;
};

// While one lives, it notes the leaves that this thread's ops read, recorded or not. Throws Failure
// in the op that reads what another op has computed on the tape.
class LeafRecorder {
 public:
  LeafRecorder();
  LeafRecorder(const LeafRecorder&) = delete;
  LeafRecorder& operator=(const LeafRecorder&) = delete;
  ~LeafRecorder();
  // Each once, in the order in which they were first read.
  const std::vector<Variable>& leaves() const { return leaves_; }

 private:
  friend class Tape;
  std::vector<Variable> leaves_;
  LeafRecorder* before_;
};

}  // namespace longspan
