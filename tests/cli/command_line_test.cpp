// Runs the program as a process and checks its output and exit code.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "checkpoints/checkpoint.h"

namespace longspan::command_line_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* program = LONGSPAN_BINARY_DIRECTORY "/launch/longspan";

struct Result {
  int code = -1;
  std::string output;  // standard output and error
};

Result shell(const std::string& command) {
  Result result;
  std::FILE* pipe = ::popen(("( " + command + " ) 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char block[4096];
  for (std::size_t count = 0; (count = std::fread(block, 1, sizeof block, pipe)) > 0;) {
    result.output.append(block, count);
  }
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

Result longspan(const std::string& words) { return shell(std::string(program) + " " + words); }

class CommandLine : public ::testing::Test {
 protected:
  CommandLine() {
    std::string name = (fs::temp_directory_path() / "longspan-command-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    good_ = write("good.yaml",
                  "run: {output_dir: runs/x}\nmodel: {family: decoder}\ndata: {train: book.txt}\n");
    bad_ =
        write("bad.yaml", "run: {output_dir: runs/x}\nmodel: {family: decoder}\ndata: {tain: b}\n");
  }
  ~CommandLine() override { fs::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = directory_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  fs::path directory_;
  std::string good_;
  std::string bad_;
};

TEST_F(CommandLine, PrintsHelpWithExamplesAndVersion) {
  for (const char* words : {"--help", "config --help", "inspect --help", "verify --help"}) {
    const Result result = longspan(words);
    EXPECT_EQ(result.code, 0) << words;
    EXPECT_NE(result.output.find("Examples:\n  longspan "), std::string::npos) << result.output;
  }
  const Result version = longspan("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.output.starts_with("longspan ")) << version.output;
  for (const char* const library : {"HDF5 ", "oneDNN ", "CUDA"})
    EXPECT_NE(version.output.find(library), std::string::npos) << library;
  EXPECT_EQ(version.output.find(" ,"), std::string::npos) << "missing version: " << version.output;
}

TEST_F(CommandLine, ListsOneLineForEachCommand) {
  const std::string list = longspan("--help").output;
  EXPECT_NE(list.find("Start a command on several ranks with mpirun\n  train "), std::string::npos)
      << list;
  EXPECT_NE(longspan("launch --help").output.find("\n--max-restarts N: "), std::string::npos);
}

TEST_F(CommandLine, ReportsUsageErrorsOnOneLineWithCodeTwo) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "longspan: missing command; see longspan --help\n"},
      {"confg x", "did you mean \"config\"?\n"},
      {"config", "longspan: longspan config: requires CONFIG or --reference\n"},
      {"config --nonsense", "see longspan config --help\n"},
      {"config a.yaml --set", "see longspan config --help\n"},
      {"verify", "longspan: PATH is required; see longspan verify --help\n"},
      {"--nonsense", "longspan: unknown option \"--nonsense\"; see longspan --help\n"},
      {"--helpp", "unknown option \"--helpp\" (did you mean \"--help\"?); see longspan --help\n"},
      {"train --helpp",
       "unknown option \"--helpp\" (did you mean \"--help\"?); see longspan train --help\n"},
      {"train a.yaml --sett training.max_steps=1",
       "unknown option \"--sett\" (did you mean \"--set\"?); see longspan train --help\n"},
      {"generate r --nucleus 0.9",
       "unknown option \"--nucleus\" (did you mean \"--top-p\"?); see longspan generate --help\n"},
      {"generate r --max-tokens 9",
       "(did you mean \"--max-new-tokens\"?); see longspan generate --help\n"},
      {"train a.yaml --lr 0.1",
       "(did you mean \"--set training.learning_rate=VALUE\"?); see longspan train --help\n"},
      {"train a.yaml --learning_rate=0.1",
       "(did you mean \"--set training.learning_rate=VALUE\"?); see longspan train --help\n"},
      {"predict r", "did you mean \"generate\"?\n"},
      {"config --reference --set run.seed=1", "--set with --reference requires CONFIG\n"},
      {"config --reference model.atention.layer_types",
       "did you mean \"model.attention.layer_types\"?\n"},
      {"config a.yaml word",
       "unexpected \"word\" after CONFIG; add --reference to search for it\n"},
      {"generate r --seed=-1",
       "--seed: expected an integer of at least 0, found \"-1\"; see longspan generate --help\n"},
      {"generate r --seed 99999999999999999999",
       "expected an integer of at least 0, found \"99999999999999999999\"; see longspan generate "
       "--help\n"},
      {"generate r --num-samples 9223372036854775807",
       "expected an integer from 1 to 1048576, found \"9223372036854775807\"; see longspan "
       "generate --help\n"},
      {"generate r --top-p none",
       "expected a finite number above 0, found \"none\"; see longspan generate --help\n"},
      {"generate r --prompt-file ''",
       "expected a name, found nothing; see longspan generate --help\n"},
      {"evaluate r --max-tokens 0x10",
       "--max-tokens: expected an integer of at least 1, found \"0x10\"; see longspan evaluate "
       "--help\n"},
      {"evaluate r --max-tokens 1.5",
       "expected an integer of at least 1, found \"1.5\"; see longspan evaluate --help\n"},
      {"evaluate r --mem-len 1e3",
       "expected an integer of at least 0, found \"1e3\"; see longspan evaluate --help\n"},
      {"evaluate r --data ''",
       "--data: expected a name, found nothing; see longspan evaluate --help\n"},
      {"evaluate r --checkpoint ''",
       "--checkpoint: expected a name, found nothing; see longspan evaluate --help\n"},
      {"plan a.yaml -m 2 b", "unexpected arguments: -m 2 b; see longspan plan --help\n"},
      {"plan a.yaml --memory-per-rank 1e400",
       "expected a finite number above 0, found \"1e400\"; see longspan plan --help\n"},
  };
  for (const auto& [words, end] : cases) {
    const Result result = longspan(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_TRUE(result.output.starts_with("longspan: ")) << words << ": " << result.output;
    EXPECT_TRUE(result.output.ends_with(end)) << words << ": " << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
}

TEST_F(CommandLine, ConfigPrintsResolvedConfiguration) {
  const Result result = longspan("config " + good_ + " --set run.seed=5 --set 'data.test=a, b'");
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.output.find("  seed: 5"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("  test: \"a, b\""), std::string::npos) << result.output;
  const std::string again = write("again.yaml", result.output);
  EXPECT_EQ(longspan("config " + again).code, 0);
}

TEST_F(CommandLine, ConfigReportsMissingAndUnknownKeys) {
  const Result result = longspan("config " + bad_);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.output,
            "longspan: " + bad_ +
                ": data.train: missing required key; set it to a path, or a list of paths or of "
                "{path: PATH, weight: NUMBER}, not empty\n" +
                bad_ + ":3:8: data.tain: unknown key; did you mean \"data.train\"?\n");
}

TEST_F(CommandLine, RejectsMissingFilesAndDirectories) {
  const Result missing = longspan("config /nowhere/a.yaml");
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.output,
            "longspan: /nowhere/a.yaml: cannot be opened: No such file or directory\n");
  const Result directory = longspan("config " + directory_.string());
  EXPECT_EQ(directory.code, 2);
  EXPECT_EQ(directory.output,
            "longspan: " + directory_.string() + ": expected a YAML file, found a directory\n");
}

TEST_F(CommandLine, ConfigPrintsReference) {
  const Result text = longspan("config --reference");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.output.find("  parallel.tensor_parallel_size\n"), std::string::npos);
  const Result page = longspan("config --markdown");
  EXPECT_EQ(page.code, 0);
  EXPECT_NE(page.output.find("## parallel\n"), std::string::npos);
}

TEST_F(CommandLine, ReferenceShowsCurrentValues) {
  for (const std::string& words : {good_ + " --reference data", "data " + good_ + " --reference"}) {
    const Result result = longspan("config " + words);
    EXPECT_EQ(result.code, 0);
    EXPECT_NE(result.output.find("current value book.txt, set at " + good_ + ":3:8)"),
              std::string::npos)
        << result.output;
    EXPECT_EQ(result.output.find("\n  model."), std::string::npos) << result.output;
  }
  const Result bad = longspan("config --reference " + bad_);
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.output.find("data.tain: unknown key"), std::string::npos) << bad.output;
}

