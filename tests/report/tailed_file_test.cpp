#include "framework/report/tailed_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "framework/core/error.h"
#include "tests/support/temporary_directory.h"

namespace longspan::tailed_file_test {
namespace {

class TailedFileTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  void append(const std::string& text) {
    std::ofstream(path_, std::ios::binary | std::ios::app) << text;
  }
  bool follow() {
    return file_.follow([&] { lines_.clear(); },
                        [&](std::string_view line, std::uintmax_t) {
                          if (line == "bad") throw DataError("bad");
                          lines_.emplace_back(line);
                        });
  }
  using Lines = std::vector<std::string>;

  testing::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "log.txt";
  TailedFile file_{path_};
  Lines lines_;
};

TEST_F(TailedFileTest, ReturnsCompleteLinesOnce) {
  EXPECT_FALSE(follow());
  write("one\ntw");
  EXPECT_TRUE(follow());
  EXPECT_EQ(lines_, Lines{"one"});
  EXPECT_FALSE(follow());
  append("o\n\nthree");
  EXPECT_TRUE(follow());
  EXPECT_EQ(lines_, (Lines{"one", "two", ""}));
  append("!");
  EXPECT_FALSE(follow());
}

// Consumed lines are not read again, except for their end.
TEST_F(TailedFileTest, DoesNotReadConsumedLinesAgain) {
  write("one\ntwo\n");
  follow();
  write("eno\ntwo\nthree\n");
  EXPECT_TRUE(follow());
  EXPECT_EQ(lines_, (Lines{"one", "two", "three"}));
}

TEST_F(TailedFileTest, RestartsIfTruncatedReplacedOrRemoved) {
  write("one\ntwo\n");
  follow();
  write("one\n");
  EXPECT_TRUE(follow());
  EXPECT_EQ(lines_, Lines{"one"});
  std::ofstream(directory_.path() / "other") << "three\nfour\n";
  std::filesystem::rename(directory_.path() / "other", path_);
  EXPECT_TRUE(follow());
  EXPECT_EQ(lines_, (Lines{"three", "four"}));
  std::filesystem::remove(path_);
  EXPECT_TRUE(follow());
  EXPECT_EQ(lines_, Lines{});
  EXPECT_FALSE(follow());
}

TEST_F(TailedFileTest, RestartsAfterRejectedLine) {
  write("one\nbad\n");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(follow(), DataError);
    EXPECT_EQ(lines_, Lines{});
  }
  write("one\ntwo\n");
  EXPECT_TRUE(follow());
  EXPECT_EQ(lines_, (Lines{"one", "two"}));
}

}  // namespace
}  // namespace longspan::tailed_file_test
