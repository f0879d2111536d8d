#include <algorithm>

#include "framework/autograd/attention.h"
#include "framework/autograd/dtypes.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/chunk_slots.h"
#include "framework/kernels/attention/hash_buckets.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/l2_normalize.h"

namespace longspan {
namespace {

// Rows (slots times heads) that are gathered and attended to at once. Bounds the workspace; on a
// CPU keeps a gathered row in the cache until use. A GPU needs enough work for all multiprocessors
// in each of the few dozen kernels launched.
std::int64_t rows_at_once(const Device& device) {
  return device.on_gpu() ? std::int64_t{1} << 18 : 8192;
}

// Arguments of a call, and the tensors saved for its gradient.
struct Saved {
  Tensor shared;
  Tensor value;
  Tensor buckets;
  LshAttentionOptions options;
  std::optional<AttentionDropout> dropout;
  Tensor out;
  Tensor log_sum_exp;  // [batch, heads, time]

  std::int64_t batch() const { return shared.shape()[0]; }
  std::int64_t time() const { return shared.shape()[1]; }
  std::int64_t heads() const { return shared.shape()[2]; }
  std::int64_t rounds() const { return buckets.shape()[2]; }
  std::int64_t chunks() const { return (time() + options.chunk - 1) / options.chunk; }
  std::int64_t met() const {
    return options.chunk * (chunks() == 1 ? 1 : 1 + options.look_back + options.look_ahead);
  }
  bool counts() const { return options.count_once && (rounds() > 1 || options.count_floor > 0); }
};

// Returns one batch row of a tensor, without its leading axis.
Tensor row_of(const Tensor& tensor, std::int64_t b) {
  const auto extents = tensor.shape().extents();
  return tensor.slice(b, b + 1).reshape(Shape(extents.subspan(1)));
}

Tensor with_leading_axis(const Tensor& tensor) {
  std::vector<std::int64_t> extents = {1};
  const auto inner = tensor.shape().extents();
  extents.insert(extents.end(), inner.begin(), inner.end());
  return tensor.reshape(Shape(extents));
}

// Accumulator for a batch row: the row itself, or a wider copy that `finish` rounds.
class WideRow {
 public:
  WideRow(const Tensor& whole, std::int64_t b)
      : row_(row_of(whole, b)),
        sums_(whole.dtype() == accumulator_of(whole.dtype())
                  ? row_
                  : Tensor::empty(row_.shape(),
                                  accumulator_of(whole.dtype()),
                                  whole.device(),
                                  MemoryTag::workspace)) {}
  const Tensor& sums() const { return sums_; }
  void finish() const {
    if (sums_.dtype() != row_.dtype())
      on(row_.device(), [&](auto backend) { scale(backend, 1, sums_, row_); });
  }

 private:
  Tensor row_;
  Tensor sums_;
};

// Sort order of one batch row in all rounds.
class SortedRow {
 public:
  SortedRow(const Saved& saved, std::int64_t b)
      : saved_(saved),
        b_(b),
        shared_(row_of(saved.shared, b)),
        value_(row_of(saved.value, b)),
        bucket_(row_of(saved.buckets, b)),
        order_(bucket_.empty_like(MemoryTag::workspace)),
        chunk_(bucket_.empty_like(MemoryTag::workspace)) {
    on(device(), [&](auto backend) {
      sort_buckets(
          backend,
          {.bucket = bucket_, .buckets = saved.options.buckets, .order = order_, .place = chunk_});
      if (saved.counts()) chunk_of_places(backend, chunk_, saved.options.chunk, chunk_);
    });
    if (!saved.counts()) chunk_ = {};
  }

  // Calls f(span) for all spans of all rounds, in order.
  template <typename F>
  void for_spans(const F& f) const;

  // Chunks of a round with the keys they attend to, gathered.
  struct Span {
    Tensor query_position;  // [heads, count]
    Tensor key_position;    // [heads, keys]
    Tensor inverse_norm;    // of the keys
    std::int64_t before;    // number of key slots before the first query slot
    Attention call;         // without its outputs
    std::int64_t count() const { return query_position.shape()[1]; }
    std::int64_t keys() const { return key_position.shape()[1]; }
  };

 private:
  Span span_of(std::int64_t round, std::int64_t begin, std::int64_t count) const;
  void gather_inputs(Span& span) const;
  AttentionMask mask_of(const ChunkSlots& slots) const;
  LshTerm term() const;
  AttentionDropout dropout_of(std::int64_t round, std::int64_t begin) const;
  const Device& device() const { return shared_.device(); }
  Tensor scratch(const Shape& shape, DType dtype) const {
    return Tensor::empty(shape, dtype, device(), MemoryTag::workspace);
  }

