// A directory with one subdirectory of PNG files per label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/data/examples/images.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

struct ImageFolder {
  std::string path;
  std::vector<std::string> files;  // "LABEL/NAME.png", sorted
  ImageShape shape;                // common shape
  std::string note;                // skipped files; "" if none

  std::vector<std::string> labels() const;
};

// Returns "LABEL" of "LABEL/NAME.png".
std::string label_of(const std::string& file);

// Returns a hash of the names and sizes of the images of such a directory. Throws DataError.
std::uint64_t fingerprint_of_folder(const ConfigPath& path);
// Returns the paths of the images.
std::vector<std::string> images_in(const ConfigPath& path);

// Rank 0 reads each file NAME.png, in any case of letters, and broadcasts the list. Hidden files
// and directories are skipped. `listener` receives progress after each file on every rank. Throws
// DataError when there are no such files, for invalid or truncated PNG files, and for images of
// different shapes. Collective.
ImageFolder open_image_folder(const ConfigPath& path,
                              const Communicator& all,
                              const ProgressCallback& listener = {});

}  // namespace longspan
