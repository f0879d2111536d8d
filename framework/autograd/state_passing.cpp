#include "framework/autograd/state_passing.h"

#include <omp.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/autograd/attention.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Returns how many heads pass at a time: the divisor of their number with the shortest pipeline of
// `stages` ranges, if `lanes` heads run side by side.
std::int64_t heads_of_group(std::int64_t batch,
                            std::int64_t heads,
                            std::int64_t stages,
                            std::int64_t lanes) {
  std::int64_t best = 1, least = 0;
  for (std::int64_t group = 1; group <= heads; ++group) {
    if (heads % group != 0) continue;
    const std::int64_t rounds = (group * batch + lanes - 1) / lanes;
    const std::int64_t time = (heads / group + stages - 1) * rounds;
    if (group > 1 && time >= least) continue;
    best = group;
    least = time;
  }
  return best;
}

// Some heads of some rows of a tensor [batch, time, heads] or [batch, time, heads, n]. Copies
// unless it is the whole tensor.
struct Part {
  Range rows;
  Range heads;

  Shape shape_in(const Tensor& x) const {
    return x.shape().with(1, rows.count()).with(2, heads.count());
  }
  bool is_all_of(const Tensor& x) const {
    return rows.count() == x.shape()[1] && heads.count() == x.shape()[2];
  }
  Tensor of(const Tensor& x) const {
    if (!x.defined() || is_all_of(x)) return x;
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

void run_and_count(const GatedRecurrence& call) {
  const Device& device = call.query.device();
  dispatch_or_meta(device, [&](auto backend) { gated_recurrence(backend, call); });
  const RecurrenceFlops flops = gated_recurrence_flops(call);
  count_flops(device, flops.made, flops.needed);
}

void run_and_count(const GatedRecurrenceGradient& call) {
  const Device& device = call.forward.query.device();
  dispatch_or_meta(device, [&](auto backend) { gated_recurrence_backward(backend, call); });
  const RecurrenceFlops flops = gated_recurrence_backward_flops(call.forward);
  count_flops(device, flops.made, flops.needed);
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
  const auto rank_of = [&](std::size_t step) {
    return static_cast<std::size_t>(stages_[order[step]].rank);
  };
  // In a tick, a rank sends at most one state to a higher rank and one to a lower rank.
  for (const bool up : {true, false}) {
    std::vector<int> to(ranks, -1), from(ranks, -1);
    Tensor sent, received;
    bool is_needed = false;
    for (std::size_t step = 0; step + 1 < order.size(); ++step) {
      const std::size_t sender = rank_of(step), receiver = rank_of(step + 1);
      if (!runs_in(tick, step) || (sender <= receiver) != up) continue;
      if (sender == receiver) {
        if (sender == own) arrived[step + 1] = done[step];
        continue;
      }
      require(to[sender] < 0 && from[receiver] < 0,
              "state passing: a rank has several ranges in one direction");
      to[sender] = static_cast<int>(receiver);
      from[receiver] = static_cast<int>(sender);
      is_needed = true;
      if (sender == own) sent = done[step];
      if (receiver == own) received = arrived[step + 1] = state.empty_like(MemoryTag::workspace);
    }
    if (!is_needed) continue;
    // Every rank takes part in an exchange: the others send zeros to the ranks that are left.
    std::size_t left = 0;
    for (std::size_t sender = 0; sender < ranks; ++sender) {
      if (to[sender] >= 0) continue;
      while (from[left] >= 0) ++left;
      to[sender] = static_cast<int>(left);
      from[left] = static_cast<int>(sender);
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
    for (std::size_t step = 0; step < order.size(); ++step) {
      if (!runs_in(tick, step) || stages_[order[step]].rank != ranks_.rank()) continue;
      const std::int64_t group = tick - static_cast<std::int64_t>(step);
      done[step] = work(
          order[step], Range{group * heads, (group + 1) * heads}, std::exchange(arrived[step], {}));
    }
    hand_over(order, tick, state, done, arrived);
  }
}

void StatePassing::forward(const GatedRecurrence& call, const ChunkBoundaries& ends) {
  const std::int64_t batch = call.value.shape()[0], all_heads = call.value.shape()[2];
  // A GPU runs all heads side by side. Ranks may have different numbers of threads.
  const std::int64_t lanes =
      call.value.device().on_gpu()
          ? std::max<std::int64_t>(batch * all_heads, 1)
          : ranks_.all_reduce(std::int64_t{omp_get_max_threads()}, Reduction::minimum);
  const std::int64_t heads = heads_of_group(batch, all_heads, std::ssize(stages_), lanes);
  groups_ = all_heads / heads;
  const Tensor state = state_like(call, heads, MemoryTag::workspace);
  state.zero();
  Tensor final_state;
  if (ends.needs_final())
    final_state = ends.after->value = state_like(call, all_heads, MemoryTag::recurrent_state);
  const auto work = [&](std::size_t stage, const Range& some_heads, const Tensor& arrived) {
    const Part part = {stages_[stage].rows, some_heads};
    GatedRecurrence own = inputs_of(call, part);
    own.initial = is_first(stage) ? heads_of_state(ends.initial(), some_heads) : arrived;
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
    run_and_count(own);
    part.write(own.out, call.out);
    if (is_last(stage)) write_heads(own.final_state, some_heads, final_state);
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
  const auto work = [&](std::size_t stage, const Range& some_heads, const Tensor& arrived) {
    const Part part = {stages_[stage].rows, some_heads};
    GatedRecurrenceGradient own = {
        .forward = inputs_of(call.forward, part),
        .dout = part.of(call.dout),
        .dfinal = is_last(stage) ? heads_of_state(ends.final_gradient(), some_heads) : arrived,
        .dquery = {},
        .dkey = {},
        .dvalue = {}};
    own.forward.checkpoints =
        checkpoints_[stage][static_cast<std::size_t>(some_heads.begin / some_heads.count())];
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
    run_and_count(own);
    for (const auto& [mine, all] : gradients) part.write(*mine, *all);
    if (is_first(stage)) write_heads(own.dinitial, some_heads, initial_gradient);
    return own.dinitial;
  };
  std::vector<std::size_t> order(stages_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  run(order, state, work);
  if (initial_gradient.defined()) ranks_.broadcast(initial_gradient, stages_.front().rank);
}

}  // namespace longspan
