#include "framework/nn/sequence_shard.h"

#include <algorithm>

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/core/error.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/parameters.h"

namespace longspan {

namespace {

// Coordinates of a rank in the group mesh.time.
struct TimeRank {
  int context;
  int tensor;  // 0 without sequence parallelism
};

int sharing_tensor_ranks(const MeshShape& shape) { return shape.sequence ? shape.tensor : 1; }

TimeRank time_rank(const MeshShape& shape, int rank) {
  return {rank / sharing_tensor_ranks(shape), rank % sharing_tensor_ranks(shape)};
}

TimeRank this_rank(const ProcessMesh& mesh) {
  return {mesh.context_coordinate(), mesh.shape.sequence ? mesh.tensor_coordinate() : 0};
}

Range range_of(const ShardRange& part) { return {part.begin, part.begin + part.count}; }

// Returns the positions of a context rank, over its tensor ranks. Has at least one range, which may
// be empty.
Ranges context_share(const MeshShape& shape, int context, std::int64_t total) {
  if (shape.context == 1) return {{0, total}};
  const int chunks = 2 * shape.context;
  const Range first = range_of(shard_range(total, context, chunks));
  const Range second = range_of(shard_range(total, chunks - 1 - context, chunks));
  if (first.end == second.begin) return {{first.begin, second.end}};
  return {first, second};
}

Range context_memory(const MeshShape& shape, int context, std::int64_t total) {
  return range_of(shard_range(total, context, shape.context));
}

Ranges segment_share(const MeshShape& shape, TimeRank rank, std::int64_t total) {
  const Ranges whole = context_share(shape, rank.context, total);
  const Range part =
      range_of(shard_range(total_count(whole), rank.tensor, sharing_tensor_ranks(shape)));
  return slice(whole, part.begin, part.end);
}

Ranges memory_share(const MeshShape& shape, TimeRank rank, std::int64_t total) {
  return {range_of(shard_range(
      total, rank.context * sharing_tensor_ranks(shape) + rank.tensor, shape.sequence_ranks()))};
}

template <typename Share>
SequenceShard divide(const ProcessMesh& mesh, std::int64_t total, const Share& share) {
  SequenceShard result;
  result.total = total;
  const TimeRank own = this_rank(mesh);
  result.local_index = static_cast<std::size_t>(own.tensor);
  for (int tensor = 0; tensor < sharing_tensor_ranks(mesh.shape); ++tensor)
    result.shares.push_back(share(mesh.shape, TimeRank{own.context, tensor}, total));
  return result;
}

// Rows to move from their current to their new owner, in the order of the current owner.
struct Move {
  std::int64_t from;
  std::int64_t to;
  std::int64_t count;
};

std::vector<Move> moves_between(const Ranges& held, const Ranges& wanted) {
  std::vector<Move> moves;
  std::int64_t owned_rows = 0;
  for (const Range& have : held) {
    std::int64_t requested_rows = 0;
    for (const Range& want : wanted) {
      const Range both = {std::max(have.begin, want.begin), std::min(have.end, want.end)};
      if (both.count() > 0)
        moves.push_back({owned_rows + both.begin - have.begin,
                         requested_rows + both.begin - want.begin,
                         both.count()});
      requested_rows += want.count();
    }
    owned_rows += have.count();
  }
  return moves;
}

std::int64_t rows_of(const std::vector<Move>& moves) {
  std::int64_t rows = 0;
  for (const Move& move : moves) rows += move.count;
  return rows;
}

// Rows of a memory and of the segment after it, in two tensors, with their destinations. Positions
// count from the start of the old memory.
class Remembering {
 public:
  Remembering(const Tensor& before,
              std::int64_t remembered,
              const Tensor& input,
              std::int64_t time,
              std::int64_t longest,
              const ProcessMesh& mesh)
      : before_(before),
        input_(input),
        remembered_(remembered),
        time_(time),
        length_(std::min(longest, remembered + time)),
        mesh_(mesh),
        result_(rows(total_count(wanted(own())), MemoryTag::recurrent_state)) {}

