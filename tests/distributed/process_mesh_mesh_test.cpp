// Groups: splits, mesh coordinates, and ledger errors of mismatched ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <source_location>

#include "tests/support/mesh_runner.h"

namespace longspan::process_mesh_mesh_test {
namespace {

// The ranks of a communicator, numbered as in its parent group.
std::vector<int> members(const Communicator& group, int own) {
  std::vector<int> ranks;
  for (const std::string& rank : group.all_gather(std::to_string(own)))
    ranks.push_back(std::stoi(rank));
  return ranks;
}

TEST(Communicator, SplitOrdersByKeyWithinColor) {
  testing::on_ranks(4, [&](const Communicator& group) {
    const Communicator half = group.split(group.rank() % 2, -group.rank(), "half");
    EXPECT_EQ(half.size(), 2);
    EXPECT_EQ(half.name(), "half");
    EXPECT_EQ(half.rank(), group.rank() < 2 ? 1 : 0);
    EXPECT_EQ(members(half, group.rank()),
              group.rank() % 2 == 0 ? std::vector({2, 0}) : std::vector({3, 1}));
    const Communicator alone = half.split(half.rank(), 0, "alone");
    EXPECT_EQ(alone.size(), 1);
    EXPECT_EQ(alone.all_reduce(3.0, Reduction::sum), 3.0);
  });
}

TEST(ProcessMesh, TimeGroupContainsSequenceRanks) {
  const auto expect = [](const MeshShape& shape, const std::vector<std::vector<int>>& groups) {
    testing::for_each_layout({shape}, [&](const ProcessMesh& mesh) {
      const std::vector<int> found = members(mesh.time, mesh.world.rank());
      EXPECT_EQ(static_cast<int>(found.size()), shape.sequence_ranks());
      EXPECT_NE(std::ranges::find(groups, found), groups.end());
      EXPECT_NE(std::ranges::find(found, mesh.world.rank()), found.end());
    });
  };
  expect({.tensor = 4}, {{0}, {1}, {2}, {3}});
  expect({.tensor = 4, .sequence = true}, {{0, 1, 2, 3}});
  expect({.data = 2, .tensor = 2, .sequence = true}, {{0, 1}, {2, 3}});
  expect({.data = 2, .context = 2}, {{0, 1}, {2, 3}});
  expect({.context = 2, .tensor = 2}, {{0, 2}, {1, 3}});
  expect({.context = 2, .tensor = 2, .sequence = true}, {{0, 1, 2, 3}});
}

TEST(ProcessMesh, RejectsSequenceParallelismOnOneTensorRank) {
  testing::on_ranks(2, [](const Communicator& group) {
    EXPECT_THROW(ProcessMesh(group, {.data = 2, .sequence = true}), ConfigurationError);
  });
}

TEST(ProcessMesh, GroupsRanksThatDifferInOneCoordinate) {
  const std::vector<MeshShape> layouts = {{.data = 4},
                                          {.context = 4},
                                          {.tensor = 4},
                                          {.data = 2, .tensor = 2},
                                          {.data = 2, .context = 2},
                                          {.context = 2, .tensor = 2},
                                          {.data = 3},
                                          {}};
  testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const MeshShape& shape = mesh.shape;
    const auto rank_at = [&](int data, int context, int tensor) {
      return (data * shape.context + context) * shape.tensor + tensor;
    };
    const int data = mesh.data_coordinate();
    const int context = mesh.context_coordinate();
    const int tensor = mesh.tensor_coordinate();
    const int rank = mesh.world.rank();
    EXPECT_EQ(rank, rank_at(data, context, tensor));
    std::vector<int> on_data, on_context, on_tensor, on_replicas;
    for (int i = 0; i < shape.data; ++i) on_data.push_back(rank_at(i, context, tensor));
    for (int i = 0; i < shape.context; ++i) on_context.push_back(rank_at(data, i, tensor));
    for (int i = 0; i < shape.tensor; ++i) on_tensor.push_back(rank_at(data, context, i));
    for (int i = 0; i < shape.data; ++i)
      for (int j = 0; j < shape.context; ++j) on_replicas.push_back(rank_at(i, j, tensor));
    EXPECT_EQ(members(mesh.data, rank), on_data);
    EXPECT_EQ(members(mesh.context, rank), on_context);
    EXPECT_EQ(members(mesh.tensor, rank), on_tensor);
    EXPECT_EQ(members(mesh.replicas, rank), on_replicas);
  });
}

