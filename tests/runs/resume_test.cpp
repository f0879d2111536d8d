#include "framework/runs/resume.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/temporary_directory.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

TEST(Resume, ARequestToStopEndsTheSearchForACheckpoint) {
  const testing::TemporaryDirectory temporary;
  const fs::path& path = temporary.path();
  {
    const RunDirectory directory(path.string(), {});
    TrainingState state;
    state.add("weight", Tensor::zeros({3}, DType::f32, Device::cpu()), true);
    save_checkpoint(directory.checkpoints(),
                    {.run_id = "run", .step = 4, .layout = {}, .configuration = "model: {}\n"},
                    state,
                    {});
    const Settings settings;
    TrainingRunText text;
    text.compare = [](const std::string&) { return ConfigurationChange{}; };
    const Communicator world;
    const Log log;
    const StopRequest stop;
    const ResumingRun run = {settings, text, directory, world, log, stop};
    EXPECT_EQ(checkpoint_to_resume(run), directory.checkpoints() / step_name(4));
    std::raise(SIGUSR1);
    try {
      checkpoint_to_resume(run);
      ADD_FAILURE() << "it was not stopped";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::stopped) << error.what();
    }
  }
}

}  // namespace
}  // namespace longspan
