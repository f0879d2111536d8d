#include "framework/autograd/ring_attention.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/autograd/dtypes.h"
#include "framework/autograd/external_scores.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/pair_count.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Block pairs of one ring pass on a dry device. Pairs with equal row counts use equal memory and
// differ in operations by their visible pairs. A block pair with more of these than any before is
// executed, since more threads may share it. Others are only counted.
class FakeTransport {
 public:
  template <typename Visit>
  void visit_or_count(
      const Device& device, std::size_t i, std::int64_t keys, double pairs, const Visit& visit) {
    DeviceState& state = device.state();
    Meeting& most = most_[{i, keys}];
    if (pairs <= most.pairs) {
      state.count_flops(most.flops * pairs / most.pairs);
      state.get_or_create<AllocatedAgain>().bytes += most.allocated;
      return;
    }
    const double flops = state.flops();
    const double allocated = device.allocator().report().allocated;
    visit();
    most = {pairs, state.flops() - flops, device.allocator().report().allocated - allocated};
  }

 private:
  struct Meeting {
    double pairs = 0;
    double flops = 0;
    double allocated = 0;
  };
  // keyed by query range and number of keys
  std::map<std::pair<std::size_t, std::int64_t>, Meeting> most_;
};

// Converts token-dependent spans [batch, time, heads] to rows [batch, time, heads, 1], and back.
Shape by_feature(const Shape& shape) { return {shape[0], shape[1], shape[2], 1}; }
Tensor without_feature(const Tensor& spans) {
  const Shape& shape = spans.shape();
  return spans.reshape({shape[0], shape[1], shape[2]});
}

// State shared by the passes: the call, from which partial calls are built, and this rank's rows.
class Ring {
 public:
  Ring(Attention call,
       const ExternalScores& given,
       const TermPlaces& places,
       const SequenceShards& shares)
      : call_(std::move(call)), places_(places), shares_(shares) {
    form_.key = call_.key.shape();
    form_.value = call_.value.shape();
    for (const Ranges& ranges : shares_.keys)
      form_.rows = std::max(form_.rows, total_count(ranges));
    require(total_count(local_keys()) == form_.key[1] && form_.value[1] == form_.key[1],
            "ring attention: expected keys and values for {} positions, found {} and {}",
            total_count(local_keys()),
            form_.key[1],
            form_.value[1]);
    queries_ = pieces_of(call_.query, local_queries());
    if (call_.span && call_.span->span.shape().dimensions() == 3)
      spans_ = pieces_of(call_.span->span.reshape(by_feature(call_.span->span.shape())),
                         local_queries());
    if (const Tensor reach = std::exchange(call_.mask.max_lookback, Tensor()); reach.defined()) {
      const Shape& shape = reach.shape();
      reaches_ = pieces_of(reach.reshape({shape[0], shape[1], 1, 1}), local_queries());
    }
    given_ = external_pieces(given);
    own_ = Block(form_, call_.key.dtype(), device(), MemoryTag::activations);
    if (total_count(local_keys()) < form_.rows) own_.elements().zero();
    std::int64_t begin = 0;
    for (std::size_t j = 0; j < local_keys().size(); ++j) {
      const std::int64_t count = local_keys()[j].count();
      move_rows(call_.key, begin, own_.key(local_keys(), j), 0, count);
      move_rows(call_.value, begin, own_.value(local_keys(), j), 0, count);
      begin += count;
    }
    if (const Tensor padding = std::exchange(call_.mask.key_padding, Tensor()); padding.defined())
      padding_ = padding_pieces(padding, form_.key[0], shares_.key_rows());
    if (const auto parts = std::exchange(call_.mask.sorted, {}))
      parts_.emplace(*parts, shares_.query_rows()[shares_.local_index()], shares_.key_rows());
    // Their rows are now in the pieces and the block.
    call_.query = call_.key = call_.value = Tensor();
  }

  Tensor forward();

  struct Result {
    Tensor query;
    Tensor key;
    Tensor value;
    ExternalScores given;  // in the accumulator dtype
  };
  // `terms`: accumulators for the gradients of the terms.
  Result backward(const Tensor& dout, const AttentionGradient& terms);
  void add_sinks(BackwardContext& gradients) const;

  // Returns the call without query, key, value and outputs.
  const Attention& call() const { return call_; }

 private:
  const Ranges& local_queries() const { return shares_.queries[shares_.local_index()]; }
  const Ranges& local_keys() const { return shares_.keys[shares_.local_index()]; }
  const Device& device() const {
    return own_.elements().defined() ? own_.elements().device() : call_.key.device();
  }
  DType dtype() const { return own_.elements().dtype(); }
  int size() const { return shares_.ranks.size(); }
  int next_rank() const { return (shares_.ranks.rank() + 1) % size(); }
  int rank_before(int distance) const {
    return (shares_.ranks.rank() + size() - distance) % size();
  }
  Request pass_on(const Tensor& sent, const Tensor& received) const {
    return shares_.ranks.start_exchange(sent, next_rank(), received, rank_before(1));
  }

