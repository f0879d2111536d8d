#include "framework/data/batch_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include "framework/core/error.h"
#include "framework/data/corpus/stream_reader.h"
#include "tests/data/temporary_file.h"

namespace longspan::batch_loader_test {
namespace {

std::vector<std::int64_t> values(const Tensor& tensor) {
  const auto span = tensor.span<std::int64_t>();
  return {span.begin(), span.end()};
}

std::string text_of(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i * 7 + i / 256));
  return text;
}

class BatchLoaderTest : public ::testing::Test {
 protected:
  std::unique_ptr<BatchSource> source(std::int64_t segment = 16) {
    return std::make_unique<StreamSource>(
        Corpus(file_.path(), Tokenizer()), StreamLayout{4, segment}, 0, 1, Device::cpu());
  }

  TemporaryFile file_{text_of(1000)};
};

TEST_F(BatchLoaderTest, ReturnsBatchesInSourceOrder) {
  for (const std::size_t ahead : {0u, 1u, 2u, 5u}) {
    const auto plain = source();
    BatchLoader loader(source(), ahead);
    for (int i = 0; i < 40; ++i) {  // an epoch has 15
      const Batch expected = plain->next();
      const Batch batch = loader.next();
      EXPECT_EQ(values(batch.field("tokens")), values(expected.field("tokens")));
      EXPECT_EQ(values(batch.field("targets")), values(expected.field("targets")));
      EXPECT_EQ(batch.resets_state, expected.resets_state);
      EXPECT_EQ(values(loader.cursors()), values(plain->cursors()));
    }
  }
}

TEST_F(BatchLoaderTest, CursorsExcludePrefetchedBatches) {
  BatchLoader loader(source(), 4);
  loader.next();
  // One batch was consumed, however many were prefetched.
  EXPECT_THAT(values(loader.cursors()), ::testing::ElementsAre(16, 0, 16, 0, 16, 0, 16, 0));
}

TEST_F(BatchLoaderTest, RestoreDropsPrefetchedBatches) {
  for (const std::size_t ahead : {0u, 3u}) {
    BatchLoader loader(source(), ahead);
    for (int i = 0; i < 20; ++i) loader.next();
    const Tensor state = loader.cursors();
    const Batch expected = loader.next();
    for (int i = 0; i < 5; ++i) loader.next();
    loader.restore(state);
    EXPECT_EQ(values(loader.cursors()), values(state));
    const Batch batch = loader.next();
    EXPECT_EQ(values(batch.field("tokens")), values(expected.field("tokens")));
    EXPECT_EQ(batch.place, expected.place);
  }
}

TEST_F(BatchLoaderTest, ThrowsReadErrorAfterEarlierBatches) {
  file_.write(text_of(4 << 16));
  BatchLoader loader(source(1 << 12), 2);
  loader.next();
  file_.resize(100);
  // Batches read before the truncation are still returned.
  const auto take_all = [&] {
    for (int i = 0; i < 4; ++i) loader.next();
  };
  EXPECT_THAT(message_of<DataError>(take_all), ::testing::HasSubstr("truncated while reading"));
  EXPECT_THROW(loader.next(), DataError);
}

TEST_F(BatchLoaderTest, DestructorStopsPrefetchThread) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = threads();
  for (int i = 0; i < 200; ++i) {
    BatchLoader loader(source(), 1 + static_cast<std::size_t>(i % 3));
    EXPECT_GT(threads(), before);
    for (int k = 0; k < i % 4; ++k) loader.next();
  }
  // A joined thread may still be listed.
  for (int i = 0; i < 1000 && threads() > before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(threads(), before);
}

}  // namespace
}  // namespace longspan::batch_loader_test
