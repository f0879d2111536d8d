// What a model is trained on, and for what.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/text_sample.h"
#include "framework/data/batching/batch_shape.h"
#include "framework/data/corpus/user_documents.h"
#include "framework/data/data_options.h"
#include "framework/data/examples/image_shape.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/examples/png_image.h"
#include "framework/data/source.h"
#include "framework/decoding/sampling.h"
#include "framework/metrics/metric_value.h"
#include "framework/modeling/model.h"
#include "framework/tasks/data_fingerprint.h"
#include "framework/tasks/translate.h"

namespace longspan {

// What the data of a task are opened with.
struct TaskContext {
  const DataOptions& data;
  std::filesystem::path run;  // the run's directory
  ProcessMesh mesh = {};
  Device host = Device::cpu();
  std::uint64_t seed = 1;               // of the run
  std::int64_t parts = 1;               // in which a rank's rows are worked through
  std::int64_t validation_batches = 0;  // that a validation reads; 0: all
  std::int64_t validation_decoded = 0;  // examples of which it makes and judges a result
  ProgressCallback listener = {};
  DocumentStreamFactory documents = {};  // in place of data.train; empty: that is read
};

// A mean for each position of a sequence, as far as any reaches.
struct Curve {
  std::string name;
  std::vector<double> values;
};

// What came of a validation.
struct Measurement {
  std::vector<MetricValue> metric_values;  // the loss is the first, where there is one
  std::vector<Curve> curves = {};
  std::string text = {};  // the same as a line of the log, without its step

  // Of the figure of that name; nothing where there is none.
  std::optional<double> find(std::string_view name) const;
};

// A task with its data open. Everything is collective over the mesh that it was opened with.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Tokenizer& tokenizer() const = 0;
  // Or tags, where it has any.
  virtual std::int64_t classes() const { return 0; }
  // Of images the shape, which all have.
  virtual std::optional<ImageShape> image() const { return std::nullopt; }
  // Of the text that is learnt.
  virtual const DataFingerprint& identity() const = 0;
  // The batches of training, from the beginning.
  virtual std::unique_ptr<BatchSource> source() const = 0;
  // The same where the batches are what that model does, as it is at each of them: it is to be
  // there as long as the source.
  virtual std::unique_ptr<BatchSource> source_by(const Model& /*model*/) const { return source(); }
  // Of the batches of an epoch, where they are not all of one shape.
  virtual std::vector<BatchShape> batches() const { return {}; }
  // "book.txt: 1000 tokens in 8 streams, 12 steps an epoch".
  virtual std::string overview() const = 0;
  // What looks wrong with the data, a sentence each.
  virtual std::vector<std::string> warnings() const { return {}; }
  // What else a checkpoint is to keep of the data, and whether these are of the same kind: throws
  // DataError where the run cannot go on with them. `place` names the checkpoint.
  virtual void save(Scalars&) const {}
  virtual void check_compatible(const Scalars& /*saved*/, const std::string& /*place*/) const {}
  // On the validation data; nothing where there are none.
  virtual std::optional<Measurement> validate(const Model& model) const = 0;
  // At most `count` short texts, of the same inputs and with the same random numbers each time;
  // none where there are no validation data or the task has no such texts (TaskSpec::has_samples).
  // Throws InvalidLogits, on every rank, where the model's logits are no numbers.
  virtual std::vector<TextSample> samples(const Model& /*model*/, std::int64_t /*count*/) const {
    return {};
  }
};

// What a batch of training is like before there are data: for plans.
struct MetaBatch {
  const DataOptions& data;
  ProcessMesh mesh = {};
  Device host;
  std::int64_t parts = 1;
  std::int64_t segments = 1;  // of a stream, one after another
  bool resets_state = false;
  std::optional<BatchShape> shape = {};  // of examples; none: a full batch of the longest
};

// What the keys say of a task's batches.
struct BatchDescription {
  std::string text;          // "8 streams of 256 tokens"
  std::string keys;          // that make them smaller: "data.seq_length, data.global_batch_size"
  std::int64_t counted = 0;  // about what the loss of one is divided by; 0: not known
  std::string counted_keys = {};  // that say so: "data.global_batch_size x data.seq_length"
};

