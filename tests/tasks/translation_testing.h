// Small files of pairs, and a translation task on them.
#pragma once

#include <filesystem>

#include "framework/tasks/task.h"
#include "tests/tasks/translate_testing.h"

namespace longspan::testing {

struct PairFiles {
  std::string source = "a cat\nx\nthe longest line of all\nb\n";
  std::string target = "eine katze\ny\nzeile\nlang und laenger\n";
  std::string valid_source = "cat\na long line\nb\n";
  std::string valid_target = "katze\nl\neine andere zeile\n";
};

// The files on disk, with the data options of a task.
struct OpenPairs {
  explicit OpenPairs(const PairFiles& files = {})
      : train(files.source),
        train_target(files.target),
        validation(files.valid_source),
        validation_target(files.valid_target) {
    data.train = ConfigPath(train.path());
    data.train_target = ConfigPath(train_target.path());
    data.validation = ConfigPath(validation.path());
    data.validation_target = ConfigPath(validation_target.path());
    data.buckets = {.batch_tokens = 64, .longest = 32, .length_multiple = 4};
  }
  std::unique_ptr<Task> open(const ProcessMesh& mesh = {},
                             std::int64_t batches = 0,
                             std::int64_t decoded = 0,
                             std::uint64_t seed = 1) const {
    return task_kind("translation")
        .open({.data = data,
               .run = std::filesystem::temp_directory_path(),
               .mesh = mesh,
               .seed = seed,
               .validation_batches = batches,
               .validation_decoded = decoded});
  }

  TemporaryFile train, train_target, validation, validation_target;
  DataOptions data;
};

}  // namespace longspan::testing