// Keys in the examples of --help are valid.
TEST_F(CommandLine, HelpShowsExistingKeys) {
  const std::string help = longspan("config --help").output;
  std::size_t found = 0;
  for (std::size_t at = 0; (at = help.find("--set ", at)) != std::string::npos; at += 6) {
    std::string setting = help.substr(at + 6, help.find('=', at) - at - 6);
    std::erase_if(setting, [](char c) { return c == '\'' || c == ' ' || c == '\n'; });
    if (setting.find('.') == std::string::npos) continue;
    ++found;
    EXPECT_EQ(longspan("config --reference " + setting).code, 0) << setting;
  }
  EXPECT_GE(found, 2u) << help;
}

TEST_F(CommandLine, FailsWhenOutputCannotBeWritten) {
  constexpr const char* full =
      "longspan: standard output cannot be written: No space left on device\n";
  for (const std::string& words :
       {"config " + good_, std::string("--help"), std::string("--version")}) {
    const Result result = longspan(words + " > /dev/full");
    EXPECT_EQ(result.code, 1) << words;
    EXPECT_EQ(result.output, full) << words;
  }
  const Result closed = longspan("config " + good_ + " >&-");
  EXPECT_EQ(closed.code, 1);
  EXPECT_EQ(closed.output, "longspan: standard output cannot be written: Bad file descriptor\n");
}

