#include "framework/autograd/variable.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "framework/autograd/saved_tensor.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

struct Node;

// Per thread: whether ops are recorded, their order, and the active leaf recorder.
thread_local bool recording = true;
thread_local std::uint64_t recorded_ops = 0;
thread_local LeafRecorder* leaf_recorder = nullptr;

}  // namespace

class SavedTensor::RecomputedTensor {
 public:
  explicit RecomputedTensor(std::function<Tensor()> make) : make_(std::move(make)) {}

  void add_keeper() { ++keepers_; }
  Tensor get() {
    if (!value_.defined()) value_ = make_();
    Tensor value = value_;
    if (--keepers_ == 0) value_ = Tensor();
    return value;
  }

 private:
  std::function<Tensor()> make_;
  Tensor value_;
  int keepers_ = 0;
};

struct Edge {
  Edge(const Tensor& value, DType gradient_dtype)
      : shape(value.shape()), dtype(gradient_dtype), device(value.device()) {}

  Shape shape;
  DType dtype;
  Device device;
  Tensor gradient;                 // the accumulation buffer, if any
  bool started = false;            // the gradient has a value
  bool retains_buffer = false;     // the buffer was given by the caller and is retained
  std::shared_ptr<Node> producer;  // null for a leaf
  std::function<Tensor()> buffer;  // supplies the gradient's buffer, if external
  std::shared_ptr<SavedTensor::RecomputedTensor> remade;
  std::function<void()> ready;
};

namespace {

struct Node {
  std::uint64_t order = 0;
  OpSite place;
  std::vector<std::shared_ptr<Edge>> inputs;
  std::vector<std::weak_ptr<Edge>> outputs;
  BackwardFunction backward;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  // Releases the producers iteratively: a tape can be longer than the call stack permits.
  ~Node() {
    std::vector<std::shared_ptr<Edge>> pending = std::move(inputs);
    while (!pending.empty()) {
      const std::shared_ptr<Edge> edge = std::move(pending.back());
      pending.pop_back();
      if (!edge || edge.use_count() != 1 || !edge->producer || edge->producer.use_count() != 1)
        continue;
      for (auto& input : edge->producer->inputs) pending.push_back(std::move(input));
      edge->producer->inputs.clear();
    }
  }
};

// A gradient set by an op may have another owner (both inputs of a sum share one).
bool owns_gradient(const Edge& edge) { return edge.retains_buffer || edge.gradient.is_unique(); }

void add_to(Edge& edge, const Tensor& gradient) {
  if (owns_gradient(edge) || gradient.dtype() != edge.dtype) {
    if (!owns_gradient(edge)) edge.gradient = edge.gradient.clone();
    on(edge.device, [&](auto backend) { accumulate(backend, 1.0, gradient, edge.gradient); });
  } else {
    const Tensor sum = edge.gradient.empty_like();
    on(edge.device, [&](auto backend) { add(backend, edge.gradient, gradient, sum); });
    edge.gradient = sum;
  }
}

}  // namespace

class Tape {
 public:
  static Variable leaf(Tensor value, DType gradient_dtype, Tensor gradient) {
    Variable result(std::move(value));
    result.edge_ = std::make_shared<Edge>(result.value_, gradient_dtype);
    if (gradient.defined()) {
      require(gradient.dtype() == gradient_dtype && gradient.elements() == result.value_.elements(),
              "expected a gradient buffer of {} {}, found {} {}",
              name_of(gradient_dtype),
              result.shape(),
              name_of(gradient.dtype()),
              gradient.shape());
      result.edge_->gradient = std::move(gradient);
      result.edge_->retains_buffer = true;
    }
    return result;
  }

  static std::vector<Variable> record(std::vector<Tensor> values,
                                      const std::vector<Variable>& inputs,
                                      BackwardFunction backward,
                                      const std::source_location& at) {
    const OpSite place = end_of_op(at);
    std::vector<Variable> outputs;
    for (auto& value : values) outputs.emplace_back(std::move(value));
    if (leaf_recorder != nullptr) note(*leaf_recorder, inputs);
    const bool wanted = recording && std::ranges::any_of(inputs, &Variable::requires_grad);
    if (!wanted) return outputs;
    const auto node = std::make_shared<Node>();
    node->order = ++recorded_ops;
    node->place = place;
    node->backward = std::move(backward);
    for (const auto& input : inputs) node->inputs.push_back(input.edge_);
    for (auto& output : outputs) {
      output.edge_ = std::make_shared<Edge>(output.value_, output.value_.dtype());
      output.edge_->producer = node;
      node->outputs.push_back(output.edge_);
    }
    return outputs;
  }

