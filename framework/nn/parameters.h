// Model weights: named, optionally split over tensor ranks, and stored in contiguous buckets.
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
#include "framework/core/range.h"
#include "framework/distributed/process_mesh.h"
#include "framework/nn/fine_tuning.h"
#include "framework/nn/power_statistics.h"
#include "framework/nn/recurrent_state.h"

namespace longspan {

// Initial values of a weight, a function only of the seed, its name and the element's global index.
struct Initializer {
  enum class Kind : std::uint8_t { constant, normal, uniform, power };

  Kind kind = Kind::constant;
  double mean = 0;
  double scale = 0;     // standard deviation, half the range, or height of the power
  double exponent = 1;  // of the power
  // name whose random numbers are drawn: the weight starts as a copy of that parameter
  std::string as = {};

  static Initializer constant(double value) { return {Kind::constant, value, 0}; }
  static Initializer normal(double deviation, double mean = 0) {
    return {Kind::normal, mean, deviation};
  }
  // Uniform in (-bound, bound).
  static Initializer uniform(double bound) { return {Kind::uniform, 0, bound}; }
  // Uniform in (least, most).
  static Initializer between(double least, double most) {
    return {Kind::uniform, (least + most) / 2, (most - least) / 2};
  }
  // first + (last - first) (i / n)^exponent for element i of n: a curve over a layer's channels.
  static Initializer power(double first, double last, double exponent) {
    return {Kind::power, first, last - first, exponent};
  }
  // Glorot and Bengio 2010.
  static Initializer xavier(std::int64_t in, std::int64_t out);
};

// Range that a parameter is clamped to after each update.
struct ValueBounds {
  double least = 0;
  double most = 0;
};

// State that the replicas of a model shard instead of replicating (ZeRO, Rajbhandari et al. 2020).
// The weights that the forward pass reads are replicated on every rank.
struct ZeroOptions {
  // 1: optimizer state and, if the compute dtype is narrower, the master weights. 2: also the
  // gradients.
  int zero = 0;
  // Size of the buckets in which gradients are reduced and weights are gathered, in MB. With
  // sharded gradients at most a sixteenth of the total.
  double bucket_megabytes = 25;
};

struct Parameter {
  std::string name;  // "layers/0/attention/query/weight"
  Shape global_shape;
  int split_axis = -1;  // axis split over tensor ranks; -1: replicated
  ShardRange part;      // this rank's part of the split axis
  bool decays = false;  // weight decay applies: matrices, not biases, norms or position biases
  // Rounded to the compute dtype: matrices and, on a GPU, biases that the GEMM library adds to a
  // product. Other parameters keep the wide dtype: they are small, and rounding a gain affects
  // every element.
  bool rounded = false;
  // The weight of a layer between hidden states: neither an embedding table nor the classes of an
  // output layer.
  bool hidden = false;
  // Not split, but read where heads or features are split. Each tensor rank has the gradient of its
  // own part.
  bool inside = false;
  Initializer initial;
  std::optional<ValueBounds> range = {};
  bool adapter = false;  // weight of a LoRA adapter
  // Constant, without gradient or optimizer state.
  bool frozen = false;
  // Number of first training steps that read the parameter. Later it is neither updated nor saved.
  // None: all steps.
  std::optional<std::int64_t> active_steps = {};

  Shape shape;  // shape of this rank's shard
  // Zero rows after the shard, present only in `variable` and its gradient. They make the rows of
  // the logits a multiple of 16 bytes, as the fast GEMMs of the GPU library require.
  std::int64_t padding = 0;
  // Set by Parameters::allocate.
  Tensor master;      // f32, or f64 with compute dtype f64; undefined if masters are sharded
  Tensor gradient;    // in the dtype of master; undefined if gradients are sharded, or if frozen
  Tensor compute;     // what the forward pass reads: master itself, or its rounded copy
  Variable variable;  // leaf, or constant if frozen, over `compute` and the padding
  // Elements [shard_begin, shard_end) of the local piece, which this rank updates (or saves, if
  // frozen). All elements if nothing is sharded. Trained ones start at `shard_offset` in buffers of
  // `shard_elements` that hold all parameters. The tensors are views of [shard_end - shard_begin].
  std::int64_t shard_begin = 0;
  std::int64_t shard_end = 0;
  std::int64_t shard_offset = 0;
  Tensor shard_master;
  Tensor shard_gradient;  // after the reduction
  Tensor shard_compute;   // undefined if `compute` is the master

