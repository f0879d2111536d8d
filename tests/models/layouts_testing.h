// Trains a model on a layout and on one process, and compares the results.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::testing {

// Largest deviations from one process, relative to the largest value.
struct Bounds {
  double losses = 1e-9;
  double gradients = 1e-9;  // and their norms
  double weights = 1e-9;    // after the last step
};

struct Case {
  std::string name = {};
  std::function<std::unique_ptr<Model>(const ModelBuildOptions&)> make = {};
  std::int64_t accumulation = 1;
  int zero = 0;
  MemoryOptions memory = {};
  std::int64_t segment = 5;
  std::int64_t streams = 4;
  int steps = 5;
  DType compute = DType::f64;
  Bounds bounds = {};
  std::optional<Device> device = {};  // none: backend_device()
  std::int64_t classes = 0;
  // Makes the rows of the batch of a step; empty: streams.
  std::function<Batch(int step, const StreamRange& rows)> batch = {};
  LabelSmoothing smoothing = {};
  OptimizerOptions optimizer = {.weight_decay = 0.1};
  double learning_rate = 0.01;
  bool separate_masters = false;  // see Parameters
  FineTuning tuning = {};
  std::optional<ImageShape> image = {};

  ModelBuildOptions setting(const ProcessMesh& mesh) const {
    return {.vocabulary = vocabulary,  // does not divide by the ranks
            .classes = classes,
            .segment = segment,
            .compute = compute,
            .device = device.value_or(backend_device()),
            .mesh = mesh,
            .random = Random(1).child("weights"),
            .memory = memory,
            .sharing = {.zero = zero, .bucket_megabytes = 0.001},  // many buckets
            .separate_masters = separate_masters,
            .tuning = tuning,
            .smoothing = smoothing,
            .image = image};
  }
};

// Dropout everywhere; the tensor ranks divide the four heads.
inline ModelOptions dropped_options(NormPosition norm) {
  return {.layers = 2,
          .width = 12,
          .heads = 4,
          .feed_forward = 18,
          .activation = norm == NormPosition::pre ? FeedForwardActivation::gelu_tanh
                                                  : FeedForwardActivation::relu,
          .norm = norm,
          .dropout = 0.2,
          .attention_dropout = 0.15,
          .initial_deviation = 0.1};
}

inline Batch batch_of(const Case& c, int step, const StreamRange& range) {
  const std::int64_t segment = c.segment;
  Batch batch =
      batch_of_rows(random_ids(c.streams, segment + 1, static_cast<std::uint64_t>(step)), range);
  const Tensor& targets = batch.field("targets");
  // The last stream ends within step 1: ranks have different numbers of targets.
  for (std::int64_t row = 0; row < range.count(); ++row)
    if (range.begin + row == c.streams - 1 && step == 1)
      std::fill_n(targets.data<std::int64_t>() + row * segment + 2, 3, ignored_target);
  batch.resets_state = step == 0;
  batch.counts["tokens"] = std::ranges::count_if(targets.span<std::int64_t>(),
                                                 [](std::int64_t target) { return target >= 0; });
  return batch;
}

// Results of a run: local pieces of the parameters, and the owned shards of the gradients.
struct Trained {
  Values losses;
  Values norms;
  Values watched;
  std::vector<Values> first_gradients;  // one per parameter
  std::vector<Values> last_weights;
  std::vector<Values> centroids;  // after the last step
  std::vector<Values> power;      // after the last step; two per norm
  // Names and pieces of the values above. Empty in the result of another rank.
  std::vector<std::shared_ptr<Parameter>> parameters;
  std::vector<std::shared_ptr<EmaCentroids>> centroid_pieces;
  std::vector<std::string> power_names;
};

inline std::unique_ptr<Trainer> trainer_of(const Case& c, const ProcessMesh& mesh) {
  TrainingOptions options;
  options.steps = c.steps;
  options.learning_rate = c.learning_rate;
  options.optimizer = c.optimizer;
  options.clip_norm = 0.5;  // active
  options.accumulation = c.accumulation;
  return std::make_unique<Trainer>(c.make(c.setting(mesh)), options, Random(1).child("steps"));
}