  Tensor run() const {
    for (const Move& move : moves_between(held(own()), wanted(own()))) read(move, result_, move.to);
    for (int distance = 1; distance < ranks(); ++distance) pass_on(distance);
    return result_;
  }

 private:
  int own() const { return mesh_.time.rank(); }
  int ranks() const { return mesh_.time.size(); }

  Tensor rows(std::int64_t count, MemoryTag tag) const {
    return Tensor::empty(input_.shape().with(1, count), input_.dtype(), input_.device(), tag);
  }

  Ranges held(int rank) const {
    Ranges result = memory_share(mesh_.shape, time_rank(mesh_.shape, rank), remembered_);
    for (const Range& range : segment_share(mesh_.shape, time_rank(mesh_.shape, rank), time_))
      result.push_back({remembered_ + range.begin, remembered_ + range.end});
    return result;
  }
  Ranges wanted(int rank) const {
    const std::int64_t first = remembered_ + time_ - length_;
    Ranges result = memory_share(mesh_.shape, time_rank(mesh_.shape, rank), length_);
    for (Range& range : result) range = {first + range.begin, first + range.end};
    return result;
  }

  // A move does not cross from memory to segment, because they are separate ranges.
  void read(const Move& move, const Tensor& to, std::int64_t at) const {
    const std::int64_t old_rows = before_.defined() ? before_.shape()[1] : 0;
    const bool is_old = move.from < old_rows;
    on(input_.device(), [&](auto backend) {
      copy_rows(backend,
                is_old ? before_ : input_,
                is_old ? move.from : move.from - old_rows,
                to,
                at,
                move.count,
                false);
    });
  }

  // Sends to the rank `distance` after this one the rows it needs from this rank.
  void pass_on(int distance) const {
    const int to = (own() + distance) % ranks();
    const int from = (own() + ranks() - distance) % ranks();
    std::int64_t most = 0;
    for (int rank = 0; rank < ranks(); ++rank)
      most =
          std::max(most, rows_of(moves_between(held(rank), wanted((rank + distance) % ranks()))));
    if (most == 0) return;
    const Tensor sent = rows(most, MemoryTag::workspace);
    const Tensor received = rows(most, MemoryTag::workspace);
    std::int64_t at = 0;
    for (const Move& move : moves_between(held(own()), wanted(to))) {
      read(move, sent, at);
      at += move.count;
    }
    mesh_.time.exchange(sent, to, received, from);
    at = 0;
    for (const Move& move : moves_between(held(from), wanted(own()))) {
      on(received.device(), [&](auto backend) {
        copy_rows(backend, received, at, result_, move.to, move.count, false);
      });
      at += move.count;
    }
  }

