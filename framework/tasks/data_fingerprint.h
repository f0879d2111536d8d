// Which text a run is trained on: what its checkpoints keep of it to tell it from another.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "checkpoints/training_state.h"
#include "framework/data/corpus/corpus.h"

namespace longspan {

// The scalars of a checkpoint. Older ones have the first alone.
inline constexpr const char* corpus_scalar = "data/fingerprint";
inline constexpr const char* text_time_scalar = "data/modified";
inline constexpr const char* text_hash_scalar = "data/hash";

// As rank 0 sees it.
struct DataFingerprint {
  std::uint64_t sample = 0;   // Corpus::fingerprint: of a large text a part of it
  std::int64_t modified = 0;  // when the file was last changed, in nanoseconds of Unix time
  // Of every byte; none of bytes that are too many to be read at the start.
  std::optional<std::uint64_t> hash = {};

  void save(Scalars& scalars) const;
};

// Collective: the same on every rank. Reads a text of bytes of at most a gibibyte.
DataFingerprint identify_text(const Corpus& corpus, const Communicator& world);

// Of files that belong together, or folders of images, in this order; empty paths name none.
// Collective.
DataFingerprint identify_files(std::initializer_list<ConfigPath> files, const Communicator& world);

// What has changed since a checkpoint was trained on it, as a sentence about `path`; empty where
// nothing has. A file that was only touched is the same where every byte was compared. Throws
// DataError where the checkpoint does not say.
std::string describe_data_change(const Scalars& saved,
                                 const DataFingerprint& found,
                                 const std::string& path);

}  // namespace longspan
