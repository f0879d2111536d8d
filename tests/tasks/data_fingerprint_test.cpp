// Detection of a changed data file of the same size.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "framework/tasks/task.h"
#include "tests/data/temporary_file.h"

namespace longspan::data_fingerprint_test {
namespace {

Scalars saved_of(const DataFingerprint& identity) {
  Scalars scalars;
  identity.save(scalars);
  return scalars;
}

TEST(DataFingerprint, CoversEveryByte) {
  const DataFingerprint text = {.sample = 1, .modified = 10, .hash = 2};
  const Scalars saved = saved_of(text);
  EXPECT_EQ(describe_data_change(saved, text, "a.txt"), "");
  EXPECT_EQ(describe_data_change(saved, {1, 11, 2}, "a.txt"), "") << "it was only touched";
  constexpr const char* other = "a.txt differs from the text that the checkpoint was trained on";
  EXPECT_EQ(describe_data_change(saved, {1, 10, 3}, "a.txt"), other);
  EXPECT_EQ(describe_data_change(saved, {2, 10, 2}, "a.txt"), other);
}

TEST(DataFingerprint, ReportsPossibleChangeWithoutFullHash) {
  const Scalars saved = saved_of({.sample = 1, .modified = 1'700'000'000'000'000'000});
  EXPECT_EQ(describe_data_change(saved, {1, 1'700'000'000'000'000'000}, "a.txt"), "");
  const std::string message = describe_data_change(saved, {1, 1'700'000'000'000'000'001}, "a.txt");
  EXPECT_TRUE(message.starts_with("a.txt was modified at 2023-11-1")) << message;
  EXPECT_NE(message.find("its text may differ"), std::string::npos) << message;
  EXPECT_NE(describe_data_change(saved, {2, 1'700'000'000'000'000'000}, "a.txt"), "");
}

TEST(DataFingerprint, ComparesOnlySampleForOlderCheckpoints) {
  Scalars saved;
  saved.set("data/fingerprint", std::uint64_t{1} << 63);
  EXPECT_EQ(describe_data_change(saved, {std::uint64_t{1} << 63, 5, 6}, "a.txt"), "");
  EXPECT_NE(describe_data_change(saved, {1, 5, 6}, "a.txt"), "");
  EXPECT_THROW(describe_data_change({}, {1, 5, 6}, "a.txt"), DataError);
}

TEST(DataFingerprint, IncludesSampleTimeAndHash) {
  const TemporaryFile file("some text that is not long");
  const Corpus corpus(file.path(), Tokenizer());
  const DataFingerprint found = identify_text(corpus, {});
  EXPECT_EQ(found.sample, corpus.fingerprint());
  EXPECT_EQ(found.hash, corpus.full_hash(1 << 20));
  struct stat status {};
  ASSERT_EQ(stat(file.path().c_str(), &status), 0);
  EXPECT_EQ(found.modified, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
}

}  // namespace
}  // namespace longspan::data_fingerprint_test