  bool split() const { return split_axis >= 0; }
  // Shape of `variable`.
  Shape padded_shape() const { return padding == 0 ? shape : shape.with(0, shape[0] + padding); }
  // Offset of this rank's shard in the global tensor.
  std::vector<std::int64_t> offset() const;
};

// Use of a parameter in matrix products, in addition to its shape.
struct ParameterUse {
  bool bias = false;     // added to a product; rounded on a GPU
  bool classes = false;  // rows are classes of an output layer; padded on a GPU
  bool hidden = false;   // see Parameter::hidden
  bool adapter = false;  // see Parameter::adapter
};

// A layer's handle to its parameter.
using Weight = std::shared_ptr<const Parameter>;

// Returns the path of the layer that has the weight: "layers/0/attention/query" for
// "layers/0/attention/query/weight".
inline std::string_view layer_of(const Weight& weight) {
  const std::string_view name = weight->name;
  const std::size_t end = name.rfind('/');
  return end == name.npos ? std::string_view() : name.substr(0, end);
}

// Contiguous range of elements that this rank updates, of bucket neighbors with equal settings and
// the zeros between them. Optimizers and norms process a range at once. Members as in Parameter.
struct FlatParameterRun {
  std::int64_t shard_offset = 0;
  Tensor shard_master;
  Tensor shard_gradient;
  Tensor shard_compute;
  bool decays = false;
  bool answered_for = false;                      // see Parameters::is_primary_owner
  std::optional<std::int64_t> active_steps = {};  // see Parameter::active_steps
};

// Parameters stored contiguously in one block, with zeros in the gaps. All parameters of a bucket
// have the same kind: trained or frozen, rounded or not, matrix or vector, split or not. Split
// parameters therefore have the same layout on all ranks. If sharded, the block is cut into equal
// parts, one for each rank in `ranks`: part r is that of rank r.
struct ParameterBucket {
  std::vector<std::shared_ptr<Parameter>> parameters;
  std::vector<std::int64_t> places;  // offset of each parameter in the block, in elements
  std::int64_t elements = 0;         // size of the block
  // ranks that hold the same weights; gradients are summed over them
  Communicator ranks;
  Tensor compute;         // the block as the forward pass reads it
  Tensor gradient;        // undefined if gradients are sharded, or if frozen
  Tensor shard_gradient;  // this rank's part, or the full block
  Tensor shard_master;    // this rank's part of the masters
  // this rank's part of `compute`; undefined if that is the masters
  Tensor shard_compute;

  bool frozen() const { return parameters.front()->frozen; }
};

struct PowerOptions;  // power_statistics.h
struct PowerStatistics;
class Scope;

class Parameters {
 public:
  // `separate_masters`: `compute` never aliases the masters, because the optimizer trains at
  // another point than the one it stores.
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

  // Throws Failure if the name exists.
  Weight add(const std::string& name,
             const Shape& global_shape,
             int split_axis,
             const Initializer& initial,
             bool decays,
             const ParameterUse& in_products = {},
             bool inside = false,
             const std::optional<ValueBounds>& range = {});

  // Registers a linear layer between hidden states, which may have an adapter.
  void add_linear_layer(const std::string& name) { linear_layers_.push_back(name); }

  // Registers centroids for all heads of a layer, of which this rank has its shard. `allocate`
  // creates them.
  std::shared_ptr<const EmaCentroids> add_centroids(const std::string& name,
                                                    const Shape& global_shape,
                                                    double decay);

  // Registers the running statistics of a power norm.
  std::shared_ptr<PowerStatistics> add_power_statistics(const std::string& name,
                                                        std::int64_t width,
                                                        const PowerOptions& options,
                                                        double epsilon);

  // Registers a tensor of the recurrent state of a layer. Throws Failure if the name exists.
  void add_recurrent_state(const RecurrentStateSpec& spec);

  // Allocates the buckets and initializes the weights. Requires one call, after the model is built.
  void allocate(const Random& random);
  // Rounds the masters into the compute copies and gathers these, including frozen ones. Requires a
  // call after the masters were replaced, such as by loading. Collective if anything is sharded.
  void refresh_compute() const;
  // Gathers the updated shards of trained parameters from all ranks. Requires that every rank has
  // updated its shard. Collective if anything is sharded.
  void gather() const { gather(false); }
  // Clamps this rank's shard of the bounded parameters to their range. Requires a call after an
  // update, before `gather`.
  void clamp_to_bounds() const;
  // Ends a step: if `counts`, updates centroids and power norm statistics. Collective if `counts`
  // and there are any.
  void end_step(bool counts) const;
  // Clears the gradients at no cost: the first gradient to arrive overwrites.
  void clear_gradients() const;

  const std::vector<std::shared_ptr<Parameter>>& all() const { return parameters_; }
  // Parameters that are not frozen, in the order of all().
  const std::vector<std::shared_ptr<Parameter>>& trained() const { return trained_; }
  const std::vector<std::string>& linear_layers() const { return linear_layers_; }
  const FineTuning& tuning() const { return tuning_; }
  const std::vector<ParameterBucket>& buckets() const { return buckets_; }
  const std::vector<std::shared_ptr<EmaCentroids>>& centroids() const { return centroids_; }
  const std::vector<RecurrentStateSpec>& recurrent_states() const { return recurrent_states_; }
  const std::vector<std::shared_ptr<PowerStatistics>>& power_statistics() const { return power_; }
  // Ranges of all trained buckets that are not empty and that the next step reads.
  const std::vector<FlatParameterRun>& runs() const { return runs_; }
  // Throws Failure if there is none.
  const Parameter& named(const std::string& name) const;
  // Returns null if there is none.
  Weight find(const std::string& name) const;
  // Returns whether a gradient is this tensor rank's summand of a sum over the tensor ranks. True
  // for weights that are not split: with sequence parallelism for all of them, otherwise for those
  // read inside split regions.
  bool divided(const Parameter& parameter) const {
    const bool inside = parameter.inside && mesh_.tensor.size() > 1;
    return (mesh_.shape.sequence || inside) && !parameter.split();
  }
  // Number of elements of the full model.
  std::int64_t global_elements() const;
  // Number of trained elements of the full model.
  std::int64_t trained_elements() const;

