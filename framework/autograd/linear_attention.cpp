#include <algorithm>
#include <numeric>

#include "framework/autograd/attention.h"
#include "framework/autograd/ring_attention.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/sequence_softmax.h"

namespace longspan {
namespace {

// Tensors that a call saves for its gradient, and the state before each part.
class Parts {
 public:
  Parts(LinearAttention call,
        const LinearAttentionOptions& options,
        const std::optional<SequenceShards>& shares)
      : call_(std::move(call)), options_(options), shares_(shares) {
    const Shape& query = call_.query.shape();
    const std::int64_t pairs = query[0] * query[2], keys = call_.key.shape()[1];
    if (shares_ && call_.causal) {
      call_.parts = SequenceSlots::rows_of(shares_->queries[shares_->local_index()]);
      require(shares_->memory == 0 && total_count(call_.parts) == query[1],
              "linear attention: expected a position for each of the {} rows, found {} positions "
              "after {} others",
              query[1],
              total_count(call_.parts),
              shares_->memory);
    } else {
      call_.parts = linear_parts(device(), pairs, query[1]);
    }
    call_.key_parts = call_.causal ? call_.parts : linear_parts(device(), pairs, keys);
    slots_ = gathers() ? SequenceSlots(*shares_)
                       : SequenceSlots(std::ssize(call_.causal ? call_.parts : call_.key_parts));
  }

  Tensor forward() {
    call_.out = Tensor::empty(
        call_.query.shape().with(3, call_.value.shape()[3]), call_.query.dtype(), device());
    if (call_.divisor != Divisor::none) {
      const Shape& query = call_.query.shape();
      call_.divisors = Tensor::empty({query[0], query[1], query[2]}, sums(), device());
    }
    const Tensor initial = options_.state.initial();
    const bool needs_decays = initial.defined() && call_.decay.defined();
    if (joins() || options_.state.needs_final() || needs_decays)
      join();
    else if (initial.defined())
      call_.before = with_parts(initial, 1);
    dispatch_or_meta(device(), [&](auto backend) { linear_attention(backend, call_); });
    count_of(linear_attention_flops(call_));
    return call_.out;
  }

  void backward(BackwardContext& gradients) const {
    LinearAttentionGradient call = {
        .forward = call_, .dout = gradients.output(), .dquery = {}, .dkey = {}, .dvalue = {}};
    const auto wanted = [&](std::size_t input, const Tensor& like) {
      return gradients.needs_gradient(input) ? like.empty_like() : Tensor();
    };
    call.dquery = wanted(0, call_.query);
    call.dkey = wanted(1, call_.key);
    call.dvalue = wanted(2, call_.value);
    if (call_.log_weight.defined()) call.dlog_weight = wanted(3, call_.log_weight);
    if (call_.decay.defined()) call.ddecay = wanted(4, call_.decay);
    if (joins() || continues()) call.after = after_of(call);
    dispatch_or_meta(device(), [&](auto backend) { linear_attention_backward(backend, call); });
    count_of(linear_attention_backward_flops(call_));
    const Tensor all[] = {call.dquery, call.dkey, call.dvalue, call.dlog_weight, call.ddecay};
    for (std::size_t input = 0; input < std::size(all); ++input)
      if (all[input].defined()) gradients.set(input, all[input]);
  }

 private:
  const Device& device() const { return device_; }
  void count_of(const LinearFlops& flops) const { count_flops(device(), flops.made, flops.needed); }
  DType sums() const { return accumulator_of(call_.query.dtype()); }
  bool joins() const { return !call_.causal || call_.parts.size() > 1 || shares_; }
  // Returns whether the sequence is a chunk of a longer one.
  bool continues() const { return options_.state.before || options_.state.after; }
  // Returns whether the states of all ranks are gathered, rather than summed.
  bool gathers() const { return shares_ && call_.causal; }

  Shape state_shape(std::int64_t parts) const {
    const Shape& key = call_.key.shape();
    return {parts, key[0], key[2], key[3], call_.value.shape()[3] + 1};
  }
  Tensor states(std::int64_t parts, MemoryTag tag) const {
    return Tensor::empty(state_shape(parts), sums(), device(), tag);
  }
  Tensor with_parts(const Tensor& state, std::int64_t parts) const {
    return state.reshape(state_shape(parts));
  }
  Tensor without_parts(const Tensor& state) const {
    const Shape shape = state_shape(1);
    return state.reshape({shape[1], shape[2], shape[3], shape[4]});
  }

