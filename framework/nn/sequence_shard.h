// Sharding of the positions of a segment over ranks.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "framework/autograd/collectives.h"
#include "framework/autograd/ring_attention.h"
#include "framework/core/range.h"
#include "framework/core/tensor.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// Layout of a segment or of a Transformer-XL memory. Value type. With sequence parallelism each
// tensor rank holds one shard of the positions outside split regions. Otherwise it holds all of
// them. Inside, it holds the positions of all shards in order. Default-constructed: not sharded,
// with the rows at hand.
struct SequenceShard {
  std::int64_t total = 0;       // positions over all ranks; 0: unspecified
  std::vector<Ranges> shares;   // one per tensor rank with sequence parallelism, otherwise one
  std::size_t local_index = 0;  // index of this rank's share
  bool repeated = false;        // context ranks all hold the full sequence

  bool divided() const { return shares.size() > 1; }
  // Positions of the rows this rank holds.
  const Ranges& outside() const { return shares[local_index]; }
  Ranges inside() const;
  // Number of rows of each share.
  std::vector<std::int64_t> rows() const;
};

// Returns the layout of a segment of `total` positions. With n context ranks, rank r has chunks r
// and 2n - 1 - r of 2n. This balances the work of causal attention. With sequence parallelism the
// tensor ranks of each split its positions as evenly as possible.
SequenceShard shard_sequence(const ProcessMesh& mesh, std::int64_t total);

// A sequence that a model reads in chunks, one after another. Value type.
struct ChunkedSequence {
  std::int64_t memory = 0;  // positions of the Transformer-XL memory before it
  std::int64_t total = 0;   // positions of the sequence
  std::int64_t chunk_length = 0;

  std::int64_t count() const { return (total + chunk_length - 1) / chunk_length; }
  Range chunk(std::int64_t i) const {
    return {i * chunk_length, std::min(total, (i + 1) * chunk_length)};
  }
};

// Returns the layout of a chunk, which the ranks share as they share a segment.
SequenceShard shard_chunk(const ProcessMesh& mesh,
                          const ChunkedSequence& sequence,
                          std::int64_t chunk);

// Numbers of key rows that this rank stores between chunks.
struct ChunkRows {
  std::int64_t before = 0;  // rows of earlier positions that the chunk attends to
  // Rows that the next chunk attends to, the last ones of `before` and the chunk. None: all.
  std::optional<std::int64_t> retained = {};
  std::int64_t all = 0;  // without `retained`: rows of the whole sequence
};
// Keys of a chunk. Positions count from the start of the memory.
struct ChunkKeys {
  ChunkRows rows;
  SequenceShards shards;       // of the chunk's queries and of the keys they attend to, by rank
  std::int64_t key_begin = 0;  // position of the first of these keys, over all ranks
};
// Returns the keys of a chunk whose queries attend to keys at most `window` positions before them
// (none: to all earlier ones). The first chunk also attends to the whole memory.
ChunkKeys chunk_keys(const ProcessMesh& mesh,
                     const ChunkedSequence& sequence,
                     std::int64_t chunk,
                     const std::optional<std::int64_t>& window);

// Returns the layout of a segment that every rank reads in full, for decoding passes with too few
// positions to shard.
SequenceShard replicate_sequence(std::int64_t total);

// Returns the layout of a memory of `total` rows, split as evenly as possible over all ranks that
// share time, in order.
SequenceShard shard_memory(const ProcessMesh& mesh, std::int64_t total);

// Returns the positions that the context ranks have inside split regions, for a memory followed by
// a segment.
SequenceShards sequence_shards(const ProcessMesh& mesh, std::int64_t memory, std::int64_t time);

// As above, for a segment of `time` positions that attends to another one of `keys` positions. Each
// is sharded separately.
SequenceShards cross_attention_shards(const ProcessMesh& mesh,
                                      std::int64_t time,
                                      std::int64_t keys);
// As above, for a chunk of a sequence.
SequenceShards cross_attention_shards(const ProcessMesh& mesh,
                                      const ChunkedSequence& sequence,
                                      std::int64_t chunk,
                                      std::int64_t keys);

// Returns the last `longest` rows of [before; input], sharded as a memory of that size. `before`
// [streams, rows, width] (may be undefined): this rank's shard of a memory of `remembered` rows.
// `input`: its shard of a segment of `time` positions. Collective over the ranks that share time:
// each row is sent only to the rank that stores it.
Tensor update_memory(const Tensor& before,
                     std::int64_t remembered,
                     const Tensor& input,
                     std::int64_t time,
                     std::int64_t longest,
                     const ProcessMesh& mesh);

// Returns the positions of all ranks in time order, [batch, all rows, width]. x: [batch, own rows,
// width]. `positions`: the positions of each rank. Backward: sums the gradients of this rank's rows
// over the ranks. Collective over `ranks`.
Variable all_gather_sequence(const Variable& x,
                             const std::vector<Ranges>& positions,
                             const Communicator& ranks);

}  // namespace longspan
