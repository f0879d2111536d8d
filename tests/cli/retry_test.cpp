#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>

#include "checkpoints/checkpoint.h"
#include "checkpoints/files.h"
#include "framework/core/error.h"
#include "framework/training_loop/run_directory.h"
#include "launch/cli/launch.h"
#include "launch/cli/run_record.h"
#include "tests/support/temporary_directory.h"

namespace longspan::retry_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryDirectory;

// Attempts are functions that change the run directory as a job would.
class Retry : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_SETMASK, nullptr, &before_);
    block_signals();
    fs::create_directories(run_);
  }
  void TearDown() override { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // `attempt` receives the command line and the attempt's number, and returns the exit code.
  int code_of(std::vector<std::string> options,
              const std::function<int(const LaunchCommandLine&, int)>& attempt) {
    const LaunchCommandLine line = {.ranks = 3,
                                    .options = std::move(options),
                                    .command = {"train", "run.yaml"},
                                    .retry = {.most = retries_, .wait = 0, .shutdown_grace = 0}};
    const ConfigurationText source = {
        "run.yaml",
        "{model: {family: decoder, num_hidden_layers: 2, hidden_size: 16, "
        "num_attention_heads: 4}, "
        "data: {train: none.txt, global_batch_size: 6, seq_length: 32}}",
        {"run.output_dir=" + run_.string(),
         "run.collective_timeout_seconds=0.1",
         "run.device=cpu",
         "checkpoint.resume_from=" + resume_}};
    return run_with_retries(line, source, [&](const LaunchCommandLine& each) {
      return JobResult{.code = attempt(each, ++attempts_), .was_asked = is_asked_};
    });
  }

  // Returns options that probe hosts with a script of this body; "$1" is the host.
  std::vector<std::string> asking(const std::string& body, const std::string& hosts) const {
    const fs::path agent = directory_.path() / "agent";
    std::ofstream(agent) << "#!/bin/sh\ncd " << directory_.path().string() << "\n" << body << "\n";
    fs::permissions(agent, fs::perms::owner_all);
    return {"--mca", "plm_rsh_agent", agent.string(), "--host", hosts};
  }

  void touch(const std::string& name) const { std::ofstream(directory_.path() / name) << "\n"; }
  void log_step(int step) const {
    std::ofstream(run_ / metrics_file) << "{\"step\": " << step << ", \"loss\": 1.0}\n";
  }
  std::string logs() const {
    std::stringstream text;
    text << std::ifstream(run_ / log_file).rdbuf();
    return text.str();
  }

  TemporaryDirectory directory_;
  fs::path run_ = directory_.path() / "run";
  std::string resume_ = "auto";
  int attempts_ = 0;
  int retries_ = 3;
  bool is_asked_ = false;  // whether each attempt reports a stop request
  sigset_t before_ = {};
};

TEST_F(Retry, ReturnsStoppedWhenSignaledDuringHostProbe) {
  const auto options = asking("[ ! -e slow ] || sleep 60", "0.0.0.1");
  const auto begin = std::chrono::steady_clock::now();
  const int code = code_of(options, [&](const LaunchCommandLine&, int) {
    touch("slow");
    ::raise(SIGTERM);
    return static_cast<int>(ExitCode::failure);
  });
  EXPECT_EQ(code, static_cast<int>(ExitCode::stopped));
  EXPECT_EQ(attempts_, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(9));
}

TEST_F(Retry, StartsNoAttemptAfterSignal) {
  ::raise(SIGTERM);
  const int code = code_of(asking("sleep 60", "0.0.0.1"), [](const LaunchCommandLine&, int) {
    return static_cast<int>(ExitCode::ok);
  });
  EXPECT_EQ(code, static_cast<int>(ExitCode::stopped));
  EXPECT_EQ(attempts_, 0);
}

