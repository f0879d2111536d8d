#include "framework/training_loop/checkpoint_values.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "framework/data/tokenization/tokenizer.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/resume.h"
#include "framework/training_loop/skipped_data.h"
#include "tests/support/temporary_directory.h"

namespace longspan::checkpoint_values_test {
namespace {

namespace fs = std::filesystem;

class CheckpointValues : public ::testing::Test {
 protected:
  CheckpointValues() {
    Scalars& scalars = state_.scalars;
    for (const char* counter : {"trainer/steps", "optimizer/num_updates"}) scalars.set(counter, 7);
    for (const char* counter : {"trainer/num_skipped", "trainer/consecutive_skips"})
      scalars.set(counter, 0);
    scalars.set("trainer/tokens", 700);
    scalars.set(tokenizer_scalar, Tokenizer().to_json());
    scalars.set(corpus_scalar, std::numeric_limits<std::uint64_t>::max());
    scalars.set(threads_scalar, 2);
    add(cursor_name, {4, 2}, DType::i64);
    add("mems/0", {4, 3, 8}, DType::f32);
    add("recurrent_state/layers/0/attention/state", {4, 2, 3, 3}, DType::f32);
    info_ = {.run_id = "run", .step = 7, .layout = {}, .configuration = "model: {}\n"};
  }

  void add(const std::string& name, const Shape& shape, DType dtype) {
    state_.add(name, Tensor::zeros(shape, dtype, Device::cpu()), true);
  }
  Checkpoint saved() const {
    return Checkpoint::open(save_checkpoint(directory_, info_, state_, {}));
  }
  // The only problem after a change, without the path, or the number of problems.
  std::string problem_after(const std::function<void(CheckpointInfo&, TrainingState&)>& change) {
    const CheckpointInfo info = info_;
    const TrainingState state = state_;
    change(info_, state_);
    const Checkpoint checkpoint = saved();
    info_ = info, state_ = state;
    const std::vector<std::string> problems = value_problems(checkpoint);
    if (problems.size() != 1) return fmt::format("{} problems", problems.size());
    EXPECT_EQ(verify_checkpoint(checkpoint.path(), {}, value_problems).size(), 1u);
    EXPECT_TRUE(verify_checkpoint(checkpoint.path()).empty());
    EXPECT_THROW(open_run_checkpoint(checkpoint.path()), DataError);
    const std::string prefix = (checkpoint.path() / "manifest.json").string() + ": ";
    EXPECT_TRUE(problems[0].starts_with(prefix)) << problems[0];
    return problems[0].substr(prefix.size());
  }
  template <typename T>
  std::string with(const std::string& name, T value) {
    return problem_after(
        [&](CheckpointInfo&, TrainingState& state) { state.scalars.set(name, value); });
  }

  const testing::TemporaryDirectory temporary_;
  const fs::path& directory_ = temporary_.path();
  CheckpointInfo info_;
  TrainingState state_;
};

TEST_F(CheckpointValues, AcceptsValuesThatARunSaves) {
  EXPECT_TRUE(value_problems(saved()).empty());
  state_.scalars.set("trainer/num_skipped", 3);
  state_.scalars.set("trainer/consecutive_skips", 2);
  state_.scalars.set("optimizer/num_updates", 4);
  state_.scalars.set("loss_scale/scale", 65536.0);
  state_.scalars.set("loss_scale/growth_tracker", 1);
  state_.scalars.set("loss_scale/hysteresis_left", 2);
  state_.scalars.set(zero_scalar, 2);
  state_.scalars.set(device_scalar, "cuda with NCCL");
  state_.scalars.set(skipped_data_scalar, R"({"times": 1, "before": {"12": 4}})");
  state_.scalars.set("metrics/loss", std::numeric_limits<double>::quiet_NaN());
  state_.scalars.set("of a later version", "anything");
  EXPECT_TRUE(value_problems(saved()).empty());
}

TEST_F(CheckpointValues, DoesNotRequireScalarsInThirdPartyWeights) {
  state_.scalars.values().clear();
  info_.configuration = "";
  EXPECT_TRUE(value_problems(saved()).empty());
  state_.scalars.set(tokenizer_scalar, "");
  EXPECT_EQ(value_problems(saved()).size(), 1u);
}

TEST_F(CheckpointValues, RejectsCountersOutsideTheirRange) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const char* name : {"trainer/steps",
                           "trainer/num_skipped",
                           "trainer/consecutive_skips",
                           "optimizer/num_updates",
                           "trainer/tokens",
                           threads_scalar}) {
    for (const std::int64_t value : {std::int64_t{-1}, -largest - 1, largest}) {
      const std::string problem = with(name, value);
      EXPECT_NE(problem.find(fmt::format("scalar \"{}\": expected an integer from ", name)),
                std::string::npos)
          << problem;
      EXPECT_NE(problem.find(fmt::format(", found {}", value)), std::string::npos) << problem;
    }
    EXPECT_NE(with(name, 7.0).find("an integer from "), std::string::npos) << name;
    EXPECT_NE(with(name, "7").find(": expected an integer from "), std::string::npos) << name;
    EXPECT_NE(problem_after([&](CheckpointInfo&, TrainingState& state) {
                state.scalars.values().erase(name);
              }).find(fmt::format("scalar \"{}\" is missing (expected an integer from ", name)),
              std::string::npos);
  }
}

