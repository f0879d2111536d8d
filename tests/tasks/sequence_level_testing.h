// Small models over bytes for sequence-level training, and the batches of their candidates.
#pragma once

#include "framework/tasks/sequence_level.h"
#include "framework/trainer/trainer.h"
#include "tests/tasks/translation_testing.h"

namespace longspan::testing {

inline std::unique_ptr<Model> candidate_model(const SequenceLevelOptions& level,
                                              const ProcessMesh& mesh = {},
                                              double dropout = 0) {
  EncoderDecoderOptions options;
  options.common = small_options(2);
  options.common.dropout = dropout;
  options.common.norm = NormPosition::pre;
  ModelBuildOptions setting = small_setting(mesh);
  setting.vocabulary = ids_of_bytes;
  setting.sequence_level = level;
  return std::make_unique<Model>(setting, encoder_decoder_body(options), seq2seq_head());
}

// A task on the files, whose training samples candidates.
inline std::unique_ptr<Task> candidate_task(OpenPairs& files,
                                            const SequenceLevelOptions& level,
                                            const ProcessMesh& mesh = {},
                                            std::int64_t parts = 1,
                                            std::uint64_t seed = 1) {
  files.data.sequence_level = level;
  return task_kind("translation")
      .open({.data = files.data,
             .run = std::filesystem::temp_directory_path(),
             .mesh = mesh,
             .seed = seed,
             .parts = parts});
}

}  // namespace longspan::testing
