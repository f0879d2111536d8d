#include "framework/trainer/gradient_reduction.h"

#include <algorithm>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// to = from, or to += from.
void write(const Tensor& from, const Tensor& to, bool add) {
  on(from.device(), [&](auto backend) {
    if (add)
      accumulate(backend, 1.0, from, to);
    else
      scale(backend, 1.0, from, to);
  });
}

}  // namespace

GradientReducer::GradientReducer(const Parameters& parameters, DType traffic)
    : parameters_(parameters), sharing_(parameters.sharing()), traffic_(traffic) {
  for (const ParameterBucket& bucket : parameters.buckets())
    if (bucket.ranks.size() > 1 && !bucket.frozen()) flows_.emplace_back(bucket);
  // The reductions must not be moved after this point.
  for (BucketReduction& flow : flows_)
    for (std::size_t i = 0; i < flow.bucket->parameters.size(); ++i) {
      const Variable& variable = flow.bucket->parameters[i]->variable;
      variable.register_gradient_hook([this, &flow] { ready(flow); });
      if (shares_gradients())
        variable.set_gradient_buffer([this, &flow, i] { return gradient_of(flow, i); });
    }
}

GradientReducer::~GradientReducer() {
  for (const BucketReduction& flow : flows_)
    for (const auto& parameter : flow.bucket->parameters) {
      parameter->variable.register_gradient_hook({});
      if (shares_gradients()) parameter->variable.set_gradient_buffer({});
    }
}

void GradientReducer::begin(std::size_t part, std::size_t parts) {
  active_ = shares_gradients() || part + 1 == parts;
  adds_ = shares_gradients() && part > 0;
  for (BucketReduction& flow : flows_) {
    // Parameters that are no longer read receive no gradient.
    flow.missing = static_cast<std::size_t>(std::ranges::count_if(
        flow.bucket->parameters, [this](const auto& each) { return parameters_.reads(*each); }));
    flow.started = false;
  }
}

// Returns a parameter's gradient in a bucket, which is allocated on first use.
Tensor GradientReducer::gradient_of(BucketReduction& flow, std::size_t parameter) {
  const ParameterBucket& bucket = *flow.bucket;
  const Tensor& own = bucket.shard_gradient;
  if (!flow.gradient.defined())
    flow.gradient =
        Tensor::zeros({bucket.elements}, own.dtype(), own.device(), MemoryTag::gradients);
  const Shape shape = bucket.parameters[parameter]->padded_shape();
  const std::int64_t place = bucket.places[parameter];
  return flow.gradient.slice(place, place + shape.elements()).reshape(shape);
}

void GradientReducer::ready(BucketReduction& flow) {
  if (active_ && --flow.missing == 0) start(flow);
}

void GradientReducer::start(BucketReduction& flow) {
  // Limits the buckets of ranks that are ahead. All ranks start buckets in one order, so waiting
  // for an earlier one cannot deadlock.
  if (shares_gradients()) wait_for_all();
  const ParameterBucket& bucket = *flow.bucket;
  for (const auto& parameter : bucket.parameters)
    if (!parameter->variable.gradient().defined()) parameter->variable.zero_gradient();
  flow.started = true;
  const Tensor& own = bucket.shard_gradient;
  const auto rounded = [&](const Tensor& like) {
    return Tensor::empty(like.shape(), traffic_, like.device(), MemoryTag::gradients);
  };
  const bool rounds = traffic_ == DType::bf16;
  flow.sent = flow.gradient;
  if (rounds) {
    flow.sent = rounded(flow.gradient);
    write(flow.gradient, flow.sent, false);
  }
  if (!shares()) {
    flow.received = flow.sent;
    flow.request = bucket.ranks.start_all_reduce(flow.sent, Reduction::sum);
    return;
  }
  if (rounds)
    flow.received = rounded(own);
  else
    flow.received = adds_ ? own.empty_like(MemoryTag::gradients) : own;
  flow.request = bucket.ranks.start_reduce_scatter(flow.sent, flow.received);
}

void GradientReducer::complete(BucketReduction& flow) {
  const Tensor& own = flow.bucket->shard_gradient;
  if (flow.received.bytes() != own.bytes()) write(flow.received, own, adds_);
  flow.request = {};
  flow.sent = {};
  flow.received = {};
  if (!shares_gradients()) return;
  for (const auto& parameter : flow.bucket->parameters) parameter->variable.clear_gradient();
  flow.gradient = {};
}

void GradientReducer::progress() {
  for (BucketReduction& flow : flows_)
    if (flow.sent.defined() && flow.request.test()) complete(flow);
}

void GradientReducer::finish() {
  if (!active_) return;
  active_ = false;
  // Last bucket first, in the order of the backward pass.
  for (auto flow = flows_.rbegin(); flow != flows_.rend(); ++flow)
    if (!flow->started) start(*flow);
  wait_for_all();
}

void GradientReducer::wait_for_all() {
  for (BucketReduction& flow : flows_) {
    if (!flow.sent.defined()) continue;
    flow.request.wait();
    complete(flow);
  }
}

}  // namespace longspan