  // Returns one entry for each range of this rank's queries.
  std::vector<ExternalScores> external_pieces(const ExternalScores& given) const;
  double pairs_between(const Range& queries, const Range& keys) const;
  // Returns the call for query range i of this rank over key range j of rank `rank`.
  Attention part(std::size_t i, const Block& block, int rank, std::size_t j) const;
  template <typename Visit>
  void for_each_meeting(const Block& block,
                        int rank,
                        Request& under_way,
                        FakeTransport& dry,
                        const Visit& visit) const;
  // Calls work(block, rank) with the keys and values of each rank, starting with this rank's.
  template <typename Work>
  void run_ring(const Work& work) const;

  Attention call_;
  TermPlaces places_;
  SequenceShards shares_;
  Block::Form form_;
  Block own_;
  std::vector<std::vector<Tensor>> padding_;  // for each rank's ranges, if any
  std::optional<SequenceParts> parts_;        // only for a sorted sequence
  // One for each range of this rank's queries.
  std::vector<Tensor> queries_;
  std::vector<Tensor> spans_;    // [batch, queries, heads, 1] if token-dependent
  std::vector<Tensor> reaches_;  // [batch, queries, 1, 1] if given
  std::vector<ExternalScores> given_;
  std::vector<Tensor> log_sum_exps_;
  Tensor out_;  // over all ranges; saved by ops that read it
};

// Counts over this rank's heads that have separate masks.
double Ring::pairs_between(const Range& queries, const Range& keys) const {
  if (queries.count() == 0 || keys.count() == 0) return 0;
  const PlanShape shape = {.query_begin = queries.begin,
                           .time = queries.count(),
                           .key_begin = keys.begin,
                           .keys = keys.count()};
  const HeadMasks& rules = call_.mask.rules;
  const std::int64_t begin = call_.mask.head_begin;
  const std::int64_t heads = rules.one_for_all() ? 1 : queries_[0].shape()[2];  // on this rank
  double pairs = 0;
  for (std::int64_t head = begin; head < begin + heads; ++head)
    pairs += static_cast<double>(count_pairs(device().state(), rules.of(head), shape));
  return pairs;
}

std::vector<ExternalScores> Ring::external_pieces(const ExternalScores& given) const {
  std::vector<ExternalScores> result(local_queries().size());
  for (const auto part : external_parts) {
    if (!(given.*part).defined()) continue;
    const std::vector<Tensor> pieces = pieces_of(given.*part, local_queries());
    for (std::size_t i = 0; i < result.size(); ++i) result[i].*part = pieces[i];
  }
  return result;
}

Attention Ring::part(std::size_t i, const Block& block, int rank, std::size_t j) const {
  const auto of_rank = static_cast<std::size_t>(rank);
  const Range& queries = local_queries()[i];
  const Range& keys = shares_.keys[of_rank][j];
  Attention result = call_;
  result.query = queries_[i];
  result.key = block.key(shares_.keys[of_rank], j);
  result.value = block.value(shares_.keys[of_rank], j);
  result.mask.query_begin = queries.begin;
  result.mask.key_begin = keys.begin;
  if (!padding_.empty()) result.mask.key_padding = padding_[of_rank][j];
  if (parts_) result.mask.sorted = parts_->between(i, of_rank, j);
  if (!reaches_.empty())
    result.mask.max_lookback = reaches_[i].reshape({reaches_[i].shape()[0], queries.count()});
  if (!spans_.empty()) result.span->span = without_feature(spans_[i]);
  if (result.dropout) {
    result.dropout->time_begin = queries.begin - shares_.memory;
    result.dropout->time_total = shares_.queries_total;
    result.dropout->keys_begin = keys.begin;
    result.dropout->keys_total = shares_.keys_total;
  }
  return result;
}

template <typename Visit>
void Ring::for_each_meeting(const Block& block,
                            int rank,
                            Request& under_way,
                            FakeTransport& dry,
                            const Visit& visit) const {
  const Ranges& keys = shares_.keys[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < local_queries().size(); ++i)
    for (std::size_t j = 0; j < keys.size(); ++j) {
      const double pairs = pairs_between(local_queries()[i], keys[j]);
      if (pairs == 0) continue;
      const auto here = [&] {
        visit(i, j, part(i, block, rank, j));
        under_way.test();
      };
      if (device().state().is_meta())
        dry.visit_or_count(device(), i, keys[j].count(), pairs, here);
      else
        here();
    }
}

