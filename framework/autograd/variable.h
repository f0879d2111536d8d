// Reverse-mode automatic differentiation: an op is a free function that computes its output and
// records a closure for its gradient. This file does not depend on layers.
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

// Node of a variable on the tape: its gradient accumulator and the op that produced it. Does not
// hold the value, so that a value lives only as long as a consumer needs it.
struct Edge;

// A value, with its tape node if it requires a gradient. A handle: copies are the same variable.
class Variable {
 public:
  Variable() = default;
  // Creates a constant, which receives no gradient.
  explicit Variable(Tensor value) : value_(std::move(value)) {}

  // Creates a leaf that accumulates a gradient in `gradient_dtype` (by default that of the value).
  // Accumulates in `gradient` if given: a range of a flat buffer.
  static Variable leaf(Tensor value, DType gradient_dtype, Tensor gradient = {});
  static Variable leaf(Tensor value) {
    const DType dtype = value.dtype();
    return leaf(std::move(value), dtype);
  }

  bool defined() const { return value_.defined(); }
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  bool requires_grad() const { return edge_ != nullptr; }

  // Returns the accumulated gradient. Undefined if none has arrived since the last
  // `clear_gradient`. Requires a leaf.
  Tensor gradient() const;
  void clear_gradient() const;
  // Sets the gradient to zeros, as if one had arrived. Requires a leaf with its own buffer.
  void zero_gradient() const;
  // Accumulates the gradient in the tensor that `buffer` returns. Called when the first gradient
  // arrives after a `clear_gradient`, which releases the tensor. An empty function restores the
  // default.
  void set_gradient_buffer(std::function<Tensor()> buffer) const;
  // Sets a callback that `backward` invokes once the gradient of this leaf is complete.
  void register_gradient_hook(std::function<void()> action) const;

  // Returns true if both are the same tape variable, or constants over the same elements.
  bool same_as(const Variable& other) const {
    return edge_ == other.edge_ && value_.bytes() == other.value_.bytes();
  }

  // Returns the value as a constant.
  Variable detach() const { return Variable(value_); }

 private:
  friend class Tape;

  Tensor value_;
  std::shared_ptr<Edge> edge_;
};

// Returns whether this thread records ops.
bool is_recording();

// Destination of an input's gradient in a closure: overwritten, or added to if `add` is true.
struct GradientTarget {
  Tensor tensor;
  bool add = false;
};

using BackwardFunction = std::function<void(BackwardContext&)>;

// Records an op on the tape. The closure must capture only the tensors it needs, never a Variable
// of an output. If no input requires a gradient, or recording is off, the output is a constant and
// the closure is dropped. `place`: source location of the op, for the profiler (core/span.h).
Variable record(Tensor value,
                const std::vector<Variable>& inputs,
                BackwardFunction backward,
                const std::source_location& place = std::source_location::current());

// As above, for several outputs.
std::vector<Variable> record(std::vector<Tensor> values,
                             const std::vector<Variable>& inputs,
                             BackwardFunction backward,
                             const std::source_location& place = std::source_location::current());

// Argument of a closure in the backward pass.
class BackwardContext {
 public:
  // Returns true if output i has a gradient. Unused outputs have none.
  bool has_output(std::size_t output = 0) const;
  // Return the gradient of an output. release_output transfers ownership, so that it can be
  // overwritten: it copies only if the gradient has another owner.
  const Tensor& output(std::size_t output = 0) const;
  Tensor release_output(std::size_t output = 0);

  // Returns true if the gradient of input i is needed.
  bool needs_gradient(std::size_t input) const;
  // Returns the destination of an input's gradient, in the shape of its value.
  GradientTarget target(std::size_t input);
  // As above, for kernels that only add: zeros at first use.
  Tensor accumulate_target(std::size_t input);
  // Sets a gradient with the input's dtype and number of elements. The caller must not write to it
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
  // Called after each op, to progress other work (pending collectives).
  std::function<void()> between = {};
  // Whether `register_gradient_hook` callbacks are invoked. A node that runs a nested tape inside
  // its closure (recomputation, reversible stacks) lists the leaves as its inputs. The outer
  // backward pass then invokes the callbacks.
  bool announce_leaves = true;
};

// Runs the tape backward from the roots, newest op first, and adds to the gradients of the leaves.
// `seeds`: gradients of the roots. Ops are released as they run, so a tape can be run only once.
void backward(const std::vector<Variable>& roots,
              std::vector<Tensor> seeds,
              const BackwardOptions& options = {});
// As above, from a root of one element, with seed 1.
void backward(const Variable& root, const BackwardOptions& options = {});

// Disables recording on this thread during its lifetime.
class NoGradGuard {
 public:
  NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;
  ~NoGradGuard();

 private:
  bool before_;
};

// Enables recording on this thread during its lifetime, also inside a NoGradGuard. For
// recomputation in a backward pass.
class EnableGradGuard {
 public:
  EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;
  ~EnableGradGuard();

 private:
  bool before_;
};

// Records the leaves that this thread's ops read during its lifetime, recorded or not. Throws
// Failure in an op that reads a non-leaf variable of the tape.
class LeafRecorder {
 public:
  LeafRecorder();
  LeafRecorder(const LeafRecorder&) = delete;
  LeafRecorder& operator=(const LeafRecorder&) = delete;
  ~LeafRecorder();
  // Returns each leaf once, in the order of first use.
  const std::vector<Variable>& leaves() const { return leaves_; }

 private:
  friend class Tape;
  std::vector<Variable> leaves_;
  LeafRecorder* before_;
};

}  // namespace longspan
