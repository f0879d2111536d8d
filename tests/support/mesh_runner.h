// The one way tests use several ranks. A *_mesh_test.cpp has ordinary TESTs, which all ranks of one
// job run together (`tests/support/mpirun 4 comm_mesh_test`); mesh_runner.cpp has its main().
//
//   TEST(Linear, SplitEqualsWhole) {
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

// Runs `body` on the first `ranks` ranks, which form the communicator it is given; the others wait
// at the end. Called by all ranks. The test is skipped where the job has fewer ranks. An exception
// or a failed assertion on one rank fails the test, and the next test goes on: ranks that wait in a
// collective of the group get a RankError at once, those that wait in a part of it after a minute.
void on_ranks(int ranks, const std::function<void(const Communicator&)>& body);

// Runs `body` once for each layout, on the mesh of that shape over the first ranks.
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
