// Saves that run in the background of training.
#include "checkpoints/background_save.h"

#include <sys/resource.h>

#include "tests/checkpoints/checkpoint_testing.h"
#include "tests/support/process_bytes.h"
#include "tests/support/sanitizers.h"

namespace longspan::testing::background_save_test {
namespace {

// Limits the process to this many bytes beyond its current size, during the lifetime of the object.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(process_bytes("VmSize")) + bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

void expect_saved(const std::filesystem::path& path, const TrainingState& expected) {
  TrainingState read = blank(expected);
  Checkpoint::open(path).read(read);
  expect_equal(read, expected);
}

TEST(BackgroundSave, SavesSnapshotWhileTrainingContinues) {
  const TemporaryDirectory directory;
  const TrainingState state = small_state();
  BackgroundSave save(directory.path(), info_of(1), state, {});
  save.wait_for_copy();
  save.wait_for_copy();  // each training step calls it
  for (const StateTensor& piece : state.tensors) {
    EXPECT_TRUE(piece.tensor.is_unique()) << piece.name;
    piece.tensor.zero();
  }
  expect_saved(save.commit(), small_state());
  EXPECT_TRUE(save.written());
}

TEST(BackgroundSave, CommitsWithoutWaitForCopy) {
  const TemporaryDirectory directory;
  BackgroundSave save(directory.path(), info_of(1), small_state(), {});
  expect_saved(save.commit(), small_state());
}

TEST(BackgroundSave, WaitsForWriteIfCopyExceedsMemory) {
  if (sanitized) GTEST_SKIP() << "sanitizers take addresses of their own";
  const TemporaryDirectory directory;
  const std::int64_t bytes = std::int64_t{128} << 20;
  TrainingState state;
  state.add("weights", Tensor::zeros({bytes}, DType::u8, Device::cpu()), true);
  state.add("cursor", random_bits({4}, DType::i64, Random(1)), true);
  const Tensor cursor = state.tensors[1].tensor.clone();
  {
    const MemoryLimit limit(static_cast<rlim_t>(bytes / 2));
    BackgroundSave save(directory.path(), info_of(1), state, {});
    save.wait_for_copy();
    EXPECT_TRUE(save.written());
    std::memset(state.tensors[0].tensor.bytes(), 1, static_cast<std::size_t>(bytes));
    state.tensors[1].tensor.zero();
    save.commit();
  }
  state.tensors[0].tensor.zero();
  state.tensors[1].tensor.copy_from(cursor);
  expect_saved(directory.path() / step_name(1), state);
}

TEST(BackgroundSave, LeavesNothingWhenAbandoned) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), info_of(1), small_state(), {});
  { const BackgroundSave save(directory.path(), info_of(2), small_state(2), {}); }
  EXPECT_EQ(steps_in(directory.path()), std::vector<std::int64_t>{1});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST(BackgroundSave, CommitRejectsIncompleteState) {
  const TemporaryDirectory directory;
  TrainingState state;
  state.add("a", Tensor::zeros({2, 3}, DType::f32, Device::cpu()), false);
  BackgroundSave save(directory.path(), info_of(1), state, {});
  const std::string text = message_of<Failure>([&] { save.commit(); });
  EXPECT_NE(text.find("no rank owns a piece"), std::string::npos) << text;
}

}  // namespace
}  // namespace longspan::testing::background_save_test
