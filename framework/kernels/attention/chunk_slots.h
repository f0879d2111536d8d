// A sequence in the order of its buckets, cut into chunks that see themselves and their neighbours:
// which positions stand in which slots, and the rows of each head carried there and back. One batch
// row at a time; each head has an order of its own.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// A sorted sequence of `time` positions is ceil(time / chunk) chunks; slots beyond it are empty.
// The queries are those of slots [begin, begin + count), whole chunks, of one round; the keys those
// slots with look_back chunks before and look_ahead after, going round: beyond the ends come the
// chunks of the other end of the same round, or, with `wrap_rounds`, of the neighbouring round,
// where the last round is the first's neighbour. order: [heads, rounds, time] i32, as
// hash_buckets.h makes it. query_position: [heads, count] and key_position: [heads, count +
// (look_back + look_ahead) chunk] i32, written; -1 in an empty slot. With bucket [heads, rounds,
// time] i32 the buckets of these are written too, -1 for empty slots and slots of other rounds:
// those are in no bucket of this round. What is hidden [time] (u8, 1) leaves its slots empty.
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

// chunk[i] = place[i] / length, and a negative place stays as it is. i32; chunk may be place.
void chunk_of_places(Cpu, const Tensor& place, std::int64_t length, const Tensor& chunk);
void chunk_of_places(Cuda, const Tensor& place, std::int64_t length, const Tensor& chunk);

// rows[s, h, :] = whole[position[h, s], h, :], zeros where the position is negative. whole: [time,
// heads, dim]; rows: [slots, heads, dim], of the same dtype; position: [heads, slots] i32.
void gather_slots(Cpu, const Tensor& whole, const Tensor& position, const Tensor& rows);
void gather_slots(Cuda, const Tensor& whole, const Tensor& position, const Tensor& rows);

// values[h, s] = whole[h, position[h, s]], 0 where the position is negative. f32 or f64.
void gather_slot_values(Cpu, const Tensor& whole, const Tensor& position, const Tensor& values);
void gather_slot_values(Cuda, const Tensor& whole, const Tensor& position, const Tensor& values);

// whole[position[h, s], h, :] += rows[s, h, :] for the slots [begin, end). In these no position of
// a head comes twice, so the sums do not depend on the threads. whole may be of any floating dtype.
struct SlotScatter {
  Tensor rows;
  Tensor position;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Tensor whole;
};
void scatter_slots(Cpu, const SlotScatter&);
void scatter_slots(Cuda, const SlotScatter&);

// Throw Failure where the tensors of a kernel do not fit each other.
void check(const ChunkSlots&);
void check_chunk_of_places(const Tensor& place, std::int64_t length, const Tensor& chunk);
void check_gather_slots(const Tensor& whole, const Tensor& position, const Tensor& rows);
void check_gather_slot_values(const Tensor& whole, const Tensor& position, const Tensor& values);
void check(const SlotScatter&);

}  // namespace longspan
