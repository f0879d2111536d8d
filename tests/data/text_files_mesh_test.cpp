#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/corpus/text_files.h"
#include "framework/data/rank_zero.h"
#include "tests/data/subword_text.h"
#include "tests/data/temporary_file.h"
#include "tests/support/mesh_runner.h"
#include "tests/support/temporary_directory.h"

namespace longspan::text_files_mesh_test {
namespace {

TEST(TextFilesMesh, EveryRankReceivesTokenizerAndTokens) {
  testing::on_ranks(4, [](const Communicator& all) {
    const testing::TemporaryDirectory mine;
    const TemporaryFile text_of_mine(subword_text());
    const std::string folder = all.broadcast(mine.path().string(), 0);
    const std::string path = all.broadcast(text_of_mine.path(), 0);
    DataOptions options;
    options.train = path;
    options.tokenizer = TokenizerKind::sentencepiece;
    options.vocabulary = 320;
    const Tokenizer tokenizer = prepare_tokenizer(options, folder, all);
    const auto tokenizers = all.all_gather(tokenizer.to_json());
    for (const std::string& other : tokenizers) EXPECT_EQ(other, tokenizers[0]);
    // Rank 3 uses another disk.
    const std::string tokens = all.rank() == 3 ? mine.path().string() : folder;
    options.token_cache = tokens;
    const Corpus corpus = open_corpus(path, options, tokenizer, "", all);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(corpus.tokens()));
    corpus.read({}, ids);
    EXPECT_EQ(tokenizer.decode(ids), subword_text());
    EXPECT_EQ(std::filesystem::is_empty(mine.path()), all.rank() == 1 || all.rank() == 2);
    all.barrier();
  });
}

TEST(RunOnRankZero, ReportsProgressOnWaitingRanks) {
  testing::on_ranks(2, [](const Communicator& all) {
    int reports = 0;
    const ProgressCallback listener = [&reports](const ScanProgress& progress) {
      EXPECT_EQ(progress.path, "text");
      EXPECT_EQ(progress.done, 5);
      EXPECT_EQ(progress.size, 8);
      ++reports;
    };
    const std::string result =
        run_on_rank_zero(all, "text", 8, listener, [](const ProgressCallback& report) {
          const std::string path = "text";
          report({path, 5, 8});
          std::this_thread::sleep_for(std::chrono::milliseconds(700));
          return std::string("done");
        });
    EXPECT_EQ(result, "done");
    EXPECT_GE(reports, 2);  // in 0.7 s
  });
}

// Training a tokenizer reports the progress of two files with different sizes.
TEST(RunOnRankZero, ReportsEqualFractionOnOtherRanks) {
  testing::on_ranks(2, [](const Communicator& all) {
    std::vector<std::string> reports;
    const ProgressCallback listener = [&reports](const ScanProgress& progress) {
      EXPECT_LE(progress.done, progress.size);
      const std::string words =
          fmt::format("{} {} of {}", progress.path, progress.done, progress.size);
      if (reports.empty() || reports.back() != words) reports.push_back(words);
    };
    run_on_rank_zero(all, "source", 10, listener, [](const ProgressCallback& report) {
      for (const auto& [path, done, size] :
           {std::tuple(std::string("source"), 5, 10), std::tuple(std::string("target"), 30, 40)}) {
        report({path, done, size});
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
      }
      return std::string();
    });
    const std::vector<std::string> first = {"source 5 of 10", "target 30 of 40"};
    const std::vector<std::string> second = {"source 5 of 10", "source 8 of 10"};
    EXPECT_EQ(reports, all.rank() == 0 ? first : second);
  });
}

TEST(RunOnRankZero, ReportsEachNoteOnceOnRankZero) {
  testing::on_ranks(2, [](const Communicator& all) {
    std::vector<std::string> notes;
    const ProgressCallback listener = [&notes](const ScanProgress& progress) {
      if (!progress.note.empty()) notes.push_back(progress.path + ": " + progress.note);
    };
    run_on_rank_zero(all, "text", 8, listener, [](const ProgressCallback& report) {
      const std::string path = "images";
      report({path, 0, 0, "one"});
      report({path, 5, 8});
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      report({path, 0, 0, "two"});  // right before the end
      return std::string();
    });
    const std::vector<std::string> all_notes = {"images: one", "images: two"};
    EXPECT_EQ(notes, all.rank() == 0 ? all_notes : std::vector<std::string>());
  });
}

TEST(RunOnRankZero, ListenerExceptionDoesNotWaitForWork) {
  testing::on_ranks(2, [](const Communicator& all) {
    const auto begin = std::chrono::steady_clock::now();
    const ProgressCallback stop = [](const ScanProgress&) { throw DataError("stopped"); };
    EXPECT_EQ(message_of<DataError>([&] {
                run_on_rank_zero(all, "text", 8, stop, [](const ProgressCallback& report) {
                  for (int i = 0; i < 100; ++i) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(100));
                    const std::string path = "text";
                    report({path, i, 100});
                  }
                  return std::string();
                });
              }),
              "stopped");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  });
}

}  // namespace
}  // namespace longspan::text_files_mesh_test