template <typename Work>
void Ring::run_ring(const Work& work) const {
  Block here = own_;
  Block coming;
  for (int step = 0; step < size(); ++step) {
    Request under_way;
    if (step + 1 < size()) {
      // The block from two steps ago is no longer needed, unless it is this rank's own.
      if (step < 2) coming = Block(form_, dtype(), device(), MemoryTag::workspace);
      under_way = pass_on(here.elements(), coming.elements());
    }
    work(here, rank_before(step), under_way);
    under_way.wait();
    std::swap(here, coming);
  }
}

Tensor Ring::forward() {
  const DType sums = accumulator_of(dtype());
  std::vector<Tensor> outs;
  for (const Tensor& query : queries_) {
    const Shape& shape = query.shape();
    const Shape out = shape.with(-1, form_.value[3]);
    const Shape rows = {shape[0], shape[2], shape[1]};
    outs.push_back(Tensor::empty(out, sums, device()));
    log_sum_exps_.push_back(Tensor::empty(rows, sums, device()));
    on(device(), [&](auto backend) { init_merge(backend, outs.back(), log_sum_exps_.back()); });
  }
  FakeTransport dry;
  run_ring([&](const Block& block, int rank, Request& under_way) {
    for_each_meeting(block, rank, under_way, dry, [&](std::size_t i, std::size_t, Attention call) {
      call.out = Tensor::empty(outs[i].shape(), dtype(), device(), MemoryTag::workspace);
      call.log_sum_exp = log_sum_exps_[i].empty_like(MemoryTag::workspace);
      dispatch_or_meta(device(), [&](auto backend) { attention(backend, call, given_[i]); });
      on(device(), [&](auto backend) {
        merge_attention(backend,
                        {.out = outs[i],
                         .log_sum_exp = log_sum_exps_[i],
                         .part = call.out,
                         .part_log_sum_exp = call.log_sum_exp});
      });
    });
  });
  for (std::size_t i = 0; i < outs.size(); ++i) join_sinks(places_, outs[i], log_sum_exps_[i]);
  for (Tensor& out : outs) out = to_dtype(out, dtype());
  out_ = joined(outs);
  return out_;
}

void Ring::add_sinks(BackwardContext& gradients) const {
  const std::vector<Tensor> douts = pieces_of(gradients.output(), local_queries());
  const std::vector<Tensor> outs = pieces_of(out_, local_queries());
  for (std::size_t i = 0; i < outs.size(); ++i)
    add_sink_gradients(gradients, places_, outs[i], log_sum_exps_[i], douts[i]);
}

Ring::Result Ring::backward(const Tensor& dout, const AttentionGradient& terms) {
  const DType sums = accumulator_of(dtype());
  const std::vector<Tensor> douts = pieces_of(dout, local_queries());
  const std::vector<Tensor> outs = pieces_of(out_, local_queries());
  std::vector<Tensor> dqueries;
  for (const Tensor& query : queries_)
    dqueries.push_back(Tensor::zeros(query.shape(), sums, device()));
  std::vector<Tensor> dspans;
  for (const Tensor& span : spans_) dspans.push_back(Tensor::zeros(span.shape(), sums, device()));

  std::vector<ExternalScores> external_gradients;
  for (const ExternalScores& given : given_)
    external_gradients.push_back(external_score_gradients(given));

  // The gradients follow their keys and values one step behind: the sum over earlier ranks arrives
  // while this rank computes its own part.
  Block sent;
  Block received;
  Request gradients_under_way;
  FakeTransport dry;
  run_ring([&](const Block& block, int rank, Request& under_way) {
    const Block share(form_, sums, device(), MemoryTag::workspace);
    share.elements().zero();
    const Ranges& keys = shares_.keys[static_cast<std::size_t>(rank)];
    for_each_meeting(
        block, rank, under_way, dry, [&](std::size_t i, std::size_t j, Attention call) {
          call.out = outs[i];
          call.log_sum_exp = log_sum_exps_[i];
          AttentionGradient gradient = terms;
          gradient.forward = std::move(call);
          gradient.dout = douts[i];
          gradient.dquery = dqueries[i];
          gradient.dkey = share.key(keys, j);
          gradient.dvalue = share.value(keys, j);
          gradient.add = true;
          if (!dspans.empty()) gradient.dspan = without_feature(dspans[i]);
          dispatch_or_meta(device(), [&](auto backend) {
            attention_backward(backend, gradient, given_[i], external_gradients[i]);
          });
          gradients_under_way.test();
        });
    gradients_under_way.wait();
    if (received.elements().defined())
      on(device(),
         [&](auto backend) { accumulate(backend, 1.0, received.elements(), share.elements()); });
    sent = share;
    if (!received.elements().defined())
      received = Block(form_, sums, device(), MemoryTag::workspace);
    gradients_under_way = pass_on(sent.elements(), received.elements());
  });
  gradients_under_way.wait();
  if (!dspans.empty()) {
    const Tensor all = joined(dspans);
    on(device(), [&](auto backend) { accumulate(backend, 1.0, all, terms.dspan); });
  }
  ExternalScores dgiven;
  for (const auto part : external_parts) {
    if (external_gradients.empty() || !(external_gradients[0].*part).defined()) continue;
    std::vector<Tensor> of_ranges;
    for (const ExternalScores& found : external_gradients) of_ranges.push_back(found.*part);
    dgiven.*part = joined(of_ranges);
  }

  std::vector<Tensor> dkeys;
  std::vector<Tensor> dvalues;
  for (std::size_t j = 0; j < local_keys().size(); ++j) {
    dkeys.push_back(received.key(local_keys(), j));
    dvalues.push_back(received.value(local_keys(), j));
  }
  return {.query = to_dtype(joined(dqueries), dtype()),
          .key = to_dtype(joined(dkeys), dtype()),
          .value = to_dtype(joined(dvalues), dtype()),
          .given = dgiven};
}

