// What tasks on images share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/tasks/labelled_task.h"

namespace longspan {

// For LabeledTaskSpec::problem.
std::string labelled_images_problem(const DataOptions& data);

// What becomes of a file of IDX of which no file of labels is named, and of labels that training
// did not have: an error; or images that are all of one class, "image", and have no label, and
// labels that only matter to a model of classes (Examples::label_problem).
enum class Unlabelled : bool { refused, taken };

// For LabeledTaskSpec::learn and open. Throws DataError, also for images that data.max_length is
// too short for.
LabelSet learn_labels_of_images(const DataOptions& data,
                                Unlabelled unlabelled,
                                const Communicator& all,
                                const ProgressCallback& listener);
std::shared_ptr<const Examples> open_labelled_images(const LabelledFile& file,
                                                     Unlabelled unlabelled);

// For LabeledTaskSpec::read: the images that a line names.
std::vector<LabelledLine> images_of_line(const PredictRequest& request, std::size_t line);

}  // namespace longspan