  const Saved& saved_;
  std::int64_t b_;
  Tensor shared_;  // [time, heads, dim]
  Tensor value_;
  Tensor bucket_;  // [heads, rounds, time]
  Tensor order_;
  Tensor chunk_;
};

template <typename F>
void SortedRow::for_spans(const F& f) const {
  const std::int64_t chunk = saved_.options.chunk;
  const std::int64_t slots = saved_.chunks() * chunk;
  const std::int64_t step =
      std::max(rows_at_once(device()) / saved_.heads() / chunk, std::int64_t{1}) * chunk;
  for (std::int64_t round = 0; round < saved_.rounds(); ++round)
    for (std::int64_t begin = 0; begin < slots; begin += step)
      f(span_of(round, begin, std::min(step, slots - begin)));
}

SortedRow::Span SortedRow::span_of(std::int64_t round,
                                   std::int64_t begin,
                                   std::int64_t count) const {
  const LshAttentionOptions& options = saved_.options;
  // a single chunk would attend to itself again by wrapping around
  const bool alone = saved_.chunks() == 1;
  ChunkSlots slots = {.order = order_,
                      .chunk = options.chunk,
                      .look_back = alone ? 0 : options.look_back,
                      .look_ahead = alone ? 0 : options.look_ahead,
                      .wrap_rounds = options.wrap_rounds,
                      .round = round,
                      .begin = begin,
                      .count = count};
  if (options.hidden.defined()) slots.hidden = row_of(options.hidden, b_);
  const std::int64_t keys = count + (slots.look_back + slots.look_ahead) * options.chunk;
  slots.query_position = scratch({saved_.heads(), count}, DType::i32);
  slots.key_position = scratch({saved_.heads(), keys}, DType::i32);
  if (options.same_bucket) {
    slots.bucket = bucket_;
    slots.query_bucket = slots.query_position.empty_like(MemoryTag::workspace);
    slots.key_bucket = slots.key_position.empty_like(MemoryTag::workspace);
  }
  on(device(), [&](auto backend) { chunk_slots(backend, slots); });
  Span span = {.query_position = slots.query_position,
               .key_position = slots.key_position,
               .inverse_norm = {},
               .before = slots.look_back * options.chunk,
               .call = {}};
  gather_inputs(span);
  span.call.mask = mask_of(slots);
  span.call.hash = term();
  span.call.scale = options.scale;
  if (saved_.dropout) span.call.dropout = dropout_of(round, begin);
  return span;
}

void SortedRow::gather_inputs(Span& span) const {
  const std::int64_t keys = span.keys(), heads = saved_.heads();
  const std::int64_t dim = shared_.shape()[2];
  const Tensor shared = scratch({keys, heads, dim}, shared_.dtype());
  const Tensor key = shared.empty_like(MemoryTag::workspace);
  const Tensor value = scratch({keys, heads, value_.shape()[2]}, value_.dtype());
  span.inverse_norm = scratch({keys * heads}, accumulator_of(shared.dtype()));
  on(device(), [&](auto backend) {
    gather_slots(backend, shared_, span.key_position, shared);
    gather_slots(backend, value_, span.key_position, value);
    l2_normalize(backend, {.x = shared, .y = key, .inverse_norm = span.inverse_norm});
  });
  span.call.query = with_leading_axis(shared.slice(span.before, span.before + span.count()));
  span.call.key = with_leading_axis(key);
  span.call.value = with_leading_axis(value);
}

AttentionMask SortedRow::mask_of(const ChunkSlots& slots) const {
  const std::int64_t before = slots.look_back * slots.chunk;
  const auto given = [](const Tensor& tensor) {
    return tensor.defined() ? with_leading_axis(tensor) : tensor;
  };
  return {.rules = masks::block(slots.chunk, before, slots.look_ahead * slots.chunk),
          .query_begin = before,
          .sorted = SortedSequence{.query_position = given(slots.query_position),
                                   .key_position = given(slots.key_position),
                                   .causal = saved_.options.causal,
                                   .query_bucket = given(slots.query_bucket),
                                   .key_bucket = given(slots.key_bucket)}};
}

LshTerm SortedRow::term() const {
  const LshAttentionOptions& options = saved_.options;
  LshTerm term = {.self_score = options.self_score};
  if (!saved_.counts()) return term;
  term.chunk = with_leading_axis(chunk_);
  if (options.same_bucket) term.bucket = with_leading_axis(bucket_);
  const bool alone = saved_.chunks() == 1;
  term.look_back = alone ? 0 : options.look_back;
  term.look_ahead = alone ? 0 : options.look_ahead;
  // With all rounds at once, the first chunk of a round has no predecessor in its own round.
  const bool wraps_around = !options.wrap_rounds || saved_.rounds() == 1;
  term.chunks = wraps_around ? saved_.chunks() : 0;
  term.count_floor = options.count_floor;
  return term;
}

AttentionDropout SortedRow::dropout_of(std::int64_t round, std::int64_t begin) const {
  const LshAttentionOptions& options = saved_.options;
  AttentionDropout dropout = *saved_.dropout;
  dropout.random = dropout.random.child(static_cast<std::uint64_t>(round));
  dropout.batch_begin += b_;
  dropout.time_begin = begin;
  dropout.time_total = saved_.chunks() * options.chunk;
  dropout.keys_begin = begin;
  dropout.keys_total =
      dropout.time_total + (options.look_back + options.look_ahead) * options.chunk;
  return dropout;
}

// During its lifetime a dry device counts operations of all pairs of slots in the same chunks.
// Those needed are pairs of tokens, and if causal only pairs with earlier keys. Which pairs occur
// is random: on average half of them are earlier, not counting the query itself.
class NeededPairs {
 public:
  explicit NeededPairs(const Saved& saved)
      : saved_(saved), device_(saved.out.device().state()), before_(needed()) {}
  NeededPairs(const NeededPairs&) = delete;
  NeededPairs& operator=(const NeededPairs&) = delete;
  ~NeededPairs() {
    if (!device_.is_meta()) return;
    const auto met = static_cast<double>(saved_.met());
    const auto time = static_cast<double>(saved_.time());
    const double pairs = time * (saved_.options.causal ? (met + 1) / 2 : met);
    const double made = static_cast<double>(saved_.chunks() * saved_.options.chunk) * met;
    const double counted = needed() - before_;
    device_.get_or_create<RedundantFlops>().flops += counted - counted * pairs / made;
  }