// A trained model on data that it did not learn.
struct EvaluateRequest {
  const Model& model;
  const Tokenizer& tokenizer;
  const LabelSet& labels;                // of classes or tags
  std::optional<ImageShape> image = {};  // of the images that it learnt
  const DataOptions& data;
  ConfigPath file;
  ConfigPath target;  // as data.train_target
  TranslateOptions decoding = {};
  ProgressCallback listener = {};                    // hears of files that are read
  std::function<void(const std::string&)> say = {};  // hears how far it is
  double say_every = 20;                             // seconds
};

// Lines that a trained model is to do something with.
struct PredictRequest {
  const Model& model;
  const Tokenizer& tokenizer;
  const LabelSet& labels;                // of classes or tags
  std::optional<ImageShape> image = {};  // of the images that it learnt
  const DataOptions& data;
  std::span<const std::string> lines;
  TranslateOptions decoding = {};
  std::function<std::string(std::size_t)> place;     // of a line, for messages
  std::function<void(const std::string&)> say = {};  // hears how far it is
  // Called after each batch of lines, on every rank. What it throws ends the work.
  std::function<void()> after_batch = {};
};

// Images that a trained model is to make.
struct ImageGenerationRequest {
  const Model& model;
  const LabelSet& labels;
  ImageShape image;          // of the images that it learnt
  std::int64_t samples = 1;  // how many
  // Names of their classes, in turn; empty: all in turn, where the model knows classes.
  std::vector<std::string> classes = {};
  std::string complete = {};  // a file with images whose lower half is made anew; empty: none
  SamplingOptions sampling = {};
  std::uint64_t seed = 0;
};

// A figure of a validation that says how good the model is.
struct ValidationMetric {
  std::string figure;
  bool more_is_better = true;
};

struct TaskSpec {
  std::string name;              // run.task
  std::string documentation;     // one line
  bool has_labels = false;       // its readout has labels, and no vocabulary
  bool is_policy = false;        // labels are actions, and the model makes its batches itself
  bool reads_streams = false;    // data.global_batch_size streams in steps of data.seq_length
  bool takes_documents = false;  // TaskContext::documents
  bool has_samples = false;      // Task::samples
  // What keeps it from the files that the options name, as a sentence; empty where nothing does.
  std::function<std::string(const DataOptions&)> problem;
  OutputHeadFactory readout;
  // The ids that a model has for what the tokenizer makes.
  std::function<std::int64_t(const Tokenizer&, const DataOptions&)> vocabulary;
  // At most so many more than the tokenizer has; empty: none.
  std::function<std::int64_t(const DataOptions&)> extra_ids = {};
  // The classes that its data have, read by this rank alone; empty: it has none. Throws DataError.
  std::function<std::int64_t(const DataOptions&, const ProgressCallback&)> planned_classes = {};
  // Throws DataError, and what the listener throws.
  std::function<std::unique_ptr<Task>(const TaskContext&)> open;
  std::function<Batch(const MetaBatch&)> meta_batch;
  // Those that a validation may have; `decoded_goals` only where
  // training.validation.num_decoded_examples is not 0.
  std::vector<ValidationMetric> goals = {};
  std::vector<ValidationMetric> decoded_goals = {};
  std::function<BatchDescription(const DataOptions&)> words;
  // Of examples: whether they are pairs.
  bool has_pairs = false;
  // As Task::batches of a run of that seed, read by this rank alone; none where the data are not
  // there, or cannot be read before the run has made something of them. Throws DataError.
  std::function<std::vector<BatchShape>(
      const DataOptions&, std::uint64_t seed, const ProgressCallback&)>
      planned_batches = {};
  // The shape of the images of data.train, read by this rank alone. Throws DataError.
  std::function<std::optional<ImageShape>(const DataOptions&, const ProgressCallback&)>
      planned_image = {};
  // Of tasks that are no streams.
  std::function<Measurement(const EvaluateRequest&)> evaluate = {};
  // The lines that come of lines.
  std::function<std::vector<std::string>(const PredictRequest&)> write = {};
  // Images; of those that are completed each after what it was. Throws DataError and
  // ConfigurationError. Collective.
  std::function<std::vector<PngImage>(const ImageGenerationRequest&)> generate_images = {};
};

// In the order of the help. A new task is a line in registry.cpp.
std::span<const TaskSpec> task_kinds();
// What a model of the task is to be planned for, before a run has opened the data. Throws
// DataError.
DataSizes planned_ids(const TaskSpec& kind,
                      const DataOptions& data,
                      std::uint64_t seed,
                      const ProgressCallback& listener);
// Throws Failure where there is none.
const TaskSpec& task_kind(std::string_view name);

}  // namespace longspan
