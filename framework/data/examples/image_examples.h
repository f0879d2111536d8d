// Images with a label each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/shared_file.h"

namespace longspan {

// Where images are: a file of IDX and one of their labels, as MNIST has them; or, without the
// second, a folder that has one folder of PNG files for each label, whose name that is. A file of
// IDX without the second has images without labels, for which one class is learnt, "image".
struct ImageFiles {
  ConfigPath images;
  ConfigPath labels = {};
};

// A collective. Throws DataError.
LabelSet learn_image_labels(const ImageFiles& files,
                            const Communicator& all,
                            const ProgressCallback& listener = {});

// A label that training did not have: an error, or none (Examples::label_problem).
enum class UnknownLabels : bool { refused, taken };

// Fields: `pixels` [rows, T], values 0 .. 255 row by row, of colours red, green and blue one after
// another; `length` [rows], without the padding; `label` [rows], ignored_target of an empty row and
// of an image without one that training had.
// Counts: "rows", "tokens" and "bytes" (values). The images are all of one shape.
//
// A collective. Throws DataError for files that are cut off, images of different shapes, another
// number of labels than of images, and, where they are refused, a label that is not in `labels`.
std::shared_ptr<const Examples> open_images(const ImageFiles& files,
                                            const LabelSet& labels,
                                            const Communicator& all,
                                            const ProgressCallback& listener = {},
                                            UnknownLabels unknown = UnknownLabels::refused);

// The values of one image, as `pixels` has them.
struct Pixels {
  ImageShape shape;
  std::vector<std::int64_t> values;
};

// Of a PNG file its image, of a file of IDX all of its images. A collective. Throws DataError.
std::vector<Pixels> read_images(const std::string& path, const Communicator& all);

}  // namespace longspan