  void sum_over_ranks(const Tensor& state) const {
    if (shares_) shares_->ranks.all_reduce(state, Reduction::sum);
  }

  // Computes the state before each part, or if not causal the state of all keys.
  void join() {
    const Tensor all = states(slots_.total(), MemoryTag::activations);
    if (gathers()) all.zero();
    Tensor local_decays;
    if (call_.decay.defined()) {
      const Shape shape = state_shape(slots_.total());
      decays_ = Tensor::zeros({shape[0], shape[1], shape[2]}, sums(), device());
      local_decays = slots_.local(decays_);
    }
    dispatch_or_meta(device(), [&](auto backend) {
      linear_states(backend, call_, slots_.local(all), local_decays);
    });
    slots_.gather(all);
    if (decays_.defined()) slots_.gather(decays_);
    Tensor last;
    if (!call_.causal) last = without_parts(states(1, MemoryTag::activations));
    if (options_.state.needs_final())
      last = options_.state.after->value = without_parts(states(1, MemoryTag::recurrent_state));
    on(device(), [&](auto backend) {
      scan_states(backend,
                  {.states = all,
                   .decays = decays_,
                   .order = slots_.order(),
                   .first = options_.state.initial(),
                   .last = last});
    });
    if (call_.causal) {
      call_.before = slots_.local(all);
      return;
    }
    sum_over_ranks(last);
    if (options_.softmax_keys) on(device(), [&](auto backend) { divide_states(backend, last); });
    call_.before = with_parts(last, 1);
  }

  // Returns the gradient of the state after each part, or if not causal of the state of all keys.
  Tensor after_of(const LinearAttentionGradient& call) const {
    const bool causal = call_.causal;
    const std::int64_t parts = causal ? slots_.total() : std::ssize(call_.parts);
    const Tensor all = states(parts, MemoryTag::workspace);
    if (gathers()) all.zero();
    dispatch_or_meta(device(), [&](auto backend) {
      linear_states_backward(backend, call, causal ? slots_.local(all) : all);
    });
    slots_.gather(all);
    std::vector<std::int64_t> order = slots_.order();
    if (!causal) {
      order.resize(static_cast<std::size_t>(parts));
      std::iota(order.begin(), order.end(), 0);
    }
    std::ranges::reverse(order);
    const ChunkBoundaries& ends = options_.state;
    const Tensor last = causal ? Tensor() : states(1, MemoryTag::workspace);
    Tensor dinitial = causal ? Tensor() : without_parts(last);
    if (ends.before)
      dinitial = ends.before->gradient = without_parts(states(1, MemoryTag::recurrent_state));
    on(device(), [&](auto backend) {
      scan_states(backend,
                  {.states = all,
                   .decays = decays_,
                   .order = order,
                   .first = ends.final_gradient(),
                   .last = dinitial});
    });
    if (causal) return slots_.local(all);
    sum_over_ranks(last);
    if (options_.softmax_keys)
      on(device(), [&](auto backend) { divide_states_backward(backend, call_.before, last); });
    return last;
  }

  LinearAttention call_;
  LinearAttentionOptions options_;
  std::optional<SequenceShards> shares_;
  Device device_ = call_.query.device();
  SequenceSlots slots_;
  Tensor decays_;  // [slots, batch, heads]
};

}  // namespace

Variable linear_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const Variable& log_weight,
                          const Variable& decay,
                          const LinearAttentionOptions& options,
                          const std::optional<SequenceShards>& shares) {
  require(!options.softmax_keys || (!options.causal && options.divisor == Divisor::none),
          "linear attention: softmax_keys does not support causal attention or a divisor");
  require(options.causal || (!options.state.before && !options.state.after),
          "linear attention: a recurrent state requires causal attention");
  LinearAttention call = {.query = query.value(),
                          .key = key.value(),
                          .value = value.value(),
                          .map = options.map,
                          .causal = options.causal,
                          .log_weight = log_weight.value(),
                          .decay = decay.value(),
                          .divisor = options.divisor,
                          .epsilon = options.epsilon};
  Parts parts(std::move(call), options, shares);
  Tensor out = parts.forward();
  std::vector<Variable> inputs = {query, key, value, log_weight, decay};
  return record(std::move(out), inputs, [parts = std::move(parts)](BackwardContext& gradients) {
    parts.backward(gradients);
  });
}

}  // namespace longspan
