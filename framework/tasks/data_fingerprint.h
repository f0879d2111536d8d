// Fingerprint of training data in checkpoints, which detects changed data.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "checkpoints/training_state.h"
#include "framework/data/corpus/corpus.h"

namespace longspan {

// Scalars of a checkpoint. Older checkpoints have only the first.
inline constexpr const char* corpus_scalar = "data/fingerprint";
inline constexpr const char* text_time_scalar = "data/modified_time";
inline constexpr const char* text_hash_scalar = "data/content_hash";

// As rank 0 reads it.
struct DataFingerprint {
  std::uint64_t sample = 0;   // Corpus::fingerprint: samples of a large corpus
  std::int64_t modified = 0;  // last modification of the file, in nanoseconds of Unix time
  // Hash of every byte; none for data too large to read at the start.
  std::optional<std::uint64_t> hash = {};

  void save(Scalars& scalars) const;
};

// Collective; equal on every rank. Hashes a corpus of up to one gibibyte.
DataFingerprint identify_text(const Corpus& corpus, const Communicator& world);

// Collective. Returns the fingerprint of several files or image folders, in this order; empty paths
// are skipped.
DataFingerprint identify_files(std::initializer_list<ConfigPath> files, const Communicator& world);

// Returns how the data at `path` differ from those of a checkpoint; empty if they are equal. A
// changed modification time is ignored if every byte was compared. Throws DataError where the
// checkpoint has no fingerprint.
std::string describe_data_change(const Scalars& saved,
                                 const DataFingerprint& found,
                                 const std::string& path);

}  // namespace longspan