  static void note(LeafRecorder& watch, const std::vector<Variable>& inputs) {
    for (const Variable& input : inputs) {
      if (!input.edge_) continue;
      require(
          !input.edge_->producer,
          "a recomputed function reads a variable of shape {} that is neither its input nor a leaf",
          input.shape());
      const auto known = [&](const Variable& leaf) { return leaf.edge_ == input.edge_; };
      if (std::ranges::none_of(watch.leaves_, known)) watch.leaves_.push_back(input);
    }
  }

  static Edge& leaf_edge(const Variable& variable) {
    require(variable.edge_ && !variable.edge_->producer, "only leaves have a gradient");
    return *variable.edge_;
  }

  static void acquire_buffer(Edge& edge) {
    if (edge.started || !edge.buffer) return;
    edge.gradient = edge.buffer();
    edge.retains_buffer = true;
  }

  static SavedTensor save_for_backward(const Variable& x) {
    if (!x.edge_ || !x.edge_->remade) return SavedTensor(x.value_);
    x.edge_->remade->add_keeper();
    return SavedTensor(x.edge_->remade);
  }

  static void make_again(const Variable& x, std::function<Tensor()> make) {
    if (x.edge_) x.edge_->remade = std::make_shared<SavedTensor::RecomputedTensor>(std::move(make));
  }

  static void seed(const Variable& root, Tensor gradient) {
    if (root.edge_) give(*root.edge_, std::move(gradient));
  }

  static void give(Edge& edge, Tensor gradient) {
    require(gradient.elements() == edge.shape.elements(),
            "expected a gradient of shape {}, found {}",
            edge.shape,
            gradient.shape());
    acquire_buffer(edge);
    if (edge.started) {
      add_to(edge, gradient);
    } else if (!edge.retains_buffer && gradient.dtype() == edge.dtype) {
      edge.gradient = gradient.reshape(edge.shape);
    } else {
      if (!edge.gradient.defined())
        edge.gradient = Tensor::empty(edge.shape, edge.dtype, edge.device);
      on(edge.device, [&](auto backend) { scale(backend, 1.0, gradient, edge.gradient); });
    }
    edge.started = true;
  }

  static GradientTarget target(Edge& edge) {
    const bool add = edge.started;
    acquire_buffer(edge);
    if (add && !owns_gradient(edge)) edge.gradient = edge.gradient.clone();
    if (!edge.gradient.defined())
      edge.gradient = Tensor::empty(edge.shape, edge.dtype, edge.device);
    edge.started = true;
    return {edge.gradient, add};
  }

  static void walk(const std::vector<Variable>& roots,
                   std::vector<Tensor> seeds,
                   const BackwardOptions& options);

 private:
  struct Plan {
    std::vector<std::shared_ptr<Node>> nodes;  // newest first
    std::unordered_map<Edge*, int> leaf_uses;
  };
  static Plan plan(const std::vector<Variable>& roots);
  static void run(Node& node);
};

Tape::Plan Tape::plan(const std::vector<Variable>& roots) {
  Plan result;
  std::unordered_set<Node*> seen;
  std::vector<std::shared_ptr<Node>> pending;
  const auto visit = [&](const std::shared_ptr<Node>& node) {
    if (node && seen.insert(node.get()).second) pending.push_back(node);
  };
  for (const auto& root : roots) {
    if (!root.edge_) continue;
    if (root.edge_->producer)
      visit(root.edge_->producer);
    else
      ++result.leaf_uses[root.edge_.get()];
  }
  while (!pending.empty()) {
    const std::shared_ptr<Node> node = std::move(pending.back());
    pending.pop_back();
    for (const auto& input : node->inputs) {
      if (!input) continue;
      if (input->producer)
        visit(input->producer);
      else
        ++result.leaf_uses[input.get()];
    }
    result.nodes.push_back(node);
  }
  std::ranges::sort(result.nodes, std::greater<>(), [](const auto& node) { return node->order; });
  return result;
}

void Tape::run(Node& node) {
  require(static_cast<bool>(node.backward), "backward can run only once on a graph");
  std::vector<Tensor> outputs;
  bool any = false;
  for (const auto& weak : node.outputs) {
    const auto edge = weak.lock();
    outputs.push_back(edge && edge->started ? std::move(edge->gradient) : Tensor());
    any = any || outputs.back().defined();
    if (edge) {
      edge->gradient = Tensor();
      edge->started = false;
    }
  }
  const BackwardFunction backward = std::move(node.backward);
  node.backward = nullptr;
  if (!any) return;
  const BackwardSpan span(node.place);
  BackwardContext gradients(node.inputs, std::move(outputs));
  backward(gradients);
}

