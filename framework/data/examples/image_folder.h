// A folder with one folder of PNG files for each label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/data/examples/png_image.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

struct ImageFolder {
  std::string path;
  std::vector<std::string> files;  // "LABEL/NAME.png", sorted
  ImageShape shape;                // of each
  std::string note;                // what is not read; "" where all is

  std::vector<std::string> labels() const;
};

// "LABEL" of "LABEL/NAME.png".
std::string label_of(const std::string& file);

// Of the names and sizes of the images of such a folder. Throws DataError.
std::uint64_t fingerprint_of_folder(const ConfigPath& path);
// Their paths.
std::vector<std::string> images_in(const ConfigPath& path);

// Rank 0 looks at each file whose name ends in .png, whatever its letters' case, and the others get
// its list; hidden files and folders are left out. `listener` hears after each on every rank. A
// collective. Throws DataError for a folder without such files, for a file that is no PNG or is cut
// off, and for images of different shapes.
ImageFolder open_image_folder(const ConfigPath& path,
                              const Communicator& all,
                              const ProgressCallback& listener = {});

}  // namespace longspan
