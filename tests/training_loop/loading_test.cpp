#include "framework/training_loop/loading.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "framework/optim/parameter_state.h"
#include "tests/support/small_models.h"

namespace longspan::loading_test {
namespace {

namespace fs = std::filesystem;
using testing::small_setting;
using testing::small_transformer_xl;

class CheckpointLoading : public ::testing::Test {
 protected:
  CheckpointLoading() {
    std::string name = (fs::temp_directory_path() / "longspan-loading-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~CheckpointLoading() override { fs::remove_all(directory_); }

  static std::unique_ptr<Model> model(std::uint64_t seed, DType compute = DType::f64) {
    ModelBuildOptions setting = small_setting();
    setting.random = Random(seed);
    setting.compute = compute;
    return make_transformer_xl(small_transformer_xl(2, 4), setting);
  }
  fs::path save(const Model& from, std::int64_t step, const Scalars& scalars = {}) const {
    TrainingState state = weights_state(from.parameters());
    state.scalars = scalars;
    CheckpointInfo info;
    info.run_id = "test";
    info.step = step;
    return save_checkpoint(directory_ / "checkpoints", info, state, {});
  }
  void write_configuration() const { std::ofstream(directory_ / "config.yaml") << "run:\n"; }

  fs::path directory_;
};

TEST_F(CheckpointLoading, RestoresWeightsBitForBit) {
  const auto saved = model(1);
  const auto loaded = model(2);
  load_weights(Checkpoint::open(save(*saved, 5)), loaded->parameters());
  for (const auto& parameter : saved->parameters().all()) {
    const auto restored = loaded->parameters().named(parameter->name).master.span<double>();
    const auto original = parameter->master.span<double>();
    EXPECT_TRUE(std::equal(original.begin(), original.end(), restored.begin())) << parameter->name;
  }
}

TEST_F(CheckpointLoading, ConvertsMasterWeightDtype) {
  const auto saved = model(1);
  const auto loaded = model(2, DType::bf16);
  load_weights(Checkpoint::open(save(*saved, 5)), loaded->parameters());
  for (const auto& parameter : saved->parameters().all()) {
    const Parameter& restored = loaded->parameters().named(parameter->name);
    const auto masters = restored.master.span<float>();
    const auto original = parameter->master.span<double>();
    for (std::size_t i = 0; i < original.size(); ++i)
      EXPECT_EQ(masters[i], static_cast<float>(original[i])) << parameter->name;
    // Some small weights stay in float32.
    if (restored.compute.dtype() != DType::bf16) continue;
    const auto rounded = restored.compute.span<BFloat16>();
    for (std::size_t i = 0; i < original.size(); ++i)
      EXPECT_EQ(rounded[i].bits, BFloat16(masters[i]).bits) << parameter->name;
  }
}

TEST_F(CheckpointLoading, RejectsWeightsFromADifferentModel) {
  const fs::path step = save(*model(1), 5);
  const auto deeper = make_transformer_xl(small_transformer_xl(3, 4), small_setting());
  EXPECT_THROW(load_weights(Checkpoint::open(step), deeper->parameters()), DataError);
}

TEST_F(CheckpointLoading, LocatesRunsCheckpointsAndConfigurations) {
  const fs::path step = save(*model(1), 5);
  EXPECT_NE(message_of<DataError>([&] { locate_run(step); }).find(": no config.yaml in "),
            std::string::npos);
  write_configuration();
  const fs::path configuration = directory_ / "config.yaml";
  const RunLocation file = locate_run(configuration);
  EXPECT_EQ(file.configuration, configuration);
  EXPECT_FALSE(file.run || file.checkpoint);
  const RunLocation run = locate_run(directory_);
  EXPECT_EQ(run.configuration, configuration);
  EXPECT_EQ(run.run, directory_);
  EXPECT_FALSE(run.checkpoint);
  for (const fs::path& path : {step, step / ""}) {
    const RunLocation checkpoint = locate_run(path);
    EXPECT_EQ(checkpoint.configuration, configuration);
    EXPECT_EQ(checkpoint.run, directory_);
    EXPECT_EQ(checkpoint.checkpoint, path);
  }
  const RunLocation folder = locate_run(directory_ / "checkpoints");
  EXPECT_EQ(folder.configuration, configuration);
  EXPECT_EQ(folder.run, directory_);
  EXPECT_FALSE(folder.checkpoint);
  fs::remove(step / "manifest.json");  // a damaged checkpoint is located all the same
  EXPECT_EQ(locate_run(step).checkpoint, step);
  EXPECT_THROW(locate_run(directory_ / ".."), DataError);
  EXPECT_EQ(message_of<DataError>([&] { locate_run("/nowhere/at/all"); }),
            "/nowhere/at/all: no such run or checkpoint");
  EXPECT_EQ(message_of<ConfigurationError>([&] { locate_run("/nowhere/run.yaml"); }),
            "/nowhere/run.yaml: no such file");
}

TEST_F(CheckpointLoading, OpensNamedStepOrNewestValidStep) {
  EXPECT_FALSE(open_checkpoint({}, directory_, {}));
  const fs::path older = save(*model(1), 5);
  const fs::path newer = save(*model(1), 9);
  EXPECT_EQ(open_checkpoint({}, directory_, {})->checkpoint.info().step, 9);
  EXPECT_EQ(open_checkpoint(older.string(), directory_, {})->checkpoint.info().step, 5);
  fs::resize_file(newer / "manifest.json", 10);
  const OpenedCheckpoint opened = *open_checkpoint({}, directory_, {});
  EXPECT_EQ(opened.checkpoint.info().step, 5);
  EXPECT_EQ(opened.skipped.size(), 1u);
  EXPECT_EQ(open_checkpoint("5", directory_, {})->checkpoint.info().step, 5);
  EXPECT_THROW(open_checkpoint("9", directory_, {}), DataError);
  EXPECT_THROW(open_checkpoint("7", directory_, {}), DataError);
}

TEST_F(CheckpointLoading, ReadsTokenizerFromCheckpoint) {
  const char32_t letters[] = {U'a', U'b', U'z'};
  const Tokenizer tokenizer = Tokenizer::characters(letters, true);
  Scalars scalars;
  scalars.set(tokenizer_scalar, tokenizer.to_json());
  EXPECT_EQ(tokenizer_of(Checkpoint::open(save(*model(1), 5, scalars)), {}), tokenizer);
  EXPECT_EQ(tokenizer_of(Checkpoint::open(save(*model(1), 6)), {}), Tokenizer());
}

}  // namespace
}  // namespace longspan::loading_test
