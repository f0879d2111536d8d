#include "framework/kernels/attention/chunk_slots.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

// Slots [first, first + count) of each head, which may be beyond the ends of the round.
struct ReadSlot {
  std::int64_t rounds, time, slots, round;
  bool wrap_rounds;
  const std::int32_t* order;
  const std::int32_t* bucket_of;
  const std::uint8_t* hidden;
  std::int64_t first, count;
  std::int32_t* position;
  std::int32_t* bucket;

  ReadSlot(const ChunkSlots& s,
           std::int64_t first_slot,
           const Tensor& positions,
           const Tensor& buckets)
      : rounds(s.order.shape()[1]),
        time(s.order.shape()[2]),
        slots((time + s.chunk - 1) / s.chunk * s.chunk),
        round(s.round),
        wrap_rounds(s.wrap_rounds),
        order(s.order.data<std::int32_t>()),
        bucket_of(s.bucket.defined() ? s.bucket.data<std::int32_t>() : nullptr),
        hidden(s.hidden.defined() ? s.hidden.data<std::uint8_t>() : nullptr),
        first(first_slot),
        count(positions.shape()[1]),
        position(positions.data<std::int32_t>()),
        bucket(s.bucket.defined() ? buckets.data<std::int32_t>() : nullptr) {}

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t head = i / count, at = first + i % count, all = rounds * slots;
    const std::int64_t wrapped =
        wrap_rounds ? (round * slots + at + all) % all : round * slots + (at + slots) % slots;
    const std::int64_t of_round = wrapped / slots, slot = wrapped % slots;
    const std::int64_t row = (head * rounds + of_round) * time;
    std::int32_t found = slot < time ? order[row + slot] : -1;
    if (hidden != nullptr && found >= 0 && hidden[found] != 0) found = -1;
    position[i] = found;
    if (bucket != nullptr) bucket[i] = of_round != round || found < 0 ? -1 : bucket_of[row + found];
  }
};

struct ChunkOfPlace {
  std::int32_t length;
  const std::int32_t* place;
  std::int32_t* chunk;

  __device__ void operator()(std::int64_t i) const {
    chunk[i] = place[i] < 0 ? place[i] : place[i] / length;
  }
};

// Element i of rows [slots, heads, dim] and the position of its slot.
struct SlotRows {
  std::int64_t slots, heads, dim;
  const std::int32_t* position;

  SlotRows(const Tensor& rows, const Tensor& positions)
      : slots(rows.shape()[0]),
        heads(rows.shape()[1]),
        dim(rows.shape()[2]),
        position(positions.data<std::int32_t>()) {}

  __device__ std::int64_t at(std::int64_t i) const {
    return position[i / dim % heads * slots + i / (dim * heads)];
  }
  __device__ std::int64_t element(std::int64_t i, std::int64_t at) const {
    return (at * heads + i / dim % heads) * dim + i % dim;
  }
};

template <typename T>
struct GatherSlot {
  SlotRows rows;
  const T* whole;
  T* to;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = rows.at(i);
    to[i] = at < 0 ? T(Accumulator<T>{0}) : whole[rows.element(i, at)];
  }
};

template <typename T, typename D>
struct ScatterSlot {
  SlotRows rows;
  std::int64_t first;  // element of the rows
  const T* from;
  D* whole;

  __device__ void operator()(std::int64_t offset) const {
    const std::int64_t i = first + offset, at = rows.at(i);
    if (at < 0) return;
    D& sum = whole[rows.element(i, at)];
    put(sum, wide(sum) + static_cast<Accumulator<D>>(wide(from[i])));
  }
};

template <typename A>
struct GatherSlotValue {
  std::int64_t time, slots;
  const std::int32_t* position;
  const A* whole;
  A* values;

  __device__ void operator()(std::int64_t i) const {
    values[i] = position[i] < 0 ? A{0} : whole[i / slots * time + position[i]];
  }
};

}  // namespace

void chunk_slots(Cuda cuda, const ChunkSlots& slots) {
  check(slots);
  for_each_element(cuda,
                   slots.query_position.elements(),
                   ReadSlot(slots, slots.begin, slots.query_position, slots.query_bucket));
  for_each_element(cuda,
                   slots.key_position.elements(),
                   ReadSlot(slots,
                            slots.begin - slots.look_back * slots.chunk,
                            slots.key_position,
                            slots.key_bucket));
}

void chunk_of_places(Cuda cuda, const Tensor& place, std::int64_t length, const Tensor& chunk) {
  check_chunk_of_places(place, length, chunk);
  for_each_element(cuda,
                   place.elements(),
                   ChunkOfPlace{static_cast<std::int32_t>(length),
                                place.data<std::int32_t>(),
                                chunk.data<std::int32_t>()});
}

void gather_slots(Cuda cuda, const Tensor& whole, const Tensor& position, const Tensor& rows) {
  check_gather_slots(whole, position, rows);
  with_floating_type(whole.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(cuda,
                     rows.elements(),
                     GatherSlot<T>{SlotRows(rows, position), whole.data<T>(), rows.data<T>()});
  });
}

void gather_slot_values(Cuda cuda,
                        const Tensor& whole,
                        const Tensor& position,
                        const Tensor& values) {
  check_gather_slot_values(whole, position, values);
  with_floating_type(whole.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    for_each_element(cuda,
                     values.elements(),
                     GatherSlotValue<A>{whole.shape()[1],
                                        position.shape()[1],
                                        position.data<std::int32_t>(),
                                        whole.data<A>(),
                                        values.data<A>()});
  });
}

void scatter_slots(Cuda cuda, const SlotScatter& scatter) {
  check(scatter);
  const std::int64_t width = scatter.rows.shape()[1] * scatter.rows.shape()[2];
  with_both_types(scatter.rows, scatter.whole, [&]<typename T, typename D>(TypeTag<T>, TypeTag<D>) {
    for_each_element(cuda,
                     (scatter.end - scatter.begin) * width,
                     ScatterSlot<T, D>{SlotRows(scatter.rows, scatter.position),
                                       scatter.begin * width,
                                       scatter.rows.data<T>(),
                                       scatter.whole.data<D>()});
  });
}

}  // namespace longspan