// The streams of this rank.
inline StreamRange streams_of(const Case& c, const ProcessMesh& mesh) {
  return streams_of_rank(c.streams, mesh.data.rank(), mesh.data.size(), "data.global_batch_size");
}

inline Trained train(const Case& c, const ProcessMesh& mesh) {
  const std::unique_ptr<Trainer> made = trainer_of(c, mesh);
  Trainer& trainer = *made;
  const StreamRange range = streams_of(c, mesh);
  Trained run;
  for (int step = 0; step < c.steps; ++step) {
    StepRequest request;
    // The update consumes the gradients.
    if (step == 0)
      request.before_update = [&] {
        for (const auto& parameter : trainer.model().parameters().all())
          run.first_gradients.push_back(parameter->frozen ? Values()
                                                          : values_of(parameter->shard_gradient));
      };
    const StepResult result =
        trainer.step(c.batch ? c.batch(step, range) : batch_of(c, step, range), request);
    EXPECT_FALSE(result.skipped);
    run.losses.push_back(result.loss);
    run.norms.push_back(result.gradient_norm);
    for (const AuxiliaryMetricResult& watched : result.watched)
      run.watched.insert(run.watched.end(), {watched.mean, watched.largest});
    if (step + 1 == c.steps)
      for (const auto& parameter : trainer.model().parameters().all())
        run.last_weights.push_back(values_of(parameter->compute));
  }
  run.parameters = trainer.model().parameters().all();
  run.centroid_pieces = trainer.model().parameters().centroids();
  for (const auto& piece : run.centroid_pieces)
    run.centroids.push_back(values_of(piece->centroids));
  for (const auto& statistics : trainer.model().parameters().power_statistics())
    for (std::size_t j = 0; j < 2; ++j) {
      run.power_names.push_back(statistics->saved()[j].first);
      run.power.push_back(values_of(statistics->saved()[j].second));
    }
  return run;
}

// Calls action(list) for each list of values of a run.
template <typename Run, typename Action>
void for_each_list(Run& run, const Action& action) {
  for (auto* list : {&run.first_gradients, &run.last_weights, &run.centroids, &run.power})
    action(*list);
}

// The values of a run as bytes: the number of values, then the values.
inline std::string to_bytes(const Trained& run) {
  std::string bytes;
  const auto add = [&](const void* from, std::size_t size) {
    bytes.append(static_cast<const char*>(from), size);
  };
  const auto add_values = [&](const Values& values) {
    const std::size_t count = values.size();
    add(&count, sizeof count);
    add(values.data(), count * sizeof(double));
  };
  for (const Values* values : {&run.losses, &run.norms, &run.watched}) add_values(*values);
  for_each_list(run, [&](const std::vector<Values>& list) {
    const std::size_t count = list.size();
    add(&count, sizeof count);
    for (const Values& values : list) add_values(values);
  });
  return bytes;
}

// Reads a run at the beginning of `bytes` and removes it from them.
inline Trained from_bytes(std::string_view& bytes) {
  Trained run;
  const auto take = [&](void* to, std::size_t size) {
    std::memcpy(to, bytes.substr(0, size).data(), size);
    bytes.remove_prefix(size);
  };
  const auto count = [&] {
    std::size_t found = 0;
    take(&found, sizeof found);
    return found;
  };
  const auto read_values = [&](Values& values) {
    values.resize(count());
    take(values.data(), values.size() * sizeof(double));
  };
  for (Values* values : {&run.losses, &run.norms, &run.watched}) read_values(*values);
  for_each_list(run, [&](std::vector<Values>& list) {
    list.resize(count());
    for (Values& values : list) read_values(values);
  });
  return run;
}

// Trains each case on one process. Collective: the ranks divide the cases and exchange the results.
inline std::vector<Trained> train_on_one_process(const std::vector<Case>& cases) {
  const auto ranks = static_cast<std::size_t>(world().size());
  const auto own_rank = static_cast<std::size_t>(world().rank());
  std::string own;
  try {
    for (std::size_t i = own_rank; i < cases.size(); i += ranks)
      own += to_bytes(train(cases[i], ProcessMesh()));
  } catch (const std::exception& error) {
    ADD_FAILURE() << "exception: " << error.what();
    own.clear();
  }
  const std::vector<std::string> all = world().all_gather(own);
  std::vector<std::string_view> left(all.begin(), all.end());
  std::vector<Trained> results;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::string_view& bytes = left[i % ranks];
    // Empty after an exception: every comparison fails.
    results.push_back(bytes.empty() ? Trained() : from_bytes(bytes));
  }
  return results;
}