  // Size of a buffer for this rank's updates, such as an optimizer moment, in elements.
  std::int64_t shard_elements() const { return shard_elements_; }
  // Returns whether this rank counts and saves its shard of a parameter. Over the ranks for which
  // this is true, each element of the model occurs exactly once.
  bool is_primary_owner(const Parameter& parameter) const;
  const ZeroOptions& sharing() const { return sharing_; }
  bool separate_masters() const { return separate_masters_; }

  // Number of steps the weights were trained for. Random features are redrawn at a multiple of it.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps);
  // Returns whether the next step reads a parameter (Parameter::active_steps).
  bool reads(const Parameter& parameter) const { return reads(parameter.active_steps); }
  // Sets active_steps of all existing parameters in a scope.
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
  std::vector<RecurrentStateSpec> recurrent_states_;
  std::vector<FlatParameterRun> all_runs_;
  std::vector<FlatParameterRun> runs_;  // subset of all_runs_ that the next step reads
  std::int64_t shard_elements_ = 0;
  std::int64_t steps_ = 0;
};

// Path in the tree of names in which layers create their parameters.
class Scope {
 public:
  explicit Scope(Parameters& parameters) : parameters_(&parameters) {}

  Scope child(const std::string& name) const;
  Scope child(std::int64_t index) const { return child(std::to_string(index)); }
  const std::string& path() const { return path_; }

  // Creates a parameter. Matrices have weight decay, vectors do not.
  Weight weight(const std::string& name,
                const Shape& global_shape,
                const Initializer& initial,
                int split_axis = -1) const;
  // Creates the weight of a layer between hidden states, with weight decay.
  Weight hidden_matrix(const std::string& name,
                       const Shape& global_shape,
                       const Initializer& initial,
                       int split_axis) const;
  // Creates the weight of an adapter, with weight decay. `inside`: read in a split region.
  Weight adapter(const std::string& name,
                 const Shape& global_shape,
                 const Initializer& initial,
                 int split_axis,
                 bool inside) const;
  // Creates a matrix that is replicated on tensor ranks, each of which reads it for its own heads.
  Weight replicated_weight(const std::string& name,
                           const Shape& global_shape,
                           const Initializer& initial) const;
  // As replicated_weight, but shared by the model: its name has no prefix and the first caller
  // creates it.
  Weight inside_weight_of_model(const std::string& name,
                                const Shape& global_shape,
                                const Initializer& initial) const;
  // Creates "bias", which a product adds. Initialized with zeros, without weight decay.
  Weight bias(std::int64_t elements,
              int split_axis = -1,
              const Initializer& initial = Initializer::constant(0)) const;
  // Create "weight" [count, width], with weight decay, and "bias" of an output layer with `count`
  // classes, split over the classes.
  Weight classes(std::int64_t count, std::int64_t width, const Initializer& initial) const;
  Weight class_bias(std::int64_t count) const;
  // Creates centroids for the layer's heads: [heads, clusters, dim].
  std::shared_ptr<const EmaCentroids> centroids(const std::string& name,
                                                const Shape& global_shape,
                                                double decay) const;
  // Creates the statistics of the power norm at this path.
  std::shared_ptr<PowerStatistics> power_statistics(std::int64_t width,
                                                    const PowerOptions& options,
                                                    double epsilon) const;
  // Creates a parameter without weight decay, whatever its shape.
  Weight no_decay_weight(const std::string& name,
                         const Shape& global_shape,
                         const Initializer& initial,
                         int split_axis = -1) const;

  // Creates a parameter without weight decay that is clamped to a range.
  Weight bounded(const std::string& name,
                 const Shape& global_shape,
                 const Initializer& initial,
                 const ValueBounds& range,
                 int split_axis = -1) const;

  // Registers a tensor of the recurrent state of the layer at this path, which `spec` names.
  // Returns its full name.
  std::string add_recurrent_state(RecurrentStateSpec spec) const;
  // Registers a linear layer between hidden states at this path.
  void add_linear_layer() const { parameters_->add_linear_layer(path_); }
  // Limits reads of the parameters created here so far to the first `steps` training steps.
  void read_for(std::int64_t steps) const { parameters_->read_for(*this, steps); }

  const Parameters& parameters() const { return *parameters_; }
  // Returns this tensor rank's shard of an axis.
  ShardRange part(std::int64_t total) const;

 private:
  Parameters* parameters_;
  std::string path_;
};

}  // namespace longspan
