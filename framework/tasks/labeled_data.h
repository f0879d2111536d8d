// Data of labeled tasks: text files with labels in their lines, and images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/tasks/labeled_task.h"

namespace longspan {

// For LabeledTaskSpec::problem, for text files with labels in their lines.
std::string validate_labeled_text(const LabeledTaskSpec& kind, const DataOptions& data);

// For LabeledTaskSpec::problem, for images.
std::string validate_labeled_images(const DataOptions& data);

// Policy for an IDX file without a label file, and for labels that training did not have. refused:
// an error. taken: images without labels have one class, "image", and labels matter only to
// class-conditional models (Examples::validate_label).
enum class Unlabeled : bool { refused, taken };

// For LabeledTaskSpec::learn and open. Throws DataError, also for images longer than
// data.max_length.
LabelSet learn_labels_of_images(const DataOptions& data,
                                Unlabeled unlabeled,
                                const Communicator& all,
                                const ProgressCallback& listener);
std::shared_ptr<const Examples> open_labeled_images(const LabeledFile& file, Unlabeled unlabeled);

// For LabeledTaskSpec::read: returns the images that a line names.
std::vector<LabeledLine> images_of_line(const PredictRequest& request, std::size_t line);

}  // namespace longspan
