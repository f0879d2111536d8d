#include "framework/kernels/attention/chunk_slots.h"

#include <algorithm>

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

// Reads one head's slots of a round.
class SlotReader {
 public:
  SlotReader(const ChunkSlots& slots, std::int64_t head)
      : rounds_(slots.order.shape()[1]),
        time_(slots.order.shape()[2]),
        slots_((time_ + slots.chunk - 1) / slots.chunk * slots.chunk),
        round_(slots.round),
        wrap_rounds_(slots.wrap_rounds),
        order_(slots.order.data<std::int32_t>() + head * rounds_ * time_),
        bucket_(slots.bucket.defined() ? slots.bucket.data<std::int32_t>() + head * rounds_ * time_
                                       : nullptr),
        hidden_(slots.hidden.defined() ? slots.hidden.data<std::uint8_t>() : nullptr) {}

  // Writes `count` slots from `first` on, which may be beyond the ends of the round.
  void read(std::int64_t first,
            std::int64_t count,
            std::int32_t* position,
            std::int32_t* bucket) const {
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t all = rounds_ * slots_;
      const std::int64_t wrapped = wrap_rounds_ ? (round_ * slots_ + first + i + all) % all
                                                : round_ * slots_ + (first + i + slots_) % slots_;
      const std::int64_t round = wrapped / slots_, slot = wrapped % slots_;
      const std::int64_t run = std::min(count - i, slots_ - slot);
      read_run(round, slot, run, position + i, bucket == nullptr ? nullptr : bucket + i);
      i += run;
    }
  }

 private:
  void read_run(std::int64_t round,
                std::int64_t slot,
                std::int64_t count,
                std::int32_t* position,
                std::int32_t* bucket) const {
    const std::int64_t filled = std::clamp<std::int64_t>(time_ - slot, 0, count);
    std::copy_n(order_ + round * time_ + slot, filled, position);
    std::fill(position + filled, position + count, -1);
    if (hidden_ != nullptr)
      for (std::int64_t i = 0; i < filled; ++i)
        if (position[i] >= 0 && hidden_[position[i]] != 0) position[i] = -1;
    if (bucket == nullptr) return;
    const std::int32_t* bucket_of = bucket_ + round * time_;
    for (std::int64_t i = 0; i < count; ++i)
      bucket[i] = round != round_ || position[i] < 0 ? -1 : bucket_of[position[i]];
  }

  std::int64_t rounds_;
  std::int64_t time_;
  std::int64_t slots_;
  std::int64_t round_;
  bool wrap_rounds_;
  const std::int32_t* order_;
  const std::int32_t* bucket_;
  const std::uint8_t* hidden_;
};

// Calls f(row, in) for the slots [begin, end). `row` indexes rows of [slots, heads]; `in` is the
// row of whole [time, heads, dim], or null for an empty slot.
template <typename T, typename F>
void for_slots(const Tensor& position,
               std::int64_t begin,
               std::int64_t end,
               T* whole,
               std::int64_t dim,
               const F& f) {
  const std::int64_t heads = position.shape()[0], slots = position.shape()[1];
  const std::int32_t* positions = position.data<std::int32_t>();
  const auto in_full = [=](std::int64_t h, std::int64_t s) -> T* {
    const std::int64_t at = positions[h * slots + s];
    return at < 0 ? nullptr : whole + (at * heads + h) * dim;
  };
  for_rows(end - begin, heads * dim, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t s = begin + first; s < begin + last; ++s)
      for (std::int64_t h = 0; h < heads; ++h) {
        if (s + rows_ahead < begin + last)
          if (T* const next = in_full(h, s + rows_ahead)) prefetch(next, dim);
        f(s * heads + h, in_full(h, s));
      }
  });
}

template <typename T>
void gather(const Tensor& whole, const Tensor& position, const Tensor& rows) {
  const std::int64_t dim = rows.shape()[2];
  T* to = rows.data<T>();
  for_slots(position, 0, rows.shape()[0], whole.data<T>(), dim, [=](std::int64_t row, const T* in) {
    if (in == nullptr)
      std::fill_n(to + row * dim, dim, T{});
    else
      std::copy_n(in, dim, to + row * dim);
  });
}

template <typename T, typename D>
void scatter(const SlotScatter& scatter) {
  using A = Accumulator<T>;
  using B = Accumulator<D>;
  const std::int64_t dim = scatter.rows.shape()[2];
  const T* from = scatter.rows.data<T>();
  for_slots(scatter.position,
            scatter.begin,
            scatter.end,
            scatter.whole.data<D>(),
            dim,
            [=](std::int64_t row, D* sum) {
              if (sum == nullptr) return;
              const T* add = from + row * dim;
#pragma omp simd
              for (std::int64_t c = 0; c < dim; ++c)
                put(sum[c], static_cast<B>(sum[c]) + static_cast<B>(static_cast<A>(add[c])));
            });
}

}  // namespace

void chunk_slots(Cpu, const ChunkSlots& slots) {
  check(slots);
  const std::int64_t heads = slots.order.shape()[0];
  const std::int64_t keys = slots.key_position.shape()[1];
  const auto data = [](const Tensor& tensor, std::int64_t at) {
    return tensor.defined() ? tensor.data<std::int32_t>() + at : nullptr;
  };
  for_rows(heads, keys, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      const SlotReader reader(slots, h);
      reader.read(slots.begin,
                  slots.count,
                  data(slots.query_position, h * slots.count),
                  data(slots.query_bucket, h * slots.count));
      reader.read(slots.begin - slots.look_back * slots.chunk,
                  keys,
                  data(slots.key_position, h * keys),
                  data(slots.key_bucket, h * keys));
    }
  });
}

void chunk_of_places(Cpu, const Tensor& place, std::int64_t length, const Tensor& chunk) {
  check_chunk_of_places(place, length, chunk);
  const std::int32_t* from = place.data<std::int32_t>();
  std::int32_t* to = chunk.data<std::int32_t>();
  const auto divisor = static_cast<std::int32_t>(length);
  for_elements(place.elements(), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = from[i] < 0 ? from[i] : from[i] / divisor;
  });
}

void gather_slots(Cpu, const Tensor& whole, const Tensor& position, const Tensor& rows) {
  check_gather_slots(whole, position, rows);
  with_floating_type(whole.dtype(), [&](auto tag) {
    gather<typename decltype(tag)::type>(whole, position, rows);
  });
}

void gather_slot_values(Cpu, const Tensor& whole, const Tensor& position, const Tensor& values) {
  check_gather_slot_values(whole, position, values);
  const std::int64_t time = whole.shape()[1], slots = position.shape()[1];
  const std::int32_t* positions = position.data<std::int32_t>();
  with_floating_type(whole.dtype(), [&](auto tag) {
    using A = Accumulator<typename decltype(tag)::type>;
    const A* from = whole.data<A>();
    A* to = values.data<A>();
    for_elements(position.elements(), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = positions[i] < 0 ? A{0} : from[i / slots * time + positions[i]];
    });
  });
}

void scatter_slots(Cpu, const SlotScatter& slots) {
  check(slots);
  with_floating_type(slots.rows.dtype(), [&](auto from) {
    with_floating_type(slots.whole.dtype(), [&](auto to) {
      scatter<typename decltype(from)::type, typename decltype(to)::type>(slots);
    });
  });
}

}  // namespace longspan
