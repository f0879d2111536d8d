// Saves that cannot succeed: they report an error and leave earlier steps unchanged.
#include <sys/resource.h>

#include <csignal>
#include <functional>

#include "checkpoints/background_save.h"
#include "tests/checkpoints/checkpoint_testing.h"
#include "tests/support/small_file_system.h"

namespace longspan::testing::save_failure_test {
namespace {

// Limits the size of files during the lifetime of the object: a full disk without a mount.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TrainingState state_of(std::int64_t rows, std::uint64_t seed) {
  TrainingState state;
  state.add("layers/0/weight", random_bits({rows, 256}, DType::f32, Random(seed)), true);
  state.add("layers/1/weight", random_bits({rows, 256}, DType::f32, Random(seed + 1)), true);
  return state;
}

void expect_last_good(const std::filesystem::path& directory,
                      std::int64_t step,
                      const TrainingState& expected) {
  const CheckpointSearch search = latest_valid_checkpoint(directory);
  ASSERT_TRUE(search.found);
  EXPECT_EQ(search.found->step, step);
  EXPECT_TRUE(search.skipped.empty());
  TrainingState read = blank(expected);
  Checkpoint::open(search.found->path).read(read);
  expect_equal(read, expected);
  EXPECT_EQ(steps_in(directory), std::vector<std::int64_t>{step});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory),
                          std::filesystem::directory_iterator()),
            1);
}

TEST(FullDisk, ReportsErrorAndKeepsLastGoodStep) {
  const TemporaryDirectory directory;
  const SmallFileSystem disk(directory.path(), 1 << 20);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system is not permitted here";
  const TrainingState good = state_of(64, 1);
  ::testing::internal::CaptureStderr();
  save_checkpoint(directory.path(), info_of(1), good, {});
  const auto try_to_save = [&](std::int64_t rows) {
    return message_of<Failure>(
        [&] { save_checkpoint(directory.path(), info_of(2), state_of(rows, 3), {}); });
  };
  // Large sizes fail in the rank file, smaller ones only in the view or the manifest.
  std::vector<std::int64_t> sizes = {4000, 600, 500};
  for (std::int64_t rows = 444; rows > 420; --rows) sizes.push_back(rows);
  int failed = 0;
  for (const auto rows : sizes) {
    const std::string text = try_to_save(rows);
    if (text.empty()) break;
    ++failed;
    EXPECT_TRUE(text.starts_with((directory.path() / "step-000000002").string() +
                                 ": the checkpoint was not saved: rank 0: "))
        << text;
    EXPECT_NE(text.find("No space left on device"), std::string::npos) << rows << ": " << text;
    expect_last_good(directory.path(), 1, good);
  }
  EXPECT_GT(failed, 3);
  EXPECT_LT(failed, static_cast<int>(sizes.size()));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  // Saves succeed after space is freed.
  std::filesystem::remove_all(directory.path() / step_name(2));
  EXPECT_EQ(try_to_save(10), "");
  EXPECT_EQ(latest_valid_checkpoint(directory.path()).found->step, 2);
}

TEST(FullDisk, FileSizeLimitKeepsLastGoodStep) {
  const TemporaryDirectory directory;
  const TrainingState good = state_of(64, 1);
  save_checkpoint(directory.path(), info_of(1), good, {});
  for (const rlim_t bytes : {0, 100, 4096, 100'000, 500'000}) {
    std::string text;
    {
      const FileSizeLimit limit(bytes);
      text = message_of<Failure>(
          [&] { save_checkpoint(directory.path(), info_of(2), state_of(256, 3), {}); });
    }
    EXPECT_NE(text.find("File too large"), std::string::npos) << bytes << ": " << text;
    expect_last_good(directory.path(), 1, good);
  }
}

