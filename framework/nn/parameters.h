// The weights of a model: named, possibly split over tensor ranks, kept in flat buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/comm/process_mesh.h"
#include "framework/core/random.h"

namespace longspan {

// How a weight starts: a function of the seed, its name and the element's global index alone.
struct Initial {
  enum class Kind : std::uint8_t { constant, normal, uniform };

  Kind kind = Kind::constant;
  double mean = 0;
  double scale = 0;  // standard deviation, or half the width

  static Initial constant(double value) { return {Kind::constant, value, 0}; }
  static Initial normal(double deviation, double mean = 0) {
    return {Kind::normal, mean, deviation};
  }
  // Uniform in (-bound, bound).
  static Initial uniform(double bound) { return {Kind::uniform, 0, bound}; }
  // Glorot & Bengio 2010.
  static Initial xavier(std::int64_t in, std::int64_t out);
};

// This rank's part of a split axis: [begin, begin + count) of total, as even as it gets.
struct Part {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t total = 0;
};
Part part_of(std::int64_t total, int rank, int ranks);

struct Parameter {
  std::string name;  // "layers/0/attention/query/weight"
  Shape global_shape;
  int split_axis = -1;  // the axis divided over tensor ranks; -1: every rank holds all
  Part part;            // of the split axis
  bool decays = false;  // weight decay applies: matrices, not biases, norms or position biases
  Initial initial;

  Shape shape;             // of this rank's piece
  std::int64_t begin = 0;  // where it lies in the flat buffers, in elements
  // Set by Parameters::allocate.
  Tensor master;      // what the optimizer updates: f32, or f64 when computing in f64
  Tensor gradient;    // in master's dtype
  Tensor compute;     // what the forward pass reads: master itself, or its rounded copy
  Variable variable;  // the leaf over `compute`

  bool split() const { return split_axis >= 0; }
  // The corner of this rank's piece in the whole tensor.
  std::vector<std::int64_t> offset() const;
};

// What a layer keeps of its parameter.
using Weight = std::shared_ptr<const Parameter>;

class Parameters {
 public:
  Parameters(const Device& device, DType compute, const ProcessMesh& mesh)
      : device_(device), compute_(compute), mesh_(mesh) {}

  // Throws Failure when the name is taken.
  Weight add(const std::string& name,
             const Shape& global_shape,
             int split_axis,
             const Initial& initial,
             bool decays);

  // Once, after the model is built: makes the flat buffers and the initial weights. What is not
  // split comes first, so that it lies alike on all tensor ranks.
  void allocate(const Random& random);
  // Rounds the masters into the compute copies, where these are narrower.
  void refresh_compute() const;
  // Forgets the gradients. Costs nothing: the first to arrive overwrites.
  void clear_gradients() const;

  const std::vector<std::shared_ptr<Parameter>>& all() const { return parameters_; }
  // Throws Failure when there is none.
  const Parameter& named(const std::string& name) const;
  // True when a gradient is this tensor rank's share of a sum over the tensor ranks: with sequence
  // parallelism that of every weight that is not split.
  bool divided(const Parameter& parameter) const {
    return mesh_.shape.sequence && !parameter.split();
  }
  // Elements of the whole model, and of this rank's pieces.
  std::int64_t global_elements() const;
  std::int64_t local_elements() const;

  // The buffers that the parameters lie in, in the order of `all`; gaps hold zeros.
  const Tensor& flat_master() const { return flat_master_; }
  const Tensor& flat_gradient() const { return flat_gradient_; }

  const Device& device() const { return device_; }
  DType compute_dtype() const { return compute_; }
  const ProcessMesh& mesh() const { return mesh_; }

 private:
  Device device_;
  DType compute_;
  ProcessMesh mesh_;
  std::vector<std::shared_ptr<Parameter>> parameters_;
  Tensor flat_master_;
  Tensor flat_gradient_;
  Tensor flat_compute_;
};

// A place in the tree of names, where layers make their parameters.
class Scope {
 public:
  explicit Scope(Parameters& parameters) : parameters_(&parameters) {}

  Scope child(const std::string& name) const;
  Scope child(std::int64_t index) const { return child(std::to_string(index)); }
  const std::string& path() const { return path_; }

  // A matrix decays, a vector does not.
  Weight weight(const std::string& name,
                const Shape& global_shape,
                const Initial& initial,
                int split_axis = -1) const;
  // Never decays, whatever its shape.
  Weight undecayed(const std::string& name,
                   const Shape& global_shape,
                   const Initial& initial,
                   int split_axis = -1) const;

  const Parameters& parameters() const { return *parameters_; }
  // This tensor rank's part of an axis.
  Part part(std::int64_t total) const;

 private:
  Parameters* parameters_;
  std::string path_;
};

}  // namespace longspan
