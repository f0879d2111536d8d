// The weights of a model: named, possibly split over tensor ranks, kept in blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/core/random.h"
#include "framework/distributed/process_mesh.h"
#include "framework/nn/ema_centroids.h"
#include "framework/nn/fine_tuning.h"

namespace longspan {

// How a weight starts: a function of the seed, its name and the element's global index alone.
struct Initializer {
  enum class Kind : std::uint8_t { constant, normal, uniform };

  Kind kind = Kind::constant;
  double mean = 0;
  double scale = 0;     // standard deviation, or half the width
  std::string as = {};  // drawn as the parameter of this name: it starts as its copy

  static Initializer constant(double value) { return {Kind::constant, value, 0}; }
  static Initializer normal(double deviation, double mean = 0) {
    return {Kind::normal, mean, deviation};
  }
  // Uniform in (-bound, bound).
  static Initializer uniform(double bound) { return {Kind::uniform, 0, bound}; }
  // Glorot & Bengio 2010.
  static Initializer xavier(std::int64_t in, std::int64_t out);
};

// What a parameter is held to after each update.
struct ValueBounds {
  double least = 0;
  double most = 0;
};

// This rank's part of a split axis: [begin, begin + count) of total, as even as it gets.
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t total = 0;
};
ShardRange shard_range(std::int64_t total, int rank, int ranks);

// What the replicas of a model share out instead of each holding all of it (ZeRO, Rajbhandari et
// al. 2020). The weights that the forward pass reads stay whole on every rank.
struct ZeroOptions {
  // 1: the optimizer's state and, where computing is in a narrower type, the masters. 2: the
  // gradients too.
  int zero = 0;
  // Gradients that are reduced, and weights that are gathered, together; at most a sixteenth of all
  // where gradients are shared out.
  double bucket_megabytes = 25;
};

struct Parameter {
  std::string name;  // "layers/0/attention/query/weight"
  Shape global_shape;
  int split_axis = -1;  // the axis divided over tensor ranks; -1: every rank holds all
  ShardRange part;      // of the split axis
  bool decays = false;  // weight decay applies: matrices, not biases, norms or position biases
  // Read in the dtype of computing: matrices, and on a GPU what its library adds to a product.
  // Others stay wide: they are small, and a rounded gain is felt by every element.
  bool rounded = false;
  // The weight of a layer that makes hidden states of hidden states: no table of an embedding, no
  // classes of an output.
  bool hidden = false;
  // Not split, but read where heads or features are: each tensor rank has the gradient of what its
  // own part makes of it.
  bool inside = false;
  Initializer initial;
  std::optional<ValueBounds> range = {};
  bool adapter = false;  // of an adapter
  // It stays as it is: a constant, without a gradient or anything of an optimizer.
  bool frozen = false;
  // Only the first so many steps of training read it: afterwards it is neither changed nor saved.
  // None: all do.
  std::optional<std::int64_t> active_steps = {};

  Shape shape;  // of this rank's piece
  // Rows of zeros behind the piece, which `variable` and its gradient have too and no other tensor
  // here. They make the rows of a GPU's logits whole multiples of 16 bytes, as its library's fast
  // products want.
  std::int64_t padding = 0;
  // Set by Parameters::allocate.
  Tensor master;      // f32, or f64 when computing in f64; undefined where masters are shared out
  Tensor gradient;    // in master's dtype; undefined where gradients are shared out, or frozen
  Tensor compute;     // what the forward pass reads: master itself, or its rounded copy
  Variable variable;  // the leaf, or constant, over `compute` and the padding
  // What this rank updates (and of what is frozen, saves): elements [own_begin, shard_end) of its
  // piece, all of them where nothing is shared out. Of what is trained they lie from `own_place` on
  // in buffers of `shard_elements` that hold every parameter's. The tensors are views of [shard_end
  // - own_begin].
  std::int64_t shard_begin = 0;
  std::int64_t shard_end = 0;
  std::int64_t own_place = 0;
  Tensor shard_master;
  Tensor shard_gradient;  // reduced
  Tensor shard_compute;   // undefined where `compute` is the master

  bool split() const { return split_axis >= 0; }
  // Of the variable.
  Shape padded_shape() const { return padding == 0 ? shape : shape.with(0, shape[0] + padding); }
  // The corner of this rank's piece in the whole tensor.
  std::vector<std::int64_t> offset() const;
};

// What products make of a parameter, beside what its shape says.
struct ParameterUse {
  bool bias = false;     // is added to one: on a GPU it is rounded
  bool classes = false;  // its rows are classes of an output layer: on a GPU they are padded
  bool hidden = false;   // see Parameter::hidden
  bool adapter = false;  // see Parameter::adapter
};

// What a layer keeps of its parameter.
using Weight = std::shared_ptr<const Parameter>;

// The layer that has it: "layers/0/attention/query" of that layer's "weight".
inline std::string_view layer_of(const Weight& weight) {
  const std::string_view name = weight->name;
  const std::size_t end = name.rfind('/');
  return end == name.npos ? std::string_view() : name.substr(0, end);
}

