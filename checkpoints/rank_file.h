// rank-00000.h5 ...: one rank's pieces, each a dataset named after its tensor.
//
// HDF5 of the latest format, whose metadata has checksums. Datasets are chunked with the Fletcher32
// filter. f64, f32, i64, i32 and u8 are little-endian; bf16 and f16 are stored as their 16 bits.
// The attribute "dtype" names the dtype. A scalar is stored as [1]. Empty pieces are not stored.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/hdf5.h"
#include "checkpoints/manifest.h"

namespace longspan {

// A rank's report about its part of a save.
struct RankFileReport {
  std::string error;  // empty on success
  ManifestFile file;
  std::map<std::string, ManifestTensor> tensors;  // owned
  Scalars scalars;

  std::string to_text() const;
  static RankFileReport from_text(const std::string& text, int rank);
};

// Writes the owned pieces into a new file, syncs it, reopens it and compares its content with the
// hashes of the tensors. Throws Failure, also for errors of reading back and for a requested stop.
RankFileReport write_rank_file(const std::filesystem::path& directory,
                               int rank,
                               const TrainingState& state,
                               const std::stop_token& stop = {});

// Opens a file of a checkpoint and checks its size. Throws DataError.
Descriptor open_rank_file(const std::filesystem::path& directory, const ManifestFile& file);
// Throws DataError when the file's hash differs from the manifest.
void check_file_hash(const Descriptor& descriptor,
                     const std::filesystem::path& directory,
                     const ManifestFile& file,
                     const ReadProgress& watch = {});

// Returns errors of a rank file; empty if its bytes match the manifest and it contains only the
// `pieces`. Throws DataError for an unreadable file. Small files are hashed before HDF5 parses
// them, so that the hash reveals corruption. For larger files the structure is checked before
// everything is read.
std::vector<std::string> rank_file_problems(const Descriptor& descriptor,
                                            const std::filesystem::path& directory,
                                            const ManifestFile& file,
                                            std::span<const FilePiece> pieces,
                                            const ReadProgress& watch = {});

// Receives parts of a piece: their boxes in the global tensor, and their elements.
using PieceVisitor = std::function<void(const Box& part, const std::byte* elements)>;

// Reads a piece in parts of about 1 MiB and then compares its hash. Throws DataError. The visited
// data is valid only when this returns.
void read_piece(const hdf5::Reader& file,
                const ManifestPiece& piece,
                DType dtype,
                const PieceVisitor& visit);

// Throws Failure unless the piece is a box of its tensor and its name is valid.
void check_piece(const StateTensor& piece);
// Throws Failure when a name is a parent directory of another.
void check_folders(const std::set<std::string>& names);

// Assembles the rank files of a save into a complete step.

// Metadata of a tensor that this rank declares but does not own.
struct DeclaredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;  // global shape
};

// Throws Failure when no rank owns any part of a declared tensor, or when its dtype or global shape
// differ. Otherwise the missing tensor would be discovered only on restore.
void check_owned_somewhere(const std::vector<DeclaredTensor>& declared,
                           const std::vector<RankFileReport>& reports);

// Throws Failure, which names the scalar, where this rank differs from rank 0.
void check_same_scalars(const Scalars& mine, const Scalars& first);

// Writes the view and the manifest, after checking that the reports cover complete tensors and that
// their files exist. `reports` has one entry a rank, in rank order. On return the step is complete
// and durable. Throws Failure, and DataError when the manifest fails to read back.
void write_manifest(const std::filesystem::path& directory,
                    const CheckpointInfo& info,
                    const std::vector<RankFileReport>& reports);

// Writes and syncs the view of the manifest, next to its rank files. Omits empty tensors. Throws
// Failure.
ManifestFile write_view(const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace longspan