TEST_F(CommandLine, EndsSilentlyWhenReaderClosesPipe) {
  const Result result = longspan("config " + good_ + " | { exec <&-; sleep 1; }");
  EXPECT_EQ(result.output, "");
}

TEST_F(CommandLine, ReadsConfigurationFromPipesButNotDevices) {
  const std::string pipe = (directory_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Result nobody = longspan("config " + pipe);
  EXPECT_EQ(nobody.code, 2);
  EXPECT_EQ(nobody.output,
            "longspan: " + pipe +
                ":1:1: expected the sections of a configuration, found an empty file\n");
  const Result piped = shell("cat " + good_ + " | " + program + " config /dev/stdin");
  EXPECT_EQ(piped.code, 0) << piped.output;
  const Result device = longspan("config /dev/null");
  EXPECT_EQ(device.code, 2);
  EXPECT_EQ(device.output, "longspan: /dev/null: expected a YAML file, found a device or socket\n");
}

TEST_F(CommandLine, RejectsTooManyThreads) {
  const Result result =
      shell("OMP_NUM_THREADS=100000 " + std::string(program) + " config " + good_);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.output,
            "longspan: OMP_NUM_THREADS: expected at most 4096 threads, found 100000\n");
}

TEST_F(CommandLine, InspectAndVerifyRejectMissingCheckpoints) {
  for (const char* command : {"inspect", "verify"}) {
    const Result missing = longspan(std::string(command) + " /nowhere");
    EXPECT_EQ(missing.code, 3);
    EXPECT_EQ(missing.output, "longspan: /nowhere: no such directory\n");
    EXPECT_EQ(longspan(std::string(command) + " " + directory_.string()).code, 3);
    EXPECT_EQ(longspan(std::string(command) + " " + good_).code, 3);
  }
}

TEST_F(CommandLine, InspectsAndVerifiesCheckpoints) {
  const Tensor weight = Tensor::zeros(Shape{3, 4}, DType::f32, Device::cpu());
  TrainingState state;
  state.add("layers/0/weight", weight, true);
  state.scalars.set("steps", 7);
  const fs::path step =
      save_checkpoint(directory_ / "checkpoints",
                      {.run_id = "r", .step = 7, .layout = {}, .configuration = "run: {}\n"},
                      state,
                      {});
  const Result inspect = longspan("inspect --tensors " + directory_.string());
  EXPECT_EQ(inspect.code, 0);
  EXPECT_TRUE(inspect.output.starts_with(step.string() + "\n  run r, step 7\n")) << inspect.output;
  EXPECT_NE(inspect.output.find("\nlayers/0/weight "), std::string::npos) << inspect.output;
  EXPECT_EQ(longspan("inspect --config " + step.string()).output, "run: {}\n");

  const Result good = longspan("verify " + directory_.string());
  EXPECT_EQ(good.code, 0);
  EXPECT_EQ(good.output, step.string() + ": valid\n");
  fs::resize_file(step / "rank-00000.h5", 100);
  const Result damaged = longspan("verify " + step.string());
  EXPECT_EQ(damaged.code, 3);
  EXPECT_TRUE(damaged.output.starts_with(step.string() + ": corrupt\n")) << damaged.output;
}

TEST_F(CommandLine, VerifyRejectsStepWithoutManifest) {
  fs::create_directories(directory_ / "checkpoints" / "step-000000007");
  const Result verify = longspan("verify " + directory_.string());
  EXPECT_EQ(verify.code, 3);
  EXPECT_NE(verify.output.find("1 of 1 checkpoint corrupt\n"), std::string::npos) << verify.output;
  EXPECT_EQ(longspan("inspect " + directory_.string()).code, 3);
}

TEST_F(CommandLine, PrintsOnceAndReturnsCodeUnderMpirun) {
  const std::string mpirun = LONGSPAN_SOURCE_DIRECTORY "/tests/support/mpirun 3 ";
  const Result bad = shell(mpirun + program + " config " + bad_);
  EXPECT_EQ(bad.code, 2);
  const std::size_t first = bad.output.find("data.tain: unknown key");
  ASSERT_NE(first, std::string::npos) << bad.output;
  EXPECT_EQ(bad.output.find("data.tain: unknown key", first + 1), std::string::npos) << bad.output;

  const Result good = shell(mpirun + program + " config " + good_);
  EXPECT_EQ(good.code, 0);
  const std::size_t seed = good.output.find("\n  seed: ");
  ASSERT_NE(seed, std::string::npos) << good.output;
  EXPECT_EQ(good.output.find("\n  seed: ", seed + 1), std::string::npos) << good.output;

  const Result words = shell(mpirun + program + " confg");
  EXPECT_EQ(words.code, 2);
  EXPECT_EQ(words.output.find("did you mean"), words.output.rfind("did you mean"));
  const Result help = shell(mpirun + program + " --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.output.find("Examples:"), help.output.rfind("Examples:"));
}

}  // namespace
}  // namespace longspan::command_line_test
