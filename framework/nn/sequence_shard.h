// How the positions of a segment are divided over the ranks that read it together.
#pragma once

#include "framework/autograd/ring_attention.h"
#include "framework/core/range.h"
#include "framework/core/tensor.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// A value, of a segment or of a memory. Outside of split regions each tensor rank holds a share of
// the positions where they are divided (sequence parallelism) and all of them otherwise; inside it
// holds those of all shares, one share after another. Default-constructed, nothing is divided and
// the rows at hand are all there are.
struct SequenceShard {
  std::int64_t total = 0;       // positions over all ranks; 0: not said
  std::vector<Ranges> shares;   // of each tensor rank where they are divided, otherwise one
  std::size_t local_index = 0;  // which share this rank holds
  bool repeated = false;        // context ranks hold the same positions: all of them

  bool divided() const { return shares.size() > 1; }
  // The positions of the rows this rank holds.
  const Ranges& outside() const { return shares[local_index]; }
  Ranges inside() const;
  // Rows of each share.
  std::vector<std::int64_t> rows() const;
};

// A segment of `total` positions. Of n context ranks, rank r has chunks r and 2n - 1 - r of 2n, so
// that causal attention is as much work for each; with sequence parallelism its tensor ranks have
// parts of them, as even as they go.
SequenceShard shard_sequence(const ProcessMesh& mesh, std::int64_t total);

// A segment of `total` positions that every rank reads whole, whatever the mesh: for passes that
// decode, whose few positions are not worth dividing.
SequenceShard replicate_sequence(std::int64_t total);

// A memory of `total` rows, as even as they go over all ranks that share time, in their order.
SequenceShard shard_memory(const ProcessMesh& mesh, std::int64_t total);

// What the context ranks have inside split regions of a memory and the segment after it.
SequenceShards sequence_shards(const ProcessMesh& mesh, std::int64_t memory, std::int64_t time);

// The same of a segment of `time` positions that looks at another one of `keys` positions: each is
// divided by itself.
SequenceShards cross_attention_shards(const ProcessMesh& mesh,
                                      std::int64_t time,
                                      std::int64_t keys);

// The last `longest` rows of [before; input], divided as a memory of that many rows is. `before`
// [streams, rows, width] (may be undefined) is this rank's share of a memory of `remembered` rows,
// `input` its share of a segment of `time` positions. Collective over the ranks that share time:
// each row is sent to the one rank that keeps it.
Tensor update_memory(const Tensor& before,
                     std::int64_t remembered,
                     const Tensor& input,
                     std::int64_t time,
                     std::int64_t longest,
                     const ProcessMesh& mesh);

}  // namespace longspan
