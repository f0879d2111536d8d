// Labeled images: IDX files, and directories of PNG files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/data/examples/examples.h"
#include "framework/data/examples/images.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/progress.h"
#include "framework/data/rank_zero.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// A directory with one subdirectory of PNG files per label.

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

// Image location: an IDX file and one of labels, as in MNIST, or a directory with a subdirectory of
// PNG files for each label. An IDX file without labels has unlabeled images, trained as the single
// class "image".
struct ImageFiles {
  ConfigPath images;
  ConfigPath labels = {};
};

// Returns the labels of the images. Throws DataError. Collective.
LabelSet learn_image_labels(const ImageFiles& files,
                            const Communicator& all,
                            const ProgressCallback& listener = {});

// Policy for a label absent from training: an error, or accepted as unlabeled
// (Examples::validate_label).
enum class UnknownLabels : bool { refused, taken };

// Fields: `pixels` [rows, T], values 0 .. 255 in row-major order, with interleaved red, green and
// blue. `length` [rows], without padding. `label` [rows], ignored_target for an empty row and for
// an image without a known label. Counts: "rows", "tokens" and "bytes" (values). All images have
// one shape.
//
// Throws DataError for truncated files, images of different shapes, and different numbers of labels
// and images. Where unknown labels are refused, throws it for a label outside of `labels`.
// Collective.
std::shared_ptr<const Examples> open_images(const ImageFiles& files,
                                            const LabelSet& labels,
                                            const Communicator& all,
                                            const ProgressCallback& listener = {},
                                            UnknownLabels unknown = UnknownLabels::refused);

// Values of one image, in the order of `pixels`.
struct Pixels {
  ImageShape shape;
  std::vector<std::int64_t> values;
};

// Returns the image of a PNG file, or all images of an IDX file. Throws DataError. Collective.
std::vector<Pixels> read_images(const std::string& path, const Communicator& all);

}  // namespace longspan