// What this rank updates of neighbours in a bucket that are treated alike, with the zeros between
// them: what an optimizer or a norm goes through at once. Tensors and place as a Parameter's own_*.
struct FlatParameterRun {
  std::int64_t own_place = 0;
  Tensor shard_master;
  Tensor shard_gradient;
  Tensor shard_compute;
  bool decays = false;
  bool answered_for = false;                      // see Parameters::is_primary_owner
  std::optional<std::int64_t> active_steps = {};  // see Parameter::active_steps
};

// Parameters that lie beside each other in one block, with zeros in the gaps: of one kind (trained
// or frozen, rounded or not, matrices or vectors, divided or not), so that what is divided lies
// alike on all ranks.
// What is shared out of it is cut into as many equal parts as there are ranks that share: part r is
// rank r's.
struct ParameterBucket {
  std::vector<std::shared_ptr<Parameter>> parameters;
  std::vector<std::int64_t> places;  // where each begins in the block, in elements
  std::int64_t elements = 0;         // of the block
  Communicator ranks;                // that hold the same weights: gradients are summed over them
  Tensor compute;                    // the block as the forward pass reads it
  Tensor gradient;                   // undefined where gradients are shared out, or frozen
  Tensor shard_gradient;             // this rank's part, or all
  Tensor shard_master;               // the same of these
  Tensor shard_compute;              // and of `compute`, where that is not the masters

  bool frozen() const { return parameters.front()->frozen; }
};

struct PowerOptions;  // power_statistics.h
struct PowerStatistics;
class Scope;

class Parameters {
 public:
  // `separate_masters`: what the forward pass reads is never the masters themselves, as an
  // optimizer trains at another point than the one it keeps.
  Parameters(const Device& device,
             DType compute,
             const ProcessMesh& mesh,
             const ZeroOptions& sharing = {},
             bool separate_masters = false,
             const FineTuning& tuning = {})
      : device_(device),
        compute_(compute),
        mesh_(mesh),
        sharing_(sharing),
        separate_masters_(separate_masters),
        tuning_(tuning) {}

  // Throws Failure when the name is taken.
  Weight add(const std::string& name,
             const Shape& global_shape,
             int split_axis,
             const Initializer& initial,
             bool decays,
             const ParameterUse& in_products = {},
             bool inside = false,
             const std::optional<ValueBounds>& range = {});

  // A linear layer between hidden states, which may have an adapter, is there.
  void add_linear_layer(const std::string& name) { linear_layers_.push_back(name); }

  // Centroids of all heads of a layer, of which this rank has its part; made by `allocate`.
  std::shared_ptr<const EmaCentroids> add_centroids(const std::string& name,
                                                    const Shape& global_shape,
                                                    double decay);

  // Of a power norm.
  std::shared_ptr<PowerStatistics> add_power_statistics(const std::string& name,
                                                        std::int64_t width,
                                                        const PowerOptions& options,
                                                        double epsilon);

  // Once, after the model is built: makes the blocks and the initial weights.
  void allocate(const Random& random);
  // After the masters have changed, where there is more than this rank's part of them: rounds them
  // into the compute copies and gathers these, frozen ones too.
  void refresh_compute() const;
  // After every rank has updated what it owns: brings the others' part of what is trained here.
  // Collective where something is shared out.
  void gather() const { gather(false); }
  // After an update, before `gather`: what this rank updates of the parameters that have a range
  // becomes the nearest numbers of it.
  void clamp_to_bounds() const;
  // After a step: centroids follow what fell to them, and the statistics of power norms their rows,
  // where the step counts. Collective where it does and there are any.
  void end_step(bool counts) const;
  // Forgets the gradients. Costs nothing: the first to arrive overwrites.
  void clear_gradients() const;

  const std::vector<std::shared_ptr<Parameter>>& all() const { return parameters_; }
  // Those that are not frozen, in the same order.
  const std::vector<std::shared_ptr<Parameter>>& trained() const { return trained_; }
  const std::vector<std::string>& linear_layers() const { return linear_layers_; }
  const FineTuning& tuning() const { return tuning_; }
  const std::vector<ParameterBucket>& buckets() const { return buckets_; }
  const std::vector<std::shared_ptr<EmaCentroids>>& centroids() const { return centroids_; }
  const std::vector<std::shared_ptr<PowerStatistics>>& power_statistics() const { return power_; }
  // Of all buckets that are trained; only where there is something to update, of what the next step
  // reads.
  const std::vector<FlatParameterRun>& runs() const { return runs_; }
  // Throws Failure when there is none.
  const Parameter& named(const std::string& name) const;
  // Nothing when there is none.
  Weight find(const std::string& name) const;
  // True when a gradient is this tensor rank's share of a sum over the tensor ranks: with sequence
  // parallelism that of every weight that is not split, without it that of those that are read
  // inside.
  bool divided(const Parameter& parameter) const {
    const bool inside = parameter.inside && mesh_.tensor.size() > 1;
    return (mesh_.shape.sequence || inside) && !parameter.split();
  }
  // Elements of the whole model.
  std::int64_t global_elements() const;
  // The same of what is trained.
  std::int64_t trained_elements() const;

