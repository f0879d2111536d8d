// Labeled images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/shared_file.h"

namespace longspan {

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
