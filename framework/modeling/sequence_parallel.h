// Tensors with a few positions, or none, made of hidden states whose time ranks share. Every rank
// that shares the time has all of them, and makes the losses of its part of the rows; the gradients
// that come of it are summed on the way back.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/distributed/process_mesh.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// Of so many rows of a batch those whose losses this rank makes.
Range rows_with_losses(const ProcessMesh& mesh, std::int64_t rows);

// The losses of those rows, 0 of the others, as Term::values wants them: tensor rank 0 of each
// context rank has the sum over its tensor ranks. x: any shape.
Variable sequence_losses(Variable&& x, const ProcessMesh& mesh);

// x [rows, held, width] of the positions `held`: of row r the positions places[r * n] ..
// places[r * n + n - 1], zeros where one is negative, as [rows, n, width] on all ranks of `group`,
// among which each position is held once.
Variable gather_positions(const Variable& x,
                          const Ranges& held,
                          const std::vector<std::int64_t>& places,
                          std::int64_t n,
                          const Communicator& group);

// The same of columns of x [rows, columns, width] that this rank has itself.
Variable gather_columns(const Variable& x,
                        const std::vector<std::int64_t>& columns,
                        std::int64_t n);

// Values of a field of i64 that the host can read, also where a plan has only its shape.
Tensor host_field(const std::vector<std::int64_t>& values,
                  const Shape& shape,
                  const Device& device);

}  // namespace longspan