void Tape::walk(const std::vector<Variable>& roots,
                std::vector<Tensor> seeds,
                const BackwardOptions& options) {
  require(roots.size() == seeds.size(),
          "expected a seed for each of {} roots, found {}",
          roots.size(),
          seeds.size());
  Plan order = plan(roots);
  for (std::size_t i = 0; i < roots.size(); ++i)
    if (seeds[i].defined()) seed(roots[i], std::move(seeds[i]));
  const NoGradGuard no_gradient;
  const auto contributed = [&](const std::shared_ptr<Edge>& edge) {
    if (!edge || edge->producer || --order.leaf_uses[edge.get()] > 0) return;
    if (options.announce_leaves && edge->ready) edge->ready();
  };
  for (const auto& root : roots) contributed(root.edge_);
  for (auto& node : order.nodes) {
    run(*node);
    for (const auto& input : node->inputs) contributed(input);
    if (options.between) options.between();
  }
}

Tensor SavedTensor::get() const { return remade_ ? remade_->get() : value_; }

SavedTensor save_for_backward(const Variable& x) { return Tape::save_for_backward(x); }

void set_recompute(const Variable& x, std::function<Tensor()> make) {
  Tape::make_again(x, std::move(make));
}

Variable Variable::leaf(Tensor value, DType gradient_dtype, Tensor gradient) {
  return Tape::leaf(std::move(value), gradient_dtype, std::move(gradient));
}

Tensor Variable::gradient() const {
  const Edge& edge = Tape::leaf_edge(*this);
  return edge.started ? edge.gradient : Tensor();
}

void Variable::clear_gradient() const {
  Edge& edge = Tape::leaf_edge(*this);
  edge.started = false;
  if (edge.buffer) edge.retains_buffer = false;
  if (!edge.retains_buffer) edge.gradient = Tensor();
}

void Variable::zero_gradient() const {
  Edge& edge = Tape::leaf_edge(*this);
  Tape::acquire_buffer(edge);
  require(edge.retains_buffer, "zero_gradient requires a leaf with a gradient buffer");
  edge.gradient.zero();
  edge.started = true;
}

void Variable::set_gradient_buffer(std::function<Tensor()> buffer) const {
  Edge& edge = Tape::leaf_edge(*this);
  edge.buffer = std::move(buffer);
  edge.retains_buffer = false;
  clear_gradient();
}

void Variable::register_gradient_hook(std::function<void()> action) const {
  Tape::leaf_edge(*this).ready = std::move(action);
}

Variable record(Tensor value,
                const std::vector<Variable>& inputs,
                BackwardFunction backward,
                const std::source_location& place) {
  std::vector<Tensor> values;
  values.push_back(std::move(value));
  return std::move(Tape::record(std::move(values), inputs, std::move(backward), place).front());
}

std::vector<Variable> record(std::vector<Tensor> values,
                             const std::vector<Variable>& inputs,
                             BackwardFunction backward,
                             const std::source_location& place) {
  return Tape::record(std::move(values), inputs, std::move(backward), place);
}

bool is_recording() { return recording; }

bool BackwardContext::has_output(std::size_t output) const { return outputs_.at(output).defined(); }

const Tensor& BackwardContext::output(std::size_t output) const {
  require(has_output(output), "output {} has no gradient", output);
  return outputs_[output];
}

Tensor BackwardContext::release_output(std::size_t output) {
  require(has_output(output), "output {} has no gradient", output);
  Tensor gradient = std::move(outputs_[output]);
  outputs_[output] = Tensor();
  return gradient.is_unique() ? gradient : gradient.clone();
}

bool BackwardContext::needs_gradient(std::size_t input) const { return inputs_[input] != nullptr; }

GradientTarget BackwardContext::target(std::size_t input) { return Tape::target(*inputs_[input]); }

Tensor BackwardContext::accumulate_target(std::size_t input) {
  const auto [tensor, add] = target(input);
  if (!add) tensor.zero();
  return tensor;
}

void BackwardContext::set(std::size_t input, Tensor gradient) {
  Tape::give(*inputs_[input], std::move(gradient));
}

void backward(const std::vector<Variable>& roots,
              std::vector<Tensor> seeds,
              const BackwardOptions& options) {
  Tape::walk(roots, std::move(seeds), options);
}

void backward(const Variable& root, const BackwardOptions& options) {
  require(root.value().elements() == 1,
          "backward without a seed requires a one-element root, found shape {}",
          root.shape());
  std::vector<Tensor> seeds;
  seeds.push_back(
      Tensor::scalar(1, root.value().dtype(), root.value().device(), MemoryTag::activations));
  backward({root}, std::move(seeds), options);
}

NoGradGuard::NoGradGuard() : before_(recording) { recording = false; }
NoGradGuard::~NoGradGuard() { recording = before_; }
EnableGradGuard::EnableGradGuard() : before_(recording) { recording = true; }
EnableGradGuard::~EnableGradGuard() { recording = before_; }

LeafRecorder::LeafRecorder() : before_(std::exchange(leaf_recorder, this)) {}

LeafRecorder::~LeafRecorder() { leaf_recorder = before_; }

}  // namespace longspan
