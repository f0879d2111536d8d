// Gathers a few positions of hidden states whose time is sharded. Every rank that shares the time
// receives all of them and computes the losses of its part of the rows. The backward pass sums
// their gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/distributed/process_mesh.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// Returns the positions that a pass reads of a sequence of `time`: a chunk of it, or all.
Range positions_read(const ForwardContext& pass, std::int64_t time);

// Returns the range of rows whose losses this rank computes.
Range rows_with_losses(const ProcessMesh& mesh, std::int64_t rows);

// Returns the losses of those rows, 0 for others, as LossTerm::values requires. Tensor rank 0 of
// each context rank has the sum over its tensor ranks. x: any shape.
Variable sequence_losses(Variable&& x, const ProcessMesh& mesh);

// Returns [rows, n, width] on all ranks of `group`: the positions places[r * n] .. places[r * n + n
// - 1] of row r, zeros where negative. x: [rows, held, width] of the positions `held`. Each
// position must be held once in `group`.
Variable gather_positions(const Variable& x,
                          const Ranges& held,
                          const std::vector<std::int64_t>& places,
                          std::int64_t n,
                          const Communicator& group);

// As gather_positions, for local columns of x [rows, columns, width].
Variable gather_columns(const Variable& x,
                        const std::vector<std::int64_t>& columns,
                        std::int64_t n);

// Returns a host i64 field, also on a dry device, which has only its shape.
Tensor host_field(const std::vector<std::int64_t>& values,
                  const Shape& shape,
                  const Device& device);

}  // namespace longspan