TEST_F(CheckpointValues, RejectsInconsistentCounters) {
  EXPECT_EQ(
      with("optimizer/num_updates", 6),
      "trainer/steps: expected the sum of optimizer/num_updates = 6 and trainer/num_skipped = 0, "
      "found 7");
  EXPECT_EQ(with("trainer/consecutive_skips", 1),
            "trainer/consecutive_skips: expected at most trainer/num_skipped = 0, found 1");
  EXPECT_EQ(problem_after([](CheckpointInfo& info, TrainingState&) { info.step = 9; }),
            "trainer/steps: expected the step of the checkpoint, 9, found 7");
}

TEST_F(CheckpointValues, RejectsInvalidLossScales) {
  for (const double value :
       {0.0, 0.5, -2.0, 3.0, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_NE(problem_after([&](CheckpointInfo&, TrainingState& state) {
                state.scalars.set("loss_scale/scale", value);
                state.scalars.set("loss_scale/growth_tracker", 1);
                state.scalars.set("loss_scale/hysteresis_left", 2);
              }).find("expected a power of two of at least 1"),
              std::string::npos)
        << value;
  EXPECT_EQ(with("loss_scale/scale", 2.0), "2 problems");  // its other two scalars are missing
}

TEST_F(CheckpointValues, RejectsInvalidTextsAndTensors) {
  EXPECT_NE(with(tokenizer_scalar, "").find("not a Longspan tokenizer"), std::string::npos);
  std::string deep(1'000'000, '[');
  EXPECT_NE(with(tokenizer_scalar, deep.c_str()).find("more than 32 deep"), std::string::npos);
  EXPECT_EQ(problem_after([](CheckpointInfo& info, TrainingState&) { info.configuration = ""; }),
            "configuration: expected 1 to 1048576 bytes, found 0");
  EXPECT_EQ(problem_after([](CheckpointInfo& info, TrainingState&) {
              info.configuration.assign(2'000'000, ' ');
            }),
            "configuration: expected 1 to 1048576 bytes, found 2000000");
  EXPECT_NE(with(skipped_data_scalar, "{}").find("run/skipped_batches\": expected content like"),
            std::string::npos);
  EXPECT_NE(with(skipped_data_scalar, 7).find("expected text, found 7"), std::string::npos);
  const auto tensor_after = [&](std::size_t index, const Shape& shape, DType dtype) {
    return problem_after([&](CheckpointInfo&, TrainingState& state) {
      const std::string name = state.tensors[index].name;
      state.tensors.erase(state.tensors.begin() + static_cast<std::ptrdiff_t>(index));
      state.add(name, Tensor::zeros(shape, dtype, Device::cpu()), true);
    });
  };
  EXPECT_EQ(tensor_after(0, {}, DType::i64),
            "tensor \"data/cursor\": expected i64 [streams, 2 or more], found i64 []");
  EXPECT_EQ(tensor_after(0, {4, 2}, DType::f32),
            "tensor \"data/cursor\": expected i64 [streams, 2 or more], found f32 [4, 2]");
  EXPECT_EQ(tensor_after(1, {4}, DType::f32),
            "tensor \"mems/0\": expected [4 streams, rows, width], found [4]");
  EXPECT_EQ(tensor_after(1, {5, 3, 8}, DType::f32),
            "tensor \"mems/0\": expected [4 streams, rows, width], found [5, 3, 8]");
  const std::string state = "tensor \"recurrent_state/layers/0/attention/state\": ";
  EXPECT_EQ(tensor_after(2, {}, DType::f32), state + "expected [4 streams, ...], found []");
  EXPECT_EQ(tensor_after(2, {3, 2, 3, 3}, DType::f32),
            state + "expected [4 streams, ...], found [3, 2, 3, 3]");
}

TEST_F(CheckpointValues, SearchFallsBackToStepWithValidValues) {
  save_checkpoint(directory_, info_, state_, {});
  info_.step = 9;
  save_checkpoint(directory_, info_, state_, {});
  EXPECT_EQ(latest_valid_checkpoint(directory_).found->step, 9);
  const CheckpointSearch search = latest_valid_checkpoint(directory_, {}, value_problems);
  EXPECT_EQ(search.found->step, 7);
  EXPECT_EQ(search.skipped.size(), 1u);
}

}  // namespace
}  // namespace longspan::checkpoint_values_test
