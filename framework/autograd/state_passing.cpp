#include "framework/autograd/state_passing.h"

#include <omp.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/autograd/attention.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

void count(const Device& device, const RecurrenceFlops& flops) {
  if (!device.state().is_meta()) return;
  device.state().count_flops(flops.made);
  device.state().get_or_create<RedundantFlops>().flops += flops.made - flops.needed;
}

// Returns how many heads pass at a time, a divisor of their number: as many as run side by side. A
// GPU runs all of them.
std::int64_t heads_at_once(const Tensor& value) {
  const Shape& shape = value.shape();
  const std::int64_t batch = std::max<std::int64_t>(shape[0], 1), heads = shape[2];
  if (value.device().on_gpu()) return heads;
  std::int64_t result = std::clamp<std::int64_t>(omp_get_max_threads() / batch, 1, heads);
  while (heads % result != 0) --result;
  return result;
}

// Some heads of some rows of a tensor [batch, time, heads] or [batch, time, heads, n].
struct Part {
  Range rows;
  Range heads;

  Shape shape_in(const Tensor& x) const {
    return x.shape().with(1, rows.count()).with(2, heads.count());
  }
  Tensor of(const Tensor& x) const {
    if (!x.defined()) return {};
    const Tensor part = Tensor::empty(shape_in(x), x.dtype(), x.device(), MemoryTag::workspace);
    copy(x, part, false);
    return part;
  }
  void write(const Tensor& part, const Tensor& x) const {
    if (x.defined()) copy(x, part, true);
  }

 private:
  void copy(const Tensor& x, const Tensor& part, bool to_x) const {
    const Shape& shape = x.shape();
    const std::int64_t n = shape.dimensions() == 4 ? shape[3] : 1;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      const Tensor whole =
          x.slice(i, i + 1).reshape({shape[1], shape[2], n}).slice(rows.begin, rows.end);
      const Tensor some = part.slice(i, i + 1).reshape({rows.count(), heads.count(), n});
      on(x.device(), [&](auto backend) {
        if (to_x)
          copy_rows(backend, some, 0, whole, heads.begin, heads.count(), false);
        else
          copy_rows(backend, whole, heads.begin, some, 0, heads.count(), false);
      });
    }
  }
};

// A state [batch, heads, key_dim, value_dim] as a tensor with one row.
Tensor in_one_row(const Tensor& state) {
  if (!state.defined()) return {};
  const Shape& shape = state.shape();
  return state.reshape({shape[0], 1, shape[1], shape[2] * shape[3]});
}

Tensor heads_of_state(const Tensor& state, const Range& heads) {
  const Tensor part = Part{{0, 1}, heads}.of(in_one_row(state));
  if (!part.defined()) return {};
  return part.reshape(state.shape().with(1, heads.count()));
}

void write_heads(const Tensor& part, const Range& heads, const Tensor& state) {
  Part{{0, 1}, heads}.write(in_one_row(part), in_one_row(state));
}

Shape shape_of_state(const GatedRecurrence& call, std::int64_t heads) {
  const Shape& key = call.key.shape();
  return {key[0], heads, key[3], call.value.shape()[3]};
}

Tensor state_like(const GatedRecurrence& call, std::int64_t heads, MemoryTag tag) {
  return Tensor::empty(
      shape_of_state(call, heads), accumulator_of(call.query.dtype()), call.query.device(), tag);
}

// Returns the call for a part of its rows and heads, without outputs and states.
GatedRecurrence inputs_of(const GatedRecurrence& call, const Part& part) {
  GatedRecurrence result = {.query = part.of(call.query),
                            .key = part.of(call.key),
                            .value = part.of(call.value),
                            .scale = call.scale,
                            .log_decay = part.of(call.log_decay),
                            .beta = part.of(call.beta),
                            .a = part.of(call.a),
                            .b = part.of(call.b)};
  if (const Tensor& documents = call.document_position; documents.defined()) {
    const Shape& shape = documents.shape();
    result.document_position = Part{part.rows, {0, 1}}
                                   .of(documents.reshape({shape[0], shape[1], 1}))
                                   .reshape({shape[0], part.rows.count()});
  }
  return result;
}

}  // namespace