// This rank's piece of the values of a full parameter.
inline Values piece_of(const Values& whole, const Parameter& parameter) {
  if (!parameter.split()) return whole;
  std::int64_t inner = 1;
  for (int axis = parameter.split_axis + 1; axis < parameter.global_shape.dimensions(); ++axis)
    inner *= parameter.global_shape[axis];
  const std::int64_t run = inner * parameter.part.count;
  Values piece;
  for (std::int64_t begin = parameter.part.begin * inner; begin < std::ssize(whole);
       begin += inner * parameter.part.total)
    piece.insert(piece.end(), whole.begin() + begin, whole.begin() + begin + run);
  return piece;
}

// Largest difference relative to the largest value, which counts as at least 1e-3: gradients of key
// biases are 0 up to rounding.
inline double deviation(const Values& found, const Values& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double largest = 1e-3;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double by = std::abs(found[i] - expected[i]);
    if (std::isnan(by)) return by;
    difference = std::max(difference, by);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

// The first value beyond its bound; one message per run, since hundreds may differ.
inline std::string difference(const Trained& found, const Trained& expected, const Bounds& bounds) {
  std::string first;
  const auto compare =
      [&](const std::string& what, const Values& values, const Values& reference, double bound) {
        const double by = deviation(values, reference);
        if (first.empty() && !(by <= bound)) first = fmt::format("{} differ by {:.2g}", what, by);
      };
  compare("losses", found.losses, expected.losses, bounds.losses);
  compare("gradients' norms", found.norms, expected.norms, bounds.gradients);
  compare("what is watched", found.watched, expected.watched, bounds.losses);
  if (found.parameters.size() != expected.first_gradients.size() ||
      found.centroids.size() != expected.centroids.size() ||
      found.power.size() != expected.power.size())
    return "other parameters";
  for (std::size_t i = 0; i < found.parameters.size(); ++i) {
    const Parameter& parameter = *found.parameters[i];
    bool is_rounding = false;
    if (!parameter.frozen) {
      const Values gradient = piece_of(expected.first_gradients[i], parameter);
      compare("gradients of " + parameter.name,
              found.first_gradients[i],
              {gradient.begin() + parameter.shard_begin, gradient.begin() + parameter.shard_end},
              bounds.gradients);
      // Some gradients are rounding only, such as those of key biases, and the optimizer divides
      // them by a similar number. Exact zeros are compared.
      double largest = 0;
      for (const double part : expected.first_gradients[i])
        largest = std::max(largest, std::abs(part));
      is_rounding = largest > 0 && largest < 1e-12;
    }
    compare("weights of " + parameter.name,
            found.last_weights[i],
            piece_of(expected.last_weights[i], parameter),
            is_rounding ? 10 * bounds.weights : bounds.weights);
  }
  for (std::size_t i = 0; i < found.centroids.size(); ++i) {
    const EmaCentroids& piece = *found.centroid_pieces[i];
    const Values& whole = expected.centroids[i];
    const std::int64_t begin =
        piece.head_begin * piece.centroids.elements() / piece.centroids.shape()[0];
    const std::int64_t end = begin + piece.centroids.elements();
    if (end > std::ssize(whole)) return "other centroids";
    compare(piece.name,
            found.centroids[i],
            {whole.begin() + begin, whole.begin() + end},
            bounds.weights);
  }
  for (std::size_t i = 0; i < found.power.size(); ++i)
    compare(found.power_names[i], found.power[i], expected.power[i], bounds.weights);
  return first;
}

inline void expect_same_training(const Case& c, const Trained& expected, const ProcessMesh& mesh) {
  EXPECT_EQ(difference(train(c, mesh), expected, c.bounds), "") << c.name;
}

}  // namespace longspan::testing
