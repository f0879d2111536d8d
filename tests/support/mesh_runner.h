// Runs tests on several ranks. A *_mesh_test.cpp has ordinary TESTs, which all ranks of one job run
// together (`tests/support/mpirun 4 distributed_mesh_test`). mesh_runner.cpp has its main().
//
//   TEST(Linear, ShardedMatchesFull) {
//     for_each_layout({{.tensor = 2}, {.data = 2, .tensor = 2}}, [&](const ProcessMesh& mesh) { ...
//     });
//   }
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <vector>

#include "framework/distributed/process_mesh.h"

namespace longspan::testing {

// All ranks of the job.
const Communicator& world();

// Collective over the job. Runs `body` on the first `ranks` ranks, which form its communicator.
// The other ranks wait at the end. Skips the test if the job has fewer ranks.
// An exception or a failed assertion on one rank fails the test. The other ranks then receive a
// RankError, those that wait in a subgroup after a minute. The next test runs.
void on_ranks(int ranks, const std::function<void(const Communicator&)>& body);

// Runs `body` once per layout, on a mesh of that shape over the first ranks.
void for_each_layout(const std::vector<MeshShape>& layouts,
                     const std::function<void(const ProcessMesh&)>& body);

// One process, data 2, tensor 2, data 2 x tensor 2, data 4, tensor 4.
std::vector<MeshShape> data_and_tensor_layouts();

// Context 2 and 4, context 2 x tensor 2, data 2 x context 2; sequence parallelism on tensor 2,
// tensor 4, data 2 x tensor 2 and context 2 x tensor 2.
std::vector<MeshShape> time_layouts();

// "data 2 x tensor 2", for messages.
std::string to_string(const MeshShape& shape);

}  // namespace longspan::testing
