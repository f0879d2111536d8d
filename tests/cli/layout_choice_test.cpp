#include "launch/cli/layout_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longspan::layout_choice_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ConfigurationText configuration(std::vector<std::string> settings) {
  return {
      "run.yaml",
      "{run: {output_dir: runs/none}, "
      "model: {family: decoder, num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 4}, "
      "data: {train: none.txt, global_batch_size: 8, seq_length: 32}}",
      std::move(settings)};
}

ChosenLayout chosen(int places, std::vector<std::string> settings = {}) {
  return choose_layout(configuration(std::move(settings)), DeviceSlots{places});
}

TEST(ChooseLayout, UsesConfiguredLayout) {
  const ChosenLayout layout = chosen(3,
                                     {"parallel.data_parallel_size=2",
                                      "parallel.tensor_parallel_size=2",
                                      "parallel.context_parallel_size=4"});
  EXPECT_EQ(layout.ranks, 16);
  EXPECT_THAT(layout.settings, IsEmpty());
  EXPECT_THAT(layout.reason, HasSubstr("parallel.*"));
}

TEST(ChooseLayout, UsesOneRankPerSlot) {
  const ChosenLayout layout = chosen(4);
  EXPECT_EQ(layout.ranks, 4);
  EXPECT_THAT(layout.settings, Contains("parallel.data_parallel_size=4"));
  EXPECT_THAT(chosen(1).reason, HasSubstr("one NUMA node"));
}

TEST(ChooseLayout, UsesAllSlotsForOneSequence) {
  const ChosenLayout layout = chosen(2, {"data.global_batch_size=1"});
  EXPECT_EQ(layout.ranks, 2);
  EXPECT_THAT(layout.settings, Contains("parallel.data_parallel_size=1"));
}

TEST(ChooseLayout, LeavesSlotsUnusedWithoutValidLayout) {
  // Batch size, heads and sequence length are not divisible by seven.
  EXPECT_LT(chosen(7).ranks, 7);
  EXPECT_GT(chosen(7).ranks, 1);
  EXPECT_EQ(chosen(3, {"parallel.tensor_parallel_size=2"}).ranks, 2);
  EXPECT_EQ(chosen(6, {"parallel.tensor_parallel_size=2"}).ranks,
            4);  // batch 8 is divisible by 2 data ranks, not by 3
  EXPECT_EQ(chosen(1, {"parallel.tensor_parallel_size=4"}).ranks, 4);
}

TEST(ChooseLayoutOfFewer, KeepsTensorParallelSizeWhenPossible) {
  const auto layout = [](int most, std::vector<std::string> settings) {
    return choose_layout_of_fewer(configuration(std::move(settings)), most, most);
  };
  const std::vector<std::string> whole = {"parallel.data_parallel_size=4",
                                          "parallel.tensor_parallel_size=2"};
  EXPECT_EQ(layout(4, whole).ranks, 4);
  EXPECT_THAT(layout(4, whole).settings, Contains("parallel.data_parallel_size=2"));
  EXPECT_THAT(layout(4, whole).settings, Contains("parallel.tensor_parallel_size=2"));
  // Neither seven ranks nor six with tensor_parallel_size 2 have a layout.
  EXPECT_LT(layout(7, whole).ranks, 7);
  EXPECT_GE(layout(7, whole).ranks, 4);
  EXPECT_EQ(layout(1, whole).ranks, 1);
  EXPECT_THAT(layout(1, whole).settings, Contains("parallel.tensor_parallel_size=1"));
}

TEST(ChooseLayoutOfFewer, ReportsInsufficientMemory) {
  // The model exceeds the memory of any machine, even with ZeRO.
  const ConfigurationText large = configuration({"model.hidden_size=65536",
                                                 "model.num_hidden_layers=8",
                                                 "parallel.data_parallel_size=4",
                                                 "run.device=cpu"});
  const ChosenLayout layout = choose_layout_of_fewer(large, 2, 2);
  EXPECT_EQ(layout.ranks, 0);
  EXPECT_THAT(layout.reason, HasSubstr("a rank requires "));
  // The memory of other machines is unknown.
  EXPECT_EQ(choose_layout_of_fewer(large, 2, std::nullopt).ranks, 2);
}

TEST(ChooseLayout, RejectsInvalidConfiguration) {
  EXPECT_THROW(chosen(2, {"model.hidden_size=none"}), ConfigurationError);
}

}  // namespace
}  // namespace longspan::layout_choice_test