void compute(const GatedRecurrence& call) {
  const Device& device = call.query.device();
  dispatch_or_meta(device, [&](auto backend) { gated_recurrence(backend, call); });
  count(device, gated_recurrence_flops(call));
}

void compute(const GatedRecurrenceGradient& call) {
  const Device& device = call.forward.query.device();
  dispatch_or_meta(device, [&](auto backend) { gated_recurrence_backward(backend, call); });
  count(device, gated_recurrence_backward_flops(call.forward));
}

StatePassing::StatePassing(const SequenceShards& shares, bool records)
    : ranks_(shares.ranks), records_(records) {
  std::vector<std::pair<std::int64_t, Stage>> by_position;
  for (int rank = 0; rank < std::ssize(shares.queries); ++rank) {
    const Ranges& positions = shares.queries[static_cast<std::size_t>(rank)];
    const Ranges rows = SequenceSlots::rows_of(positions);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].count() > 0)
        by_position.emplace_back(positions[i].begin, Stage{.rank = rank, .rows = rows[i]});
  }
  require(!by_position.empty(), "state passing: no rank has a position");
  std::ranges::sort(by_position, {}, [](const auto& stage) { return stage.first; });
  for (const auto& [begin, stage] : by_position) stages_.push_back(stage);
  checkpoints_.resize(stages_.size());
}

void StatePassing::hand_over(const std::vector<std::size_t>& order,
                             std::int64_t tick,
                             const Tensor& state,
                             const std::vector<Tensor>& done,
                             std::vector<Tensor>& arrived) const {
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  const auto own = static_cast<std::size_t>(ranks_.rank());
  const auto rank_at = [&](std::size_t place) {
    return static_cast<std::size_t>(stages_[order[place]].rank);
  };
  // Ranks have two ranges or fewer, one of which passes its state to a higher rank.
  for (const bool up : {true, false}) {
    std::vector<int> to(ranks, -1), from(ranks, -1);
    Tensor sent, received;
    bool is_needed = false;
    for (std::size_t place = 0; place + 1 < order.size(); ++place) {
      const std::size_t a = rank_at(place), b = rank_at(place + 1);
      if (!runs_in(tick, place) || (a <= b) != up) continue;
      if (a == b) {
        if (a == own) arrived[place + 1] = done[place];
        continue;
      }
      require(to[a] < 0 && from[b] < 0,
              "state passing: a rank has several ranges in one direction");
      to[a] = static_cast<int>(b);
      from[b] = static_cast<int>(a);
      is_needed = true;
      if (a == own) sent = done[place];
      if (b == own) received = arrived[place + 1] = state.empty_like(MemoryTag::workspace);
    }
    if (!is_needed) continue;
    // An exchange has every rank send to one and receive from one.
    std::size_t idle = 0;
    for (std::size_t a = 0; a < ranks; ++a) {
      if (to[a] >= 0) continue;
      while (from[idle] >= 0) ++idle;
      to[a] = static_cast<int>(idle);
      from[idle] = static_cast<int>(a);
    }
    if (!sent.defined()) sent = state;
    if (!received.defined()) received = state.empty_like(MemoryTag::workspace);
    ranks_.exchange(sent, to[own], received, from[own]);
  }
}

template <typename Work>
void StatePassing::run(const std::vector<std::size_t>& order,
                       const Tensor& state,
                       const Work& work) const {
  const std::int64_t heads = state.shape()[1];
  const std::int64_t ticks = groups_ + std::ssize(order) - 1;
  std::vector<Tensor> arrived(order.size());
  for (std::int64_t tick = 0; tick < ticks; ++tick) {
    std::vector<Tensor> done(order.size());
    for (std::size_t place = 0; place < order.size(); ++place) {
      if (!runs_in(tick, place) || stages_[order[place]].rank != ranks_.rank()) continue;
      const std::int64_t group = tick - static_cast<std::int64_t>(place);
      done[place] = work(order[place],
                         Range{group * heads, (group + 1) * heads},
                         std::exchange(arrived[place], {}));
    }
    hand_over(order, tick, state, done, arrived);
  }
}

