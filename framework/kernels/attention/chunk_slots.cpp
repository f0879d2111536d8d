#include "framework/kernels/attention/chunk_slots.h"

namespace longspan {
namespace {

// Checks [time, heads, dim] against [slots, heads, dim] and positions [heads, slots].
void require_rows(const char* kernel,
                  const Tensor& whole,
                  const Tensor& rows,
                  const Tensor& position) {
  const Shape& w = whole.shape();
  const Shape& r = rows.shape();
  require(w.dimensions() == 3 && r.dimensions() == 3 && w[1] == r[1] && w[2] == r[2] &&
              position.dtype() == DType::i32 && position.shape() == Shape{r[1], r[0]},
          "{}: expected [time, heads, dim], rows [slots, heads, dim] and positions i32 [heads, "
          "slots], found {}, {} and {} {}",
          kernel,
          w.to_string(),
          r.to_string(),
          name_of(position.dtype()),
          position.shape().to_string());
}

}  // namespace

void check(const ChunkSlots& slots) {
  const Shape& order = slots.order.shape();
  require(slots.order.dtype() == DType::i32 && order.dimensions() == 3,
          "chunk_slots: expected order i32 [heads, rounds, time], found {} {}",
          name_of(slots.order.dtype()),
          order.to_string());
  const std::int64_t chunks = (order[2] + slots.chunk - 1) / slots.chunk;
  require(slots.begin % slots.chunk == 0 && slots.count % slots.chunk == 0 && slots.begin >= 0 &&
              slots.begin + slots.count <= chunks * slots.chunk && slots.look_back >= 0 &&
              slots.look_back <= chunks && slots.look_ahead >= 0 && slots.look_ahead <= chunks,
          "chunk_slots: slots [{}, {}) with {} chunks before and {} after are out of range for {} "
          "chunks of {}",
          slots.begin,
          slots.begin + slots.count,
          slots.look_back,
          slots.look_ahead,
          chunks,
          slots.chunk);
  const std::int64_t keys = slots.count + (slots.look_back + slots.look_ahead) * slots.chunk;
  const auto expect = [&](const Tensor& tensor, std::int64_t count, const char* name) {
    require(tensor.dtype() == DType::i32 && tensor.shape() == Shape{order[0], count},
            "chunk_slots: expected {} i32 [{}, {}], found {} {}",
            name,
            order[0],
            count,
            name_of(tensor.dtype()),
            tensor.shape().to_string());
  };
  expect(slots.query_position, slots.count, "query_position");
  expect(slots.key_position, keys, "key_position");
  require(!slots.hidden.defined() ||
              (slots.hidden.dtype() == DType::u8 && slots.hidden.shape() == Shape{order[2]}),
          "chunk_slots: expected hidden u8 [{}], found {}",
          order[2],
          slots.hidden.shape().to_string());
  if (!slots.bucket.defined()) return;
  require(slots.bucket.dtype() == DType::i32 && slots.bucket.shape() == order,
          "chunk_slots: expected buckets and order of one i32 shape, found {} and {}",
          slots.bucket.shape().to_string(),
          order.to_string());
  expect(slots.query_bucket, slots.count, "query_bucket");
  expect(slots.key_bucket, keys, "key_bucket");
}

void check_chunk_of_places(const Tensor& place, std::int64_t length, const Tensor& chunk) {
  require(place.dtype() == DType::i32 && chunk.dtype() == DType::i32 &&
              place.elements() == chunk.elements() && length > 0,
          "chunk_of_places: expected i32 positions and chunks of one shape, found {} and {}",
          place.shape().to_string(),
          chunk.shape().to_string());
}

void check_gather_slots(const Tensor& whole, const Tensor& position, const Tensor& rows) {
  require_rows("gather_slots", whole, rows, position);
  require(whole.dtype() == rows.dtype(),
          "gather_slots: expected equal dtypes, found {} and {}",
          name_of(whole.dtype()),
          name_of(rows.dtype()));
}

void check_gather_slot_values(const Tensor& whole, const Tensor& position, const Tensor& values) {
  require(whole.dtype() == values.dtype() && position.dtype() == DType::i32 &&
              values.shape() == position.shape() && whole.shape().dimensions() == 2 &&
              whole.shape()[0] == position.shape()[0],
          "gather_slot_values: {}, values {} and positions {} do not match",
          whole.shape().to_string(),
          values.shape().to_string(),
          position.shape().to_string());
}

void check(const SlotScatter& slots) {
  require_rows("scatter_slots", slots.whole, slots.rows, slots.position);
  require(0 <= slots.begin && slots.begin <= slots.end && slots.end <= slots.rows.shape()[0],
          "scatter_slots: slots [{}, {}) are out of range ({} slots)",
          slots.begin,
          slots.end,
          slots.rows.shape()[0]);
}

}  // namespace longspan
