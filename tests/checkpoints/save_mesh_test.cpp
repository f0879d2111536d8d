// Saves by several ranks.
#include "tests/checkpoints/checkpoint_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::testing::save_mesh_test {
namespace {

// One directory for all ranks, removed after the last of them has left its scope.
class SharedDirectory {
 public:
  explicit SharedDirectory(const Communicator& ranks) : ranks_(ranks) {
    if (ranks_.rank() == 0) owner_.emplace();
    path_ = ranks_.broadcast(owner_ ? owner_->path().string() : "", 0);
  }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  ~SharedDirectory() {
    // After a failure other ranks may never reach the barrier.
    if (std::uncaught_exceptions() == 0) ranks_.barrier();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  Communicator ranks_;
  std::optional<TemporaryDirectory> owner_;
  std::filesystem::path path_;
};

std::filesystem::path save(const std::filesystem::path& directory,
                           std::int64_t step,
                           const Communicator& ranks) {
  const auto mine = divided(small_state(), ranks.size())[static_cast<std::size_t>(ranks.rank())];
  return save_checkpoint(directory, info_of(step, ranks.size()), mine, ranks);
}

TEST(CheckpointMesh, ReadsAcrossDifferentRankCounts) {
  for (const int writers : {1, 2, 3, 4})
    on_ranks(4, [&](const Communicator& all) {
      const SharedDirectory directory(all);
      const Communicator part = all.split(all.rank() < writers ? 0 : 1, all.rank(), "writers");
      if (all.rank() < writers) save(directory.path(), 5, part);
      all.barrier();
      const CheckpointSearch search = latest_valid_checkpoint(directory.path(), all);
      ASSERT_TRUE(search.found);
      EXPECT_EQ(search.found->step, 5);
      const auto expected = divided(small_state(), 4)[static_cast<std::size_t>(all.rank())];
      TrainingState read = blank(expected);
      const Checkpoint checkpoint = Checkpoint::open(search.found->path);
      EXPECT_EQ(checkpoint.info().layout.data, writers);
      checkpoint.read(read);
      expect_equal(read, expected);
    });
}

TEST(CheckpointMesh, AllRanksThrowIfOneFails) {
  on_ranks(4, [](const Communicator& all) {
    const SharedDirectory directory(all);
    save(directory.path(), 1, all);
    CheckpointSave second(directory.path(), info_of(2, 4), all);
    // The file that rank 2 is about to create exists already.
    if (all.rank() == 2)
      for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
        if (entry.is_directory() && entry.path().filename() != step_name(1))
          write_bytes(entry.path() / rank_file_name(2), "");
    second.write(divided(small_state(), 4)[static_cast<std::size_t>(all.rank())]);
    const std::string text = message_of<Failure>([&] { second.commit(); });
    EXPECT_TRUE(text.starts_with((directory.path() / step_name(2)).string() +
                                 ": the checkpoint was not saved: rank 2: "))
        << text;
    EXPECT_EQ(all.all_gather(text), std::vector<std::string>(4, text));
    EXPECT_EQ(steps_in(directory.path()), std::vector<std::int64_t>{1});
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()),
                            std::filesystem::directory_iterator()),
              1);
    all.barrier();
    save(directory.path(), 2, all);
    EXPECT_EQ(latest_valid_checkpoint(directory.path(), all).found->step, 2);
  });
}

TEST(CheckpointMesh, ReportsUnownedTensorOnAllRanks) {
  on_ranks(2, [](const Communicator& all) {
    const SharedDirectory directory(all);
    TrainingState state = divided(small_state(), 2)[static_cast<std::size_t>(all.rank())];
    if (all.rank() == 1)
      state.add("forgotten", Tensor::zeros({2}, DType::f32, Device::cpu()), false);
    const std::string text =
        message_of<Failure>([&] { save_checkpoint(directory.path(), info_of(1, 2), state, all); });
    EXPECT_NE(text.find("rank 1: tensor \"forgotten\": no rank owns a piece"), std::string::npos)
        << text;
  });
}

TEST(CheckpointMesh, ReportsScalarsThatDifferBetweenRanks) {
  on_ranks(2, [](const Communicator& all) {
    const SharedDirectory directory(all);
    TrainingState state = divided(small_state(), 2)[static_cast<std::size_t>(all.rank())];
    state.scalars.set("clock", all.rank());
    const std::string text =
        message_of<Failure>([&] { save_checkpoint(directory.path(), info_of(1, 2), state, all); });
    EXPECT_NE(text.find("rank 1: scalar \"clock\" differs from rank 0"), std::string::npos) << text;
  });
}

TEST(CheckpointMesh, ReportsCorruptFilesOnAllRanks) {
  on_ranks(4, [](const Communicator& all) {
    const SharedDirectory directory(all);
    const auto good = save(directory.path(), 1, all);
    const auto path = save(directory.path(), 2, all);
    if (all.rank() == 0) {
      flip_bit(path / rank_file_name(1), 1000, 1);
      flip_bit(path / rank_file_name(3), 1000, 1);
    }
    all.barrier();
    const auto problems = verify_checkpoint(path, all);
    ASSERT_EQ(problems.size(), 2u);
    EXPECT_NE(problems[0].message.find(rank_file_name(1)), std::string::npos);
    EXPECT_NE(problems[1].message.find(rank_file_name(3)), std::string::npos);
    const CheckpointSearch search = latest_valid_checkpoint(directory.path(), all);
    ASSERT_TRUE(search.found);
    EXPECT_EQ(search.found->path, good);
    EXPECT_EQ(search.skipped.size(), 1u);
    // All ranks find a damaged manifest and report it once.
    if (all.rank() == 0) flip_bit(good / "manifest.json", 10, 1);
    all.barrier();
    EXPECT_EQ(verify_checkpoint(good, all).size(), 1u);
    EXPECT_FALSE(latest_valid_checkpoint(directory.path(), all).found);
  });
}

}  // namespace
}  // namespace longspan::testing::save_mesh_test