  // Elements of a buffer for what this rank updates, such as a moment of its optimizer.
  std::int64_t shard_elements() const { return own_elements_; }
  // Whether what this rank owns of a parameter is its to count and to save: over all ranks for
  // which it is, each element of the model is owned exactly once.
  bool is_primary_owner(const Parameter& parameter) const;
  const ZeroOptions& sharing() const { return sharing_; }
  bool separate_masters() const { return separate_masters_; }

  // Steps that the weights were trained for: what is drawn anew every so many of them.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps);
  // Whether the step after these reads a parameter (Parameter::active_steps).
  bool reads(const Parameter& parameter) const { return reads(parameter.active_steps); }
  // Says so of all that there are in a scope.
  void read_for(const Scope& scope, std::int64_t steps) const;

  const Device& device() const { return device_; }
  DType compute_dtype() const { return compute_; }
  const ProcessMesh& mesh() const { return mesh_; }

 private:
  bool reads(const std::optional<std::int64_t>& steps) const { return !steps || steps_ < *steps; }
  void gather(bool frozen_too) const;
  void fill_buckets();
  void allocate(ParameterBucket& bucket);
  void add_runs(const ParameterBucket& bucket, const FlatParameterRun& whole);
  void initialize(const Parameter& parameter, const Random& random) const;

  Device device_;
  DType compute_;
  ProcessMesh mesh_;
  ZeroOptions sharing_;
  bool separate_masters_;
  FineTuning tuning_;
  std::vector<std::shared_ptr<Parameter>> parameters_;
  std::vector<std::shared_ptr<Parameter>> trained_;
  std::vector<std::string> linear_layers_;
  std::unordered_map<std::string, Weight> by_name_;
  std::vector<ParameterBucket> buckets_;
  std::vector<std::shared_ptr<EmaCentroids>> centroids_;
  std::vector<std::shared_ptr<PowerStatistics>> power_;
  std::vector<FlatParameterRun> all_runs_;
  std::vector<FlatParameterRun> runs_;  // of them those that are read
  std::int64_t own_elements_ = 0;
  std::int64_t steps_ = 0;
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
                const Initializer& initial,
                int split_axis = -1) const;
  // The weight of a layer between hidden states. It decays.
  Weight hidden_matrix(const std::string& name,
                       const Shape& global_shape,
                       const Initializer& initial,
                       int split_axis) const;
  // Of an adapter. `inside`: read in a split region. It decays.
  Weight adapter(const std::string& name,
                 const Shape& global_shape,
                 const Initializer& initial,
                 int split_axis,
                 bool inside) const;
  // A matrix that every tensor rank has whole and reads for its own heads alone.
  Weight replicated_weight(const std::string& name,
                           const Shape& global_shape,
                           const Initializer& initial) const;
  // The same of the whole model, by its name alone: made by the first layer that asks for it.
  Weight inside_weight_of_model(const std::string& name,
                                const Shape& global_shape,
                                const Initializer& initial) const;
  // "bias", which a product adds. Zeros at first, does not decay.
  Weight bias(std::int64_t elements, int split_axis = -1) const;
  // "weight" [count, width], which decays, and "bias" of an output layer of so many classes, split
  // over them.
  Weight classes(std::int64_t count, std::int64_t width, const Initializer& initial) const;
  Weight class_bias(std::int64_t count) const;
  // Of the layer's heads: [heads, clusters, dim].
  std::shared_ptr<const EmaCentroids> centroids(const std::string& name,
                                                const Shape& global_shape,
                                                double decay) const;
  // Of the power norm of this scope.
  std::shared_ptr<PowerStatistics> power_statistics(std::int64_t width,
                                                    const PowerOptions& options,
                                                    double epsilon) const;
  // Never decays, whatever its shape.
  Weight no_decay_weight(const std::string& name,
                         const Shape& global_shape,
                         const Initializer& initial,
                         int split_axis = -1) const;

  // Nor does this, which is held to a range.
  Weight bounded(const std::string& name,
                 const Shape& global_shape,
                 const Initializer& initial,
                 const ValueBounds& range,
                 int split_axis = -1) const;

  // This is the place of a linear layer between hidden states.
  void add_linear_layer() const { parameters_->add_linear_layer(path_); }
  // What was made here so far is read by the first `steps` steps of training alone.
  void read_for(std::int64_t steps) const { parameters_->read_for(*this, steps); }

  const Parameters& parameters() const { return *parameters_; }
  // This tensor rank's part of an axis.
  ShardRange part(std::int64_t total) const;

 private:
  Parameters* parameters_;
  std::string path_;
};

}  // namespace longspan