 private:
  double needed() const { return device_.flops() - device_.get_or_create<RedundantFlops>().flops; }

  const Saved& saved_;
  DeviceState& device_;
  const double before_;
};

void forward(const Saved& saved) {
  const NeededPairs needed(saved);
  const Device& device = saved.out.device();
  for (std::int64_t b = 0; b < saved.batch(); ++b) {
    const WideRow out(saved.out, b);
    const Tensor log_sum_exp = row_of(saved.log_sum_exp, b);
    on(device, [&](auto backend) { init_merge(backend, out.sums(), log_sum_exp); });
    SortedRow(saved, b).for_spans([&](auto span) {
      const Tensor part = Tensor::empty(saved.out.shape().with(0, 1).with(1, span.count()),
                                        saved.out.dtype(),
                                        device,
                                        MemoryTag::workspace);
      const Tensor sums = Tensor::empty(
          {1, saved.heads(), span.count()}, log_sum_exp.dtype(), device, MemoryTag::workspace);
      span.call.out = part;
      span.call.log_sum_exp = sums;
      dispatch_or_meta(device, [&](auto backend) { attention(backend, span.call); });
      on(device, [&](auto backend) {
        merge_attention(backend,
                        {.out = with_leading_axis(out.sums()),
                         .log_sum_exp = with_leading_axis(log_sum_exp),
                         .part = part,
                         .part_log_sum_exp = sums,
                         .position = with_leading_axis(span.query_position)});
      });
    });
    out.finish();
  }
}

// Uses the results over all rounds in the slots of a span: the gradient of a part is that of one
// softmax over all parts.
AttentionGradient gradient_call(const Saved& saved,
                                std::int64_t b,
                                const Tensor& dout,
                                const SortedRow::Span& span) {
  const auto in_slots = [&](const Tensor& whole) {
    const Tensor rows = Tensor::empty(whole.shape().with(0, 1).with(1, span.count()),
                                      whole.dtype(),
                                      whole.device(),
                                      MemoryTag::workspace);
    on(whole.device(), [&](auto backend) {
      gather_slots(backend, row_of(whole, b), span.query_position, row_of(rows, 0));
    });
    return rows;
  };
  AttentionGradient call = {
      .forward = span.call, .dout = in_slots(dout), .dquery = {}, .dkey = {}, .dvalue = {}};
  call.forward.out = in_slots(saved.out);
  call.forward.log_sum_exp = Tensor::empty({1, saved.heads(), span.count()},
                                           saved.log_sum_exp.dtype(),
                                           saved.out.device(),
                                           MemoryTag::workspace);
  on(dout.device(), [&](auto backend) {
    gather_slot_values(backend,
                       row_of(saved.log_sum_exp, b),
                       span.query_position,
                       row_of(call.forward.log_sum_exp, 0));
  });
  const DType sums = accumulator_of(dout.dtype());
  const auto wide = [&](const Tensor& like) {
    return Tensor::empty(like.shape(), sums, dout.device(), MemoryTag::workspace);
  };
  call.dkey = wide(span.call.key);
  call.dvalue = wide(span.call.value);
  return call;
}

// Adds rows of key slots to a batch row. Slots of neighboring chunks may repeat those of the span,
// so groups are added one after another.
void add_slots(const Tensor& rows, const SortedRow::Span& span, const Tensor& sums) {
  const std::int64_t begin = span.before, end = span.before + span.count();
  const auto add = [&](std::int64_t from, std::int64_t to) {
    on(sums.device(), [&](auto backend) {
      scatter_slots(
          backend,
          {.rows = rows, .position = span.key_position, .begin = from, .end = to, .whole = sums});
    });
  };
  add(begin, end);
  add(0, begin);
  add(end, span.keys());
}

void backward(const Saved& saved, const Tensor& dout, const Tensor& dshared, const Tensor& dvalue) {
  const NeededPairs needed(saved);
  for (std::int64_t b = 0; b < saved.batch(); ++b) {
    const WideRow shared_row(dshared, b), value_row(dvalue, b);
    shared_row.sums().zero();
    value_row.sums().zero();
    SortedRow(saved, b).for_spans([&](auto span) {
      AttentionGradient call = gradient_call(saved, b, dout, span);
      // The middle slots are the queries.
      const Tensor dslots = row_of(call.dkey, 0).empty_like(MemoryTag::workspace);
      dslots.zero();
      call.dquery = with_leading_axis(dslots.slice(span.before, span.before + span.count()));
      dispatch_or_meta(dout.device(), [&](auto backend) { attention_backward(backend, call); });
      on(dout.device(), [&](auto backend) {
        l2_normalize_backward(
            backend,
            {.y = span.call.key, .inverse_norm = span.inverse_norm, .dy = call.dkey, .dx = dslots});
      });
      add_slots(dslots, span, shared_row.sums());
      add_slots(row_of(call.dvalue, 0), span, value_row.sums());
    });
    shared_row.finish();
    value_row.finish();
  }
}

void require_inputs(const Saved& saved) {
  const Shape& shared = saved.shared.shape();
  const Shape& value = saved.value.shape();
  const Shape& buckets = saved.buckets.shape();
  require(shared.dimensions() == 4 && value.dimensions() == 4 && buckets.dimensions() == 4 &&
              value == shared.with(3, value[3]) && saved.value.dtype() == saved.shared.dtype() &&
              saved.buckets.dtype() == DType::i32 &&
              buckets == Shape{shared[0], shared[2], buckets[2], shared[1]} && buckets[2] > 0,
          "hash attention: expected shared and value [batch, time, heads, dim] and i32 buckets "
          "[batch, heads, rounds, time], found {}, {} and {} {}",
          shared,
          value,
          name_of(saved.buckets.dtype()),
          buckets);
  const LshAttentionOptions& options = saved.options;
  require(!options.hidden.defined() || (options.hidden.dtype() == DType::u8 &&
                                        options.hidden.shape() == Shape{shared[0], shared[1]}),
          "hash attention: expected hidden u8 [batch, time], found {}",
          options.hidden.shape().to_string());
  const std::int64_t seen = 1 + options.look_back + options.look_ahead;
  require(saved.chunks() == 1 || saved.chunks() >= seen,
          "hash attention: expected at least {} chunks, found {} of length {}",
          seen,
          saved.chunks(),
          options.chunk);
}

}  // namespace

Variable lsh_attention(const Variable& shared,
                       const Variable& value,
                       const Tensor& buckets,
                       const LshAttentionOptions& options,
                       const std::optional<AttentionDropout>& dropout) {
  Saved saved = {.shared = shared.value(),
                 .value = value.value(),
                 .buckets = buckets,
                 .options = options,
                 .dropout = dropout && dropout->rate > 0 ? dropout : std::nullopt,
                 .out = {},
                 .log_sum_exp = {}};
  require_inputs(saved);
  const DType dtype = saved.shared.dtype();
  const Device& device = saved.shared.device();
  saved.out = Tensor::empty(saved.value.shape(), dtype, device);
  saved.log_sum_exp = empty_accumulator(saved.shared, {saved.batch(), saved.heads(), saved.time()});
  forward(saved);
  Tensor out = saved.out;
  return record(
      std::move(out), {shared, value}, [saved = std::move(saved)](BackwardContext& gradients) {
        Tensor dshared = saved.shared.empty_like(), dvalue = saved.value.empty_like();
        backward(saved, gradients.output(), dshared, dvalue);
        if (gradients.needs_gradient(0)) gradients.set(0, std::move(dshared));
        if (gradients.needs_gradient(1)) gradients.set(1, std::move(dvalue));
      });
}

}  // namespace longspan