TEST_F(Retry, GivesUpIfRunDirectoryStaysLocked) {
  Descriptor lock;
  const int code = code_of({}, [&](const LaunchCommandLine&, int attempt) {
    lock = Descriptor(::open((run_ / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
    EXPECT_EQ(::flock(lock.get(), LOCK_EX), 0);
    return attempt == 1 ? 128 + SIGKILL : static_cast<int>(ExitCode::configuration);
  });
  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_EQ(attempts_, 1);
  EXPECT_THAT(logs(), HasSubstr("restarting in 0 s (restart 3 of 3)"));
  EXPECT_THAT(logs(), HasSubstr("run is still locked by a rank of the previous attempt\n"));
}

TEST_F(Retry, KeepsHostsIfNoProbeEverSucceeded) {
  const auto options = asking("exit 255", "0.0.0.1,localhost");
  std::vector<std::string> started;
  const int code = code_of(options, [&](const LaunchCommandLine& line, int attempt) {
    started.push_back(line.options.back());
    return static_cast<int>(attempt == 1 ? ExitCode::rank_failed : ExitCode::failure);
  });
  EXPECT_EQ(code, static_cast<int>(ExitCode::failure));
  EXPECT_THAT(started, ElementsAre("0.0.0.1,localhost", "0.0.0.1,localhost"));
  const std::string text = logs(), sentence = "no other host has answered yet";
  const std::size_t first = text.find(sentence);
  ASSERT_NE(first, text.npos) << text;
  EXPECT_EQ(text.find(sentence, first + 1), text.npos) << text;
}

TEST_F(Retry, RunsOneRankOnLastHost) {
  const auto options = asking("[ ! -e \"gone-$1\" ]", "0.0.0.1:*,0.0.0.2:*,0.0.0.3:*,0.0.0.4:*");
  LaunchCommandLine second;
  const int code = code_of(options, [&](const LaunchCommandLine& line, int attempt) {
    second = line;
    if (attempt == 2) return static_cast<int>(ExitCode::ok);
    for (const char* host : {"gone-0.0.0.1", "gone-0.0.0.2", "gone-0.0.0.4"}) touch(host);
    return static_cast<int>(ExitCode::failure);
  });
  EXPECT_EQ(code, static_cast<int>(ExitCode::ok)) << logs();
  EXPECT_EQ(second.ranks, 1);
  EXPECT_EQ(second.options.back(), "0.0.0.3:*");
}

TEST_F(Retry, IgnoresStepsFromEarlierRun) {
  log_step(500);
  fs::last_write_time(run_ / metrics_file,
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  const int code = code_of({}, [&](const LaunchCommandLine&, int attempt) {
    log_step(10 * attempt);
    return 128 + SIGKILL;
  });
  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_EQ(attempts_, 4);
  EXPECT_THAT(logs(), Not(HasSubstr("no progress")));
  EXPECT_THAT(logs(), HasSubstr("attempt 1 ended with code 137 after step 10, no checkpoint"));
}

// The first attempt does not resume from the run directory.
TEST_F(Retry, ResumesOnlyFromItsOwnCheckpoints) {
  const std::string own = "checkpoint.resume_from=auto";
  fs::create_directories(run_ / "checkpoints" / step_name(4));  // from an earlier run
  resume_ = "../other";
  std::vector<std::string> last;
  const int code = code_of({}, [&](const LaunchCommandLine& line, int attempt) {
    last.push_back(line.command.back());
    if (attempt == 2) fs::create_directories(run_ / "checkpoints" / step_name(12));
    return attempt == 3 ? static_cast<int>(ExitCode::diverged) : 128 + SIGKILL;
  });
  EXPECT_EQ(code, static_cast<int>(ExitCode::diverged));
  EXPECT_THAT(last, ElementsAre("run.yaml", "run.yaml", own));
  EXPECT_THAT(logs(), HasSubstr("starting attempt 2 on 3 ranks\n"));
  EXPECT_THAT(logs(),
              HasSubstr("starting attempt 3 on 3 ranks, with checkpoint.resume_from: auto\n"));
  EXPECT_THAT(logs(),
              HasSubstr("checkpoint.resume_from: ../other applied to the first attempt only; run "
                        "the same command with checkpoint.resume_from: auto to resume\n"));
}

TEST_F(Retry, ReportsHowToContinueAfterStop) {
  resume_ = "never";
  for (const bool has_saved : {false, true}) {
    attempts_ = 0;
    const int code = code_of({}, [&](const LaunchCommandLine&, int) {
      if (has_saved) fs::create_directories(run_ / "checkpoints" / step_name(12));
      ::raise(SIGTERM);
      return 128 + SIGKILL;
    });
    EXPECT_EQ(code, static_cast<int>(ExitCode::stopped));
    EXPECT_THAT(
        logs(),
        HasSubstr(has_saved ? "run the same command with checkpoint.resume_from: auto to resume\n"
                            : "nothing is saved yet; run the same command to restart\n"));
  }
}

TEST_F(Retry, RetriesWithUnreadableCheckpoints) {
  const fs::path checkpoints = run_ / "checkpoints";
  const int code = code_of({}, [&](const LaunchCommandLine&, int attempt) {
    if (attempt == 3) return static_cast<int>(ExitCode::ok);
    log_step(10 * attempt);
    if (attempt == 1) {
      fs::create_directories(checkpoints / step_name(10));
    } else {
      fs::remove_all(checkpoints);
      fs::create_symlink("checkpoints", checkpoints);  // symlink loop
    }
    return 128 + SIGKILL;
  });
  EXPECT_EQ(code, static_cast<int>(ExitCode::ok));
  EXPECT_THAT(logs(), HasSubstr("ended with code 137 after step 10, newest checkpoint at step 10"));
}

// Example: memory runs out during the last step or its save.
TEST_F(Retry, ReportsARankKilledAfterAStopRequest) {
  is_asked_ = true;
  for (const int retries : {0, 3}) {
    retries_ = retries;
    attempts_ = 0;
    EXPECT_EQ(code_of({}, [](const LaunchCommandLine&, int) { return 130; }), 130);
    EXPECT_THAT(logs(), Not(HasSubstr("a rank was killed by signal 2 (Interrupt)")));
    fs::remove(run_ / log_file);
    EXPECT_EQ(code_of({}, [](const LaunchCommandLine&, int) { return 137; }), 137);
    EXPECT_THAT(logs(), HasSubstr("a rank was killed by signal 9 (Killed)"));
    fs::remove(run_ / log_file);
    EXPECT_EQ(attempts_, 2);
  }
}

TEST_F(Retry, ReportsKilledRunOnlyIfMarkedByJob) {
  retries_ = 0;
  log_step(3);
  const auto mark = [this] { std::ofstream(run_ / lock_name) << to_text(RunMark{}); };
  mark();
  EXPECT_EQ(code_of({}, [](const LaunchCommandLine&, int) { return 1; }), 1);
  EXPECT_EQ(logs(), "");
  ::usleep(20'000);  // longer than the resolution of file times
  const auto train = [&](const LaunchCommandLine&, int) {
    mark();
    return 1;
  };
  EXPECT_EQ(code_of({}, train), 1);
  EXPECT_THAT(logs(), HasSubstr("error longspan launch: "));
}

TEST_F(Retry, DoesNotReadHostFileWithoutRetries) {
  retries_ = 0;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "one\n", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(code_of({"--hostfile", fmt::format("/dev/fd/{}", ends[0])},
                    [](const LaunchCommandLine&, int) { return 0; }),
            0);
  char text[8];
  EXPECT_EQ(::read(ends[0], text, sizeof text), 4);
  ::close(ends[0]);
}

}  // namespace
}  // namespace longspan::retry_test