void StatePassing::forward(const GatedRecurrence& call, const ChunkBoundaries& ends) {
  const std::int64_t heads = heads_at_once(call.value), all_heads = call.value.shape()[2];
  groups_ = all_heads / heads;
  // Ranks without a range to pass on send zeros.
  const Tensor state = state_like(call, heads, MemoryTag::workspace);
  state.zero();
  Tensor final_state;
  if (ends.needs_final())
    final_state = ends.after->value = state_like(call, all_heads, MemoryTag::recurrent_state);
  const auto work = [&](std::size_t stage, const Range& of, const Tensor& arrived) {
    const Part part = {stages_[stage].rows, of};
    GatedRecurrence own = inputs_of(call, part);
    own.initial = is_first(stage) ? heads_of_state(ends.initial(), of) : arrived;
    own.out = Tensor::empty(
        part.shape_in(call.out), call.out.dtype(), call.out.device(), MemoryTag::workspace);
    if (!is_last(stage) || final_state.defined())
      own.final_state = state.empty_like(MemoryTag::workspace);
    if (records_) {
      const Shape& shape = state.shape();
      own.checkpoints = Tensor::empty(
          {own.segments(), shape[0], shape[1], shape[2], shape[3]}, state.dtype(), state.device());
      checkpoints_[stage].push_back(own.checkpoints);
    }
    compute(own);
    part.write(own.out, call.out);
    if (is_last(stage)) write_heads(own.final_state, of, final_state);
    return own.final_state;
  };
  std::vector<std::size_t> order(stages_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  run(order, state, work);
  if (final_state.defined()) ranks_.broadcast(final_state, stages_.back().rank);
}

void StatePassing::backward(const GatedRecurrenceGradient& call,
                            const ChunkBoundaries& ends) const {
  const std::int64_t all_heads = call.forward.value.shape()[2];
  const Tensor state = state_like(call.forward, all_heads / groups_, MemoryTag::workspace);
  state.zero();
  Tensor initial_gradient;
  if (ends.needs_initial_gradient())
    initial_gradient = ends.before->gradient =
        state_like(call.forward, all_heads, MemoryTag::recurrent_state);
  const auto work = [&](std::size_t stage, const Range& of, const Tensor& arrived) {
    const Part part = {stages_[stage].rows, of};
    GatedRecurrenceGradient own = {
        .forward = inputs_of(call.forward, part),
        .dout = part.of(call.dout),
        .dfinal = is_last(stage) ? heads_of_state(ends.final_gradient(), of) : arrived,
        .dquery = {},
        .dkey = {},
        .dvalue = {}};
    own.forward.checkpoints = checkpoints_[stage][static_cast<std::size_t>(of.begin / of.count())];
    if (!is_first(stage) || initial_gradient.defined())
      own.dinitial = state.empty_like(MemoryTag::workspace);
    const std::pair<Tensor*, const Tensor*> gradients[] = {{&own.dquery, &call.dquery},
                                                           {&own.dkey, &call.dkey},
                                                           {&own.dvalue, &call.dvalue},
                                                           {&own.dlog_decay, &call.dlog_decay},
                                                           {&own.dbeta, &call.dbeta},
                                                           {&own.da, &call.da},
                                                           {&own.db, &call.db}};
    for (const auto& [mine, all] : gradients)
      if (all->defined())
        *mine =
            Tensor::empty(part.shape_in(*all), all->dtype(), all->device(), MemoryTag::workspace);
    compute(own);
    for (const auto& [mine, all] : gradients) part.write(*mine, *all);
    if (is_first(stage)) write_heads(own.dinitial, of, initial_gradient);
    return own.dinitial;
  };
  std::vector<std::size_t> order(stages_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  run(order, state, work);
  if (initial_gradient.defined()) ranks_.broadcast(initial_gradient, stages_.front().rank);
}

}  // namespace longspan
