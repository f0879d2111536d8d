// rank-00000.h5 ...: the pieces that one rank owns, a dataset each, under the tensors' names.
//
// HDF5 of the latest format, whose structures carry checksums; chunked datasets with the Fletcher32
// filter; f64, f32, i64, i32 and u8 little-endian, bf16 and f16 as the 16 bits they are, the
// dtype's name in the attribute "dtype". A single value is stored as [1]; pieces without elements
// are not stored.
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

// What one rank tells the others about its part of a save.
struct RankFileReport {
  std::string error;  // empty when all went well
  ManifestFile file;
  std::map<std::string, ManifestTensor> tensors;  // owned
  Scalars scalars;

  std::string to_text() const;
  static RankFileReport from_text(const std::string& text, int rank);
};

// Writes the owned pieces into a new file in the directory, makes it durable, opens it again and
// compares what is there with the tensors' hashes. Throws Failure; an error while reading back is
// one of writing here, and so is that it was asked to stop meanwhile.
RankFileReport write_rank_file(const std::filesystem::path& directory,
                               int rank,
                               const TrainingState& state,
                               const std::stop_token& stop = {});

// Opens a file of a checkpoint, of the size that the manifest says. Throws DataError.
Descriptor open_rank_file(const std::filesystem::path& directory, const ManifestFile& file);
// Throws DataError when the file's hash is not the one that the manifest says.
void check_file_hash(const Descriptor& descriptor,
                     const std::filesystem::path& directory,
                     const ManifestFile& file,
                     const ReadProgress& watch = {});

// What is wrong with a rank file, a sentence each; nothing where its bytes are those that the
// manifest says and only the `pieces` are in it. Throws DataError where it cannot be looked at. A
// file that is hashed in a moment is hashed before HDF5 gets to parse it: damage is found by its
// hash. Of a longer one the structure must be right before all of it is read.
std::vector<std::string> rank_file_problems(const Descriptor& descriptor,
                                            const std::filesystem::path& directory,
                                            const ManifestFile& file,
                                            std::span<const FilePiece> pieces,
                                            const ReadProgress& watch = {});

// Gets parts of a piece: where they lie in the whole tensor, and their elements.
using PieceVisitor = std::function<void(const Box& part, const std::byte* elements)>;

// Reads a piece in parts of about a mebibyte and then compares its hash. Throws DataError: what the
// visitor got counts only when this returns.
void read_piece(const hdf5::Reader& file,
                const ManifestPiece& piece,
                DType dtype,
                const PieceVisitor& visit);

// Throws Failure unless the piece is a box of its tensor and its name is one.
void check_piece(const StateTensor& piece);
// Throws Failure when a name is the folder of another.
void check_folders(const std::set<std::string>& names);

}  // namespace longspan