TEST(ProcessMesh, RejectsRankCountMismatch) {
  testing::on_ranks(2, [&](const Communicator& group) {
    try {
      const ProcessMesh mesh(group, {.data = 2, .context = 1, .tensor = 3});
      ADD_FAILURE() << "no error";
    } catch (const ConfigurationError& error) {
      EXPECT_STREQ(error.what(),
                   "parallel.data_parallel_size 2 x parallel.context_parallel_size 1 x "
                   "parallel.tensor_parallel_size 3: expected 6 ranks, found 2");
    }
  });
}

// The message of the RankError that `call` throws; empty: none.
std::string rank_error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const RankError& error) {
    return error.what();
  }
  return "";
}

TEST(Ledger, ReportsFirstMismatchedCollective) {
  const Tensor tensor = Tensor::zeros({100}, DType::f32, Device::cpu());
  const auto first = std::source_location::current();
  const auto second = std::source_location::current();
  testing::on_ranks(3, [&](const Communicator& group) {
    for (int i = 0; i < 3; ++i) group.barrier();
    const std::string message = rank_error_of([&] {
      if (group.rank() == 1) {
        group.broadcast(tensor.slice(0, 10), 0, first);
      } else {
        group.all_reduce(tensor, Reduction::sum, second);
      }
      group.barrier();
    });
    const std::string file = "tests/distributed/process_mesh_mesh_test.cpp";
    EXPECT_EQ(message,
              fmt::format("collective 4 on \"test\": rank 1 called broadcast of 10 f32 from rank 0 "
                          "at {0}:{1}, ranks 0 and 2 called all_reduce of 100 f32 at {0}:{2}",
                          file,
                          first.line(),
                          second.line()));
    // The failed group reports the error again.
    EXPECT_EQ(rank_error_of([&] { group.barrier(); }), message);
  });
}

TEST(Ledger, DetectsDtypeReductionAndLengthMismatch) {
  const Tensor tensor = Tensor::zeros({100}, DType::f32, Device::cpu());
  const std::vector<std::function<void(const Communicator&)>> calls = {
      [&](auto& group) { group.all_reduce(tensor, Reduction::maximum); },
      [&](auto& group) { group.all_reduce(tensor.slice(0, 99), Reduction::sum); },
      [&](auto& group) {
        group.all_reduce(Tensor::zeros({100}, DType::f64, Device::cpu()), Reduction::sum);
      },
      [&](auto& group) { group.check_ledger(); }};
  for (std::size_t i = 0; i < calls.size(); ++i)
    testing::on_ranks(2, [&](const Communicator& group) {
      const std::string message = rank_error_of([&] {
        if (group.rank() == 1)
          calls[i](group);
        else
          group.all_reduce(tensor, Reduction::sum);
      });
      EXPECT_TRUE(message.starts_with("collective 1 on \"test\": rank 1 called ")) << message;
      EXPECT_NE(message.find("rank 0 called all_reduce of 100 f32 at"), message.npos) << message;
    });
}

TEST(Ledger, CheckPassesIfRanksAgree) {
  testing::on_ranks(4, [&](const Communicator& group) {
    for (int i = 0; i < 100; ++i) {
      group.barrier();
      EXPECT_EQ(rank_error_of([&] { group.check_ledger(); }), "");
    }
  });
}

TEST(Communicator, RejectsMismatchedTensorsBeforeStart) {
  testing::on_ranks(2, [&](const Communicator& group) {
    const Tensor three = Tensor::zeros({3}, DType::f32, Device::cpu());
    const Tensor four = Tensor::zeros({4}, DType::f32, Device::cpu());
    EXPECT_THROW(group.all_gather(three, four), Failure);
    EXPECT_THROW(group.reduce_scatter(three, four), Failure);
    EXPECT_THROW(group.all_to_all(three, three.clone()), Failure);
    EXPECT_THROW(group.broadcast(three, 2), Failure);
    EXPECT_THROW(group.exchange(three, 1, four, 0), Failure);
    EXPECT_THROW(group.all_reduce(Tensor(), Reduction::sum), Failure);
    group.check_ledger();
  });
}

}  // namespace
}  // namespace longspan::process_mesh_mesh_test