  const Tensor& before_;
  const Tensor& input_;
  std::int64_t remembered_;
  std::int64_t time_;
  std::int64_t length_;
  const ProcessMesh& mesh_;
  Tensor result_;
};

}  // namespace

Ranges SequenceShard::inside() const {
  Ranges result;
  for (const Ranges& share : shares)
    for (const Range& range : share) {
      if (!result.empty() && result.back().end == range.begin)
        result.back().end = range.end;
      else
        result.push_back(range);
    }
  return result;
}

std::vector<std::int64_t> SequenceShard::rows() const {
  std::vector<std::int64_t> result;
  for (const Ranges& share : shares) result.push_back(total_count(share));
  return result;
}

SequenceShard shard_sequence(const ProcessMesh& mesh, std::int64_t total) {
  return divide(mesh, total, segment_share);
}

SequenceShard shard_chunk(const ProcessMesh& mesh,
                          const ChunkedSequence& sequence,
                          std::int64_t chunk) {
  const Range positions = sequence.chunk(chunk);
  SequenceShard result = shard_sequence(mesh, positions.count());
  result.total = sequence.total;
  for (Ranges& share : result.shares)
    for (Range& range : share) range = {positions.begin + range.begin, positions.begin + range.end};
  return result;
}

namespace {

// Returns the positions of a context rank in a chunk, counted from the start of the memory. The
// first chunk includes the memory.
Ranges chunk_share(const MeshShape& mesh,
                   const ChunkedSequence& sequence,
                   std::int64_t chunk,
                   int context) {
  const Range positions = sequence.chunk(chunk);
  const std::int64_t first = sequence.memory + positions.begin;
  Ranges result;
  if (chunk == 0 && sequence.memory > 0)
    result.push_back(context_memory(mesh, context, sequence.memory));
  for (const Range& range : context_share(mesh, context, positions.count()))
    result.push_back({first + range.begin, first + range.end});
  return result;
}

// Adds ranges from `begin` on, joining adjacent ones.
void add_ranges(Ranges& to, const Ranges& more, std::int64_t begin) {
  for (const Range& range : more) {
    const Range seen = {std::max(range.begin, begin), range.end};
    if (seen.count() <= 0) continue;
    if (!to.empty() && to.back().end == seen.begin)
      to.back().end = seen.end;
    else
      to.push_back(seen);
  }
}

// Returns the positions of the keys that a rank keeps for a chunk, before the chunk's own.
Ranges keys_before(const MeshShape& mesh,
                   const ChunkedSequence& sequence,
                   std::int64_t chunk,
                   const std::optional<std::int64_t>& window,
                   int context) {
  if (chunk == 0) return {};
  const std::int64_t first = sequence.memory + sequence.chunk(chunk).begin;
  const std::int64_t begin = window ? std::max<std::int64_t>(0, first - *window) : 0;
  if (mesh.context == 1) return begin < first ? Ranges{{begin, first}} : Ranges{};
  const std::int64_t oldest =
      std::max<std::int64_t>(0, begin - sequence.memory) / sequence.chunk_length;
  Ranges result;
  for (std::int64_t i = oldest; i < chunk; ++i)
    add_ranges(result, chunk_share(mesh, sequence, i, context), begin);
  return result;
}

}  // namespace

ChunkKeys chunk_keys(const ProcessMesh& mesh,
                     const ChunkedSequence& sequence,
                     std::int64_t chunk,
                     const std::optional<std::int64_t>& window) {
  const MeshShape& shape = mesh.shape;
  const int own = mesh.context_coordinate();
  const Range queries = sequence.chunk(chunk);
  ChunkKeys result;
  result.key_begin = chunk > 0 && window
                         ? std::max<std::int64_t>(0, sequence.memory + queries.begin - *window)
                         : 0;
  result.rows.before = total_count(keys_before(shape, sequence, chunk, window, own));
  if (window) {
    result.rows.retained = chunk + 1 < sequence.count()
                               ? total_count(keys_before(shape, sequence, chunk + 1, window, own))
                               : 0;
  } else {
    result.rows.all = total_count(keys_before(shape, sequence, sequence.count() - 1, {}, own)) +
                      total_count(chunk_share(shape, sequence, sequence.count() - 1, own));
  }
  SequenceShards& shards = result.shards;
  shards.ranks = mesh.context;
  shards.memory = sequence.memory;
  shards.queries_total = sequence.total;
  shards.keys_total = sequence.memory + sequence.total;
  shards.chunk = {sequence.memory + queries.begin, sequence.memory + queries.end};
  shards.chunk_keys = {result.key_begin, shards.chunk.end};
  for (int context = 0; context < shape.context; ++context) {
    Ranges of_queries;
    for (const Range& range : context_share(shape, context, queries.count()))
      of_queries.push_back({shards.chunk.begin + range.begin, shards.chunk.begin + range.end});
    Ranges keys = keys_before(shape, sequence, chunk, window, context);
    add_ranges(keys, chunk_share(shape, sequence, chunk, context), 0);
    // Each rank needs a range, which may be empty.
    if (keys.empty()) keys.push_back(of_queries.front());
    shards.queries.push_back(std::move(of_queries));
    shards.keys.push_back(std::move(keys));
  }
  return result;
}

SequenceShard replicate_sequence(std::int64_t total) {
  return {.total = total, .shares = {{{0, total}}}, .local_index = 0, .repeated = true};
}

SequenceShard shard_memory(const ProcessMesh& mesh, std::int64_t total) {
  return divide(mesh, total, memory_share);
}

SequenceShards sequence_shards(const ProcessMesh& mesh, std::int64_t memory, std::int64_t time) {
  SequenceShards result;
  result.ranks = mesh.context;
  result.memory = memory;
  result.queries_total = time;
  result.keys_total = memory + time;
  for (int context = 0; context < mesh.shape.context; ++context) {
    Ranges queries;
    for (const Range& range : context_share(mesh.shape, context, time))
      queries.push_back({memory + range.begin, memory + range.end});
    Ranges keys;
    if (memory > 0) keys.push_back(context_memory(mesh.shape, context, memory));
    keys.insert(keys.end(), queries.begin(), queries.end());
    result.queries.push_back(std::move(queries));
    result.keys.push_back(std::move(keys));
  }
  return result;
}

SequenceShards cross_attention_shards(const ProcessMesh& mesh,
                                      std::int64_t time,
                                      std::int64_t keys) {
  SequenceShards result;
  result.ranks = mesh.context;
  result.queries_total = time;
  result.keys_total = keys;
  for (int context = 0; context < mesh.shape.context; ++context) {
    result.queries.push_back(context_share(mesh.shape, context, time));
    result.keys.push_back(context_share(mesh.shape, context, keys));
  }
  return result;
}

SequenceShards cross_attention_shards(const ProcessMesh& mesh,
                                      const ChunkedSequence& sequence,
                                      std::int64_t chunk,
                                      std::int64_t keys) {
  const Range positions = sequence.chunk(chunk);
  SequenceShards result = cross_attention_shards(mesh, positions.count(), keys);
  for (Ranges& ranges : result.queries)
    for (Range& range : ranges)
      range = {positions.begin + range.begin, positions.begin + range.end};
  result.queries_total = sequence.total;
  result.chunk = positions;
  result.chunk_keys = {0, keys};
  return result;
}

Tensor update_memory(const Tensor& before,
                     std::int64_t remembered,
                     const Tensor& input,
                     std::int64_t time,
                     std::int64_t longest,
                     const ProcessMesh& mesh) {
  return Remembering(before, remembered, input, time, longest, mesh).run();
}

Variable all_gather_sequence(const Variable& x,
                             const std::vector<Ranges>& positions,
                             const Communicator& ranks) {
  if (ranks.size() == 1) return x;
  std::vector<std::int64_t> rows;
  std::int64_t total = 0;
  for (const Ranges& ranges : positions) total += rows.emplace_back(total_count(ranges));
  const Variable all = gather_from_sequence_parallel_region(x, rows, ranks);
  // Index of each position's row after the gather.
  std::vector<std::int64_t> place(static_cast<std::size_t>(total));
  for (std::int64_t row = 0; const Ranges& ranges : positions)
    for (const Range& range : ranges)
      for (std::int64_t i = range.begin; i < range.end; ++i)
        place[static_cast<std::size_t>(i)] = row++;
  const std::int64_t batch = x.shape()[0];
  std::vector<std::int64_t> ids;
  for (std::int64_t b = 0; b < batch; ++b)
    for (const std::int64_t row : place) ids.push_back(b * total + row);
  const Device& device = x.value().device();
  const Tensor order = copy_async(
      Tensor::from<std::int64_t>(ids, {batch, total}, device.host(), MemoryTag::workspace), device);
  return embedding(reshape(all, {batch * total, x.shape()[2]}), order, 0, 1);
}

}  // namespace longspan
