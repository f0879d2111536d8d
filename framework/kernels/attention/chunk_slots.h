// Bucket-sorted sequences, cut into chunks that attend to themselves and to adjacent chunks. Maps
// positions to slots, and gathers and scatters the rows of each head. One batch row at a time; each
// head has its own order.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// A sorted sequence of `time` positions has ceil(time / chunk) chunks; slots beyond its end are
// empty. The queries are slots [begin, begin + count) of one round, in full chunks. The keys are
// those slots plus look_back chunks before and look_ahead after, with wraparound. Beyond the ends,
// chunks come from the other end of the same round. With `wrap_rounds`, they come from the adjacent
// round, and the last round precedes the first. order: [heads, rounds, time] i32, from
// hash_buckets.h. Overwrites query_position: [heads, count] and key_position: [heads, count +
// (look_back + look_ahead) chunk] i32, with -1 in empty slots. If bucket [heads, rounds, time] i32
// is defined, also overwrites query_bucket and key_bucket. Empty slots and slots of other rounds
// get -1, because they have no bucket in this round. Positions with hidden [time] (u8) equal to 1
// leave their slots empty.
struct ChunkSlots {
  Tensor order;
  std::int64_t chunk = 1;
  std::int64_t look_back = 1;
  std::int64_t look_ahead = 0;
  bool wrap_rounds = false;
  std::int64_t round = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  Tensor query_position = {};
  Tensor key_position = {};
  Tensor bucket = {};
  Tensor query_bucket = {};
  Tensor key_bucket = {};
  Tensor hidden = {};
};
void chunk_slots(Cpu, const ChunkSlots&);
void chunk_slots(Cuda, const ChunkSlots&);

// chunk[i] = place[i] / length; negative entries are copied. i32; chunk may alias place.
void chunk_of_places(Cpu, const Tensor& place, std::int64_t length, const Tensor& chunk);
void chunk_of_places(Cuda, const Tensor& place, std::int64_t length, const Tensor& chunk);

// rows[s, h, :] = whole[position[h, s], h, :], zeros where the position is negative. whole: [time,
// heads, dim]; rows: [slots, heads, dim], of the same dtype; position: [heads, slots] i32.
void gather_slots(Cpu, const Tensor& whole, const Tensor& position, const Tensor& rows);
void gather_slots(Cuda, const Tensor& whole, const Tensor& position, const Tensor& rows);

// values[h, s] = whole[h, position[h, s]], 0 where the position is negative. f32 or f64.
void gather_slot_values(Cpu, const Tensor& whole, const Tensor& position, const Tensor& values);
void gather_slot_values(Cuda, const Tensor& whole, const Tensor& position, const Tensor& values);

// whole[position[h, s], h, :] += rows[s, h, :] for the slots [begin, end). No position of a head
// may repeat in them, so the sums do not depend on the threads. whole may have any floating dtype.
struct SlotScatter {
  Tensor rows;
  Tensor position;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Tensor whole;
};
void scatter_slots(Cpu, const SlotScatter&);
void scatter_slots(Cuda, const SlotScatter&);

// Throws Failure if the shapes or dtypes of the tensors do not match.
void check(const ChunkSlots&);
void check_chunk_of_places(const Tensor& place, std::int64_t length, const Tensor& chunk);
void check_gather_slots(const Tensor& whole, const Tensor& position, const Tensor& rows);
void check_gather_slot_values(const Tensor& whole, const Tensor& position, const Tensor& values);
void check(const SlotScatter&);

}  // namespace longspan
