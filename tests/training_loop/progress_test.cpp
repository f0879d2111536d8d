#include "framework/training_loop/progress.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "framework/core/error.h"
#include "tests/support/temporary_directory.h"

namespace longspan::progress_test {
namespace {

// A stream in memory, with access to the text written to it.
class Screen {
 public:
  Screen() : stream_(::open_memstream(&text_, &size_)) {}
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    std::fclose(stream_);
    std::free(text_);
  }
  std::FILE* stream() const { return stream_; }
  std::string text() const {
    std::fflush(stream_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

ProgressState halfway_state() {
  return {.step = 50,
          .steps = 100,
          .loss = 1.23456,
          .learning_rate = 3e-4,
          .gradient_norm = 1.4,
          .tokens_per_second = 12345,
          .utilization = 0.614,
          .seconds_left = 185};
}

TEST(ChunkText, NamesPassAndMicrobatch) {
  EXPECT_EQ(chunk_text({.chunk = 12, .chunks = 255, .part = 1, .parts = 1}, 3),
            "Step 3: forward pass, chunk 12 of 255");
  EXPECT_EQ(chunk_text({.chunk = 1, .chunks = 256, .is_backward = true, .part = 2, .parts = 4}, 3),
            "Step 3: backward pass, chunk 1 of 256, microbatch 2 of 4");
}

TEST(ProgressBar, ShowsFieldsThatFit) {
  EXPECT_EQ(progress_bar(halfway_state(), 120),
            "[###########...........]  50%  step 50/100  loss 1.2346  lr 3.00e-04  grad norm 1.4  "
            "12.3k tokens/s  MFU 61%  3m05s left");
  EXPECT_EQ(progress_bar(halfway_state(), 100),
            "[###############...............]  50%  step 50/100  loss 1.2346  12.3k tokens/s  "
            "MFU 61%  3m05s left");
  EXPECT_EQ(progress_bar(halfway_state(), 60),
            "[#####......]  50%  step 50/100  loss 1.2346  12.3k tokens/s");
  EXPECT_EQ(progress_bar(halfway_state(), 12), " 50%  step 5");
}

TEST(ProgressBar, DoesNotExceedWidth) {
  ProgressState state = halfway_state();
  for (int width = 0; width < 200; ++width) {
    for (const std::int64_t step : {0, 1, 99, 100, 101}) {
      state.step = step;
      EXPECT_LE(progress_bar(state, width).size(), static_cast<std::size_t>(width));
    }
  }
}

TEST(ProgressBar, IsFullOnlyAtTheLastStep) {
  ProgressState state = halfway_state();
  state.steps = 100000;
  state.step = 99999;
  EXPECT_NE(progress_bar(state, 120).find(".]  99%"), std::string::npos);
  state.step = 100000;
  EXPECT_NE(progress_bar(state, 120).find("#] 100%"), std::string::npos);
}

TEST(Progress, RoundsDurationsAndCounts) {
  EXPECT_EQ(duration_text(0.4), "0s");
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(3599.7), "1h00m");
  EXPECT_EQ(duration_text(90000), "25h00m");
  EXPECT_EQ(duration_text(-1), "?");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1.00k");
  EXPECT_EQ(count_text(9996), "10.0k");
  EXPECT_EQ(count_text(999600), "1.00M");
  EXPECT_EQ(count_text(2.5e9), "2.50G");
}

TEST(Progress, PrintsLoggedStepsAsLinesWithoutTerminal) {
  const Screen screen;
  const Console console(screen.stream(), Terminal());
  Progress progress(console, Log(console, "", LogLevel::info), ConsoleKind::automatic);
  ProgressState state = {.step = 1,
                         .steps = 3,
                         .loss = 2,
                         .learning_rate = 3e-4,
                         .gradient_norm = 12.34,
                         .tokens_per_second = 10};
  progress.update(state, false);
  state.step = 2;
  progress.update(state, true);
  state.step = 3;
  progress.update(state, false);
  progress.finish();
  EXPECT_EQ(screen.text(),
            "step 2/3  loss 2.0000  lr 3.00e-04  grad norm 12.3  10 tokens/s\n"
            "step 3/3  loss 2.0000  lr 3.00e-04  grad norm 12.3  10 tokens/s\n");
}

TEST(Progress, WritesLoggedStepsToLogFileWithTerminal) {
  const testing::TemporaryDirectory temporary;
  const std::filesystem::path& directory = temporary.path();
  const Screen screen;
  {
    const Console console(screen.stream(), {.has_status = true});
    Progress progress(
        console, Log(console, directory / "log.txt", LogLevel::info), ConsoleKind::automatic);
    progress.update({.step = 1, .steps = 3, .loss = 2, .tokens_per_second = 10}, false);
    progress.update({.step = 2, .steps = 3, .loss = 2, .tokens_per_second = 10}, true);
    progress.update({.step = 3, .steps = 3, .loss = 1, .tokens_per_second = 10}, false);
    progress.finish();
  }
  EXPECT_EQ(screen.text().find('\n'), std::string::npos) << screen.text();
  std::ifstream stream(directory / "log.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(
      lines[0].ends_with(" info step 2/3  loss 2.0000  lr 0.00e+00  grad norm 0  10 tokens/s"))
      << lines[0];
  EXPECT_TRUE(
      lines[1].ends_with(" info step 3/3  loss 1.0000  lr 0.00e+00  grad norm 0  10 tokens/s"))
      << lines[1];
}

TEST(Console, PrintsLogLinesAboveStatus) {
  const Screen screen;
  const Console console(screen.stream(), {.has_status = true});
  const Log log(console, "", LogLevel::info);
  console.status("[bar]");
  log.info("hello");
  console.status("");
  EXPECT_EQ(screen.text(), "\r\x1b[K[bar]\r\x1b[Khello\n[bar]\r\x1b[K");
}

TEST(Console, WrapsLinesAtTerminalWidth) {
  const Screen screen;
  const Console console(screen.stream(),
                        {.has_status = true, .has_colors = true, .width = [] { return 21; }});
  console.line(console.colored("warning:", Color::yellow) + " Peak memory of this rank: 52.1 MB");
  console.line("saved runs/of-a-long-name/step-000000004 in 1 s");
  console.line("caf\u00e9 12345678901234567");
  EXPECT_EQ(screen.text(),
            "\x1b[33mwarning:\x1b[0m Peak memory\n  of this rank: 52.1\n  MB\n"
            "saved\n  runs/of-a-long-name/step-000000004\n  in 1 s\n"
            "caf\u00e9\n  12345678901234567\n");
  const Screen multiline;
  Console(multiline.stream(), {.width = [] { return 21; }}).line("12345678\n12345678 1234567\n");
  EXPECT_EQ(multiline.text(), "12345678\n12345678 1234567\n\n");
  const Screen file;
  Console(file.stream(), Terminal()).line(std::string(300, 'x') + " y");
  EXPECT_EQ(file.text(), std::string(300, 'x') + " y\n");
}

TEST(ReadingProgress, CapsPercentageAt100) {
  const std::string path = "book.txt";
  EXPECT_EQ(reading_text({path, 500, 2000}), "Reading book.txt: 25% of 2.0 kB");
  EXPECT_EQ(reading_text({path, 2340, 2000}), "Reading book.txt: 100% of 2.0 kB");
  EXPECT_EQ(reading_text({path, 3, 0}), "Reading book.txt: 0 bytes");
}

TEST(Progress, BarFollowsTerminalWidth) {
  const Screen screen;
  int width = 100;
  const Terminal terminal = {
      .has_status = true, .has_colors = false, .width = [&width] { return width; }};
  const Console console(screen.stream(), terminal);
  Progress progress(console, Log(console, "", LogLevel::info), ConsoleKind::automatic);
  ProgressState last = halfway_state();
  last.step = last.steps;
  progress.update(last, false);
  const std::string wide = progress_bar(last, 99);
  EXPECT_EQ(screen.text(), "\r\x1b[K" + wide);
  // The narrower terminal has wrapped the old bar onto three rows.
  width = 40;
  ASSERT_EQ((wide.size() - 1) / 40, 2u) << wide;
  progress.update(last, false);
  const std::string narrow = progress_bar(last, 39);
  EXPECT_EQ(screen.text(), "\r\x1b[K" + wide + "\r\x1b[2A\x1b[J" + narrow);
}

TEST(Console, TruncatesStatusToWidthAfterLine) {
  const Screen screen;
  int width = 20;
  const Terminal terminal = {
      .has_status = true, .has_colors = false, .width = [&width] { return width; }};
  const Console console(screen.stream(), terminal);
  console.status("0123456789");
  width = 8;
  console.line("a line");
  EXPECT_EQ(screen.text(), "\r\x1b[K0123456789\r\x1b[1A\x1b[Ja line\n0123456");
}

TEST(Log, ColorsWarningsOnlyOnColorTerminals) {
  for (const bool has_colors : {false, true}) {
    const Screen screen;
    const Terminal terminal = {.has_status = false, .has_colors = has_colors, .width = {}};
    const Log log(Console(screen.stream(), terminal), "", LogLevel::debug);
    log.debug("so");
    log.warning("careful");
    log.error("wrong");
    EXPECT_EQ(screen.text(),
              has_colors ? "debug: so\n\x1b[33mwarning:\x1b[0m careful\n"
                           "\x1b[31merror:\x1b[0m wrong\n"
                         : "debug: so\nwarning: careful\nerror: wrong\n");
  }
}

TEST(Log, WritesLevelsAboveThresholdToFile) {
  const testing::TemporaryDirectory temporary;
  const std::filesystem::path& directory = temporary.path();
  const Screen screen;
  {
    const Log log(Console(screen.stream(), Terminal()), directory / "log.txt", LogLevel::info);
    log.debug("never");
    log.info("{} steps", 3);
    log.warning("careful");
  }
  EXPECT_EQ(screen.text(), "3 steps\nwarning: careful\n");
  std::ifstream stream(directory / "log.txt");
  std::string first;
  std::string second;
  std::string third;
  std::getline(stream, first);
  std::getline(stream, second);
  EXPECT_TRUE(first.ends_with(" info 3 steps")) << first;
  EXPECT_TRUE(second.ends_with(" warning careful")) << second;
  EXPECT_FALSE(std::getline(stream, third));
}

TEST(Log, ThrowsIfFileCannotBeOpened) {
  EXPECT_THROW(Log(Console(), "/dev/null/log.txt", LogLevel::info), Failure);
}

TEST(Log, DefaultLogDiscardsMessages) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const Log log;
  log.error("discarded");
  std::fflush(nullptr);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace longspan::progress_test
