// Sequence pairs, and encoder-decoder models for them.
#pragma once

#include "framework/data/examples/examples.h"
#include "framework/modeling/heads.h"
#include "models/encoder_decoder.h"
#include "tests/models/model_testing.h"

namespace longspan::testing {

inline constexpr CrossAttentionMapping all_wirings[] = {CrossAttentionMapping::last,
                                                        CrossAttentionMapping::same,
                                                        CrossAttentionMapping::reverse,
                                                        CrossAttentionMapping::mix,
                                                        CrossAttentionMapping::full};

inline std::unique_ptr<Model> make_encoder_decoder(const EncoderDecoderOptions& options,
                                                   const ModelBuildOptions& setting) {
  return std::make_unique<Model>(setting, encoder_decoder_body(options), seq2seq_head());
}

// Fields of rows with these lengths, padded to `columns`. Row contents depend only on the seed, the
// global row and the position.
inline Fields pair_fields(const std::vector<Lengths>& rows,
                          const Lengths& columns,
                          std::uint64_t seed,
                          std::int64_t first_row = 0) {
  const std::int64_t count = std::ssize(rows);
  Fields fields = {{"source", full_tensor({count, columns.source}, 0)},
                   {"source_length", full_tensor({count}, 0)},
                   {"tokens", full_tensor({count, columns.target}, 0)},
                   {"targets", full_tensor({count, columns.target}, ignored_target)},
                   {"length", full_tensor({count}, 0)}};
  const auto id = [](const Random& random, std::int64_t place) {
    return static_cast<std::int64_t>(random.word(static_cast<std::uint64_t>(place)) % vocabulary);
  };
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Random random = Random(seed).child(static_cast<std::uint64_t>(first_row) + row);
    for (std::int64_t i = 0; i < rows[row].source; ++i)
      row_of(fields["source"], row)[static_cast<std::size_t>(i)] = id(random.child("source"), i);
    for (std::int64_t i = 0; i < rows[row].target; ++i) {
      const auto column = static_cast<std::size_t>(i);
      row_of(fields["tokens"], row)[column] = id(random.child("target"), i);
      row_of(fields["targets"], row)[column] = id(random.child("target"), i + 1);
    }
    fields["source_length"].span<std::int64_t>()[row] = rows[row].source;
    fields["length"].span<std::int64_t>()[row] = rows[row].target;
  }
  return fields;
}

}  // namespace longspan::testing