TEST(FullDisk, BackgroundCommitReportsError) {
  const TemporaryDirectory directory;
  const TrainingState good = state_of(64, 1);
  save_checkpoint(directory.path(), info_of(1), good, {});
  {
    const FileSizeLimit limit(100'000);
    BackgroundSave save(directory.path(), info_of(2), state_of(256, 3), {});
    const std::string text = message_of<Failure>([&] { save.commit(); });
    EXPECT_TRUE(save.written());
    EXPECT_NE(text.find("File too large"), std::string::npos) << text;
  }
  expect_last_good(directory.path(), 1, good);
}

TEST(SaveCheckpoint, ReportsDirectoryThatCannotBeCreated) {
  const TemporaryDirectory directory;
  write_bytes(directory.path() / "file", "");
  const std::string text = message_of<Failure>(
      [&] { save_checkpoint(directory.path() / "file", info_of(1), small_state(), {}); });
  EXPECT_NE(text.find("file/step-000000001: the checkpoint was not saved: rank 0: "),
            std::string::npos)
      << text;
}

// Returns the error message of a save of an invalid state, after "rank 0: ".
std::string refusal(const TrainingState& state, const CheckpointInfo& info = info_of(1)) {
  const TemporaryDirectory directory;
  const std::string text =
      message_of<Failure>([&] { save_checkpoint(directory.path(), info, state, {}); });
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  const auto at = text.find("rank 0: ");
  return at == std::string::npos ? text : text.substr(at + 8);
}

TEST(SaveCheckpoint, RejectsInvalidStates) {
  const Tensor tensor = Tensor::zeros({2, 3}, DType::f32, Device::cpu());
  const auto with = [&](const std::function<void(TrainingState&)>& add) {
    TrainingState state;
    add(state);
    return refusal(state);
  };
  EXPECT_EQ(with([&](auto& state) { state.add_part("a", tensor, 0, 1, 4, true); }),
            "tensor \"a\": no piece covers 6 of its 12 elements");
  EXPECT_EQ(with([&](auto& state) {
              state.add_part("a", tensor, 0, 0, 3, true);
              state.add_part("a", tensor, 0, 1, 3, true);
            }),
            "tensor \"a\": pieces [2, 3] at [0, 0] and [2, 3] at [1, 0] overlap");
  EXPECT_EQ(with([&](auto& state) { state.add_part("a", tensor, 1, 1, 3, true); }),
            "tensor \"a\": piece [2, 3] at [0, 1] is not within [2, 3]");
  EXPECT_EQ(with([&](auto& state) { state.add("a", tensor, false); }),
            "tensor \"a\": no rank owns a piece");
  EXPECT_EQ(with([&](auto& state) {
              state.add("a", tensor, true);
              state.add("a/b", tensor, true);
            }),
            "tensor \"a\" has the name of the group of tensor \"a/b\"");
  EXPECT_EQ(with([&](auto& state) { state.add("a/../b", tensor, true); }),
            "tensor \"a/../b\": invalid name component \"..\"");
  EXPECT_EQ(with([&](auto& state) { state.add("", tensor, true); }),
            "tensor \"\": expected a name of 1 to 512 characters");
  EXPECT_EQ(with([&](auto& state) {
              state.tensors.push_back({"a", {}, {}, {}, true});
            }),
            "tensor \"a\" of the training state is undefined");
  EXPECT_NE(with([&](auto& state) { state.scalars.set("a", "\xff"); }).find("JSON"),
            std::string::npos);
  EXPECT_EQ(refusal({}, info_of(-1)), "expected a step from 0 to 999999999, found -1");
  EXPECT_EQ(refusal({}, info_of(1, 2)), "expected 2 ranks for the layout, found 1");
}

TEST(SaveCheckpoint, RejectsRanksThatDisagree) {
  const TemporaryDirectory directory;
  const Tensor tensor = Tensor::zeros({2, 3}, DType::f32, Device::cpu());
  std::vector<TrainingState> ranks(2);
  ranks[0].add_part("a", tensor, 0, 0, 4, true);
  ranks[1].add_part("a", tensor, 0, 2, 5, true);
  EXPECT_EQ(message_of<Failure>([&] { save_as_ranks(directory.path(), 1, ranks); }),
            "tensor \"a\": dtype or global shape differs between ranks");
  Scalars first, second;
  first.set("rate", 0.5);
  second.set("rate", 0.25);
  EXPECT_EQ(message_of<Failure>([&] { check_same_scalars(second, first); }),
            "scalar \"rate\" differs from rank 0");
  EXPECT_NO_THROW(check_same_scalars(first, first));
  EXPECT_THROW(check_same_scalars({}, first), Failure);
}

}  // namespace
}  // namespace longspan::testing::save_failure_test