void check(const AttentionMask& mask, const AttentionTerms& terms, const SequenceShards& shares) {
  require(!mask.sorted || !mask.sorted->causal,
          "attention over {} context ranks does not support sorted causal sequences",
          shares.ranks.size());
  require(!terms.hash,
          "attention over {} context ranks does not support the terms of hash attention",
          shares.ranks.size());
  require(std::ssize(shares.queries) == shares.ranks.size() &&
              std::ssize(shares.keys) == shares.ranks.size(),
          "ring attention: expected query and key ranges for {} ranks, found {} and {}",
          shares.ranks.size(),
          shares.queries.size(),
          shares.keys.size());
  const bool is_chunk = shares.chunk.count() > 0;
  const Range queries =
      is_chunk ? shares.chunk : Range{shares.memory, shares.memory + shares.queries_total};
  const Range keys = is_chunk ? shares.chunk_keys : Range{0, shares.keys_total};
  require(cover_once(shares.queries, queries) && cover_once(shares.keys, keys),
          "ring attention: the ranges of {} ranks do not partition {} queries after {} and {} keys",
          shares.ranks.size(),
          shares.queries_total,
          shares.memory,
          shares.keys_total);
}

void add_gradients(BackwardContext& gradients,
                   Ring& ring,
                   const TermPlaces& places,
                   const GivenPlaces& given) {
  const AttentionGradient terms = term_gradients(gradients, ring.call(), places);
  if (places.sinks != 0) ring.add_sinks(gradients);
  const Ring::Result result = ring.backward(gradients.output(), terms);
  const Tensor* const first[] = {&result.query, &result.key, &result.value};
  for (std::size_t input = 0; input < 3; ++input)
    if (gradients.needs_gradient(input)) gradients.set(input, *first[input]);
  add_term_gradients(gradients, terms, ring.call(), places);
  add_external_gradients(gradients, given, result.given, result.query.dtype());
}

}  // namespace

Variable ring_attention(const Variable& query,
                        const Variable& key,
                        const Variable& value,
                        const AttentionMask& mask,
                        const AttentionTerms& terms,
                        const std::optional<AttentionDropout>& dropout,
                        const SequenceShards& shares) {
  return ring_attention_with(
      query, key, value, mask, terms, ExternalScoreVariables(), dropout, shares);
}

Variable ring_attention_with(const Variable& query,
                             const Variable& key,
                             const Variable& value,
                             const AttentionMask& mask,
                             const AttentionTerms& terms,
                             const ExternalScoreVariables& given,
                             const std::optional<AttentionDropout>& dropout,
                             const SequenceShards& shares) {
  check(mask, terms, shares);
  Attention call;
  call.query = query.value();
  call.key = key.value();
  call.value = value.value();
  call.mask = mask;
  if (dropout && dropout->rate > 0) call.dropout = dropout;
  std::vector<Variable> inputs = {query, key, value};
  const TermPlaces places = add_terms(terms, call, inputs);
  const GivenInputs scores = add_external_scores(given, inputs);
  const auto ring = std::make_shared<Ring>(std::move(call), scores.values, places, shares);
  Tensor out = ring->forward();
  return record(std::move(out),
                inputs,
                [ring, places, of_external = scores.places](BackwardContext& gradients) {
                  add_gradients(gradients, *ring, places, of_external);
                });
}

}  // namespace longspan
