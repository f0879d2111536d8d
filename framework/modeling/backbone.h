// What a family is: fields, what rows carry and a pass in; hidden states and what rows carry out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/batching/batch_shape.h"
#include "framework/modeling/cross_attention_weights.h"
#include "framework/modeling/label_readout_options.h"
#include "framework/modeling/loss_term.h"
#include "framework/modeling/model_input.h"
#include "framework/modeling/non_autoregressive.h"
#include "framework/modeling/pixel_sequence.h"
#include "framework/modeling/policy_options.h"
#include "framework/modeling/scheduled_sampling.h"
#include "framework/nn/embedding.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/layers.h"
#include "framework/nn/memory_options.h"
#include "framework/nn/parameters.h"

namespace longspan {

struct BackboneOutput {
  Variable hidden = {};         // [rows, time, width] of the positions that `time` gives this rank
  SequenceShard time = {};      // of all positions of `hidden`
  RecurrentState carried = {};  // for the next batch; `all` may be left to the model
  // What the body has of them beside its readout's.
  std::vector<LossTerm> terms = {};
  std::vector<AuxiliaryMetric> watched = {};
  CrossAttentionWeights cross_attention_weights = {};  // where OutputHeadSpec::source asks for it
  // With OutputHeadSpec::masked, what the decoder looks at.
  std::vector<EncoderOutput> encoder_outputs = {};
};

// How they are, and what they are read and said by.
struct NatTargets : NatOptions {
  std::int64_t mask = -1;                // the id that stands for a word which is to be said
  std::int64_t encoder_hidden_size = 0;  // of the encoder
};

// What stands between the body and its readout, and what the readout is to be made like.
struct OutputHeadSpec {
  std::int64_t width = 0;                // of the hidden states
  std::optional<Initializer> norm = {};  // of the gain of a norm; none: there is no norm
  NormOptions norm_form = {};
  double dropout = 0;                    // after it
  bool bias = false;                     // of the readout
  double logit_scale = 1;                // of a readout of words (LMHead)
  std::optional<double> logit_cap = {};  // likewise
  Initializer initial = {};              // of its weights
  Weight table = nullptr;                // of the embedding, where the readout is to share it
  TaggingHeadType tags = TaggingHeadType::softmax;  // of a readout of tags
  Pooling pooling = Pooling::first;                 // of a readout of classes
  bool class_layer = false;                         // likewise: it has a layer of its own
  CrossAttentionLossOptions source = {};            // of a readout of pairs
  std::int64_t embedding_width = 0;                 // of CrossAttentionWeights::embedding
  std::optional<NatTargets> masked = {};            // where all words of a target are said at once
  std::optional<PixelSequence> pixels = {};         // of a readout of pixels
  bool reads_classes = false;                       // the field `label` is read with the pixels
  std::int64_t mixtures = 0;  // of logistics that a pixel is drawn from; 0: categories of values
};

class Backbone {
 public:
  virtual ~Backbone() = default;

  // `pass` says which positions of the reading's time and of what it carries this rank has. With
  // `pass.kept` the reading goes on behind what is kept there.
  virtual BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const = 0;

  // The batch as the body reads it. `random`: of a step of training; none: without training.
  virtual Batch prepared(const Batch& batch, const std::optional<Random>& /*random*/) const {
    return batch;
  }

  // What Reading::guessed has: the scaled embeddings [n, width] of weights [n, this rank's part of
  // the vocabulary]. Collective over the tensor ranks. Nothing is recorded.
  virtual Tensor mixed_embeddings(const Tensor& /*weights*/) const {
    throw Failure("this family reads no mean of embeddings");
  }

  // Whether it can read on from kept keys (Pass::kept), a few positions at a time.
  virtual bool supports_kv_cache() const { return false; }

  // How many positions a reading has: with fields of pixels fewer than columns where a position
  // reads several values.
  virtual std::int64_t time_of(const ModelInput& reading) const { return reading.time(); }

  virtual OutputHeadSpec end() const = 0;
  // Ids that it reads.
  virtual std::int64_t vocabulary() const = 0;
  // The longest sequence that it can read; 0: any.
  virtual std::int64_t longest_segment() const { return 0; }
  // The memory that training keeps, and the tensors that are carried with it; none for a body
  // without.
  virtual std::int64_t longest_memory() const { return 0; }
  virtual std::vector<std::string> recurrent_state_names() const { return {}; }
  // What it tells of its weights as they are now: by name, in metrics. Collective over the ranks
  // that share the weights.
  virtual std::vector<std::pair<std::string, double>> metric_values() const { return {}; }
};

// What the data of a task have.
struct DataSizes {
  // A vocabulary alone is that of a task without classes.
  DataSizes(std::int64_t ids, std::int64_t labels = 0) : vocabulary(ids), classes(labels) {}

  std::int64_t vocabulary = 0;  // ids that the model has for what the tokenizer makes
  std::int64_t classes = 0;     // or tags
  // Of the batches of an epoch, where the data are separate examples and known: for plans.
  std::vector<BatchShape> batches = {};
  std::optional<ImageShape> image = {};  // of images the shape, which all have
};

// What a model is built for.
struct ModelBuildOptions {
  std::int64_t vocabulary = 0;  // as in DataSizes
  std::int64_t classes = 0;
  bool is_policy = false;        // classes are actions; it reads what came of the last one too
  std::int64_t segment = 0;      // of the training data
  bool documents_apart = false;  // its rows hold documents that do not look at each other
  DType compute = DType::f32;
  Device device;          // of weights and passes: Device::cpu(), or a GPU; it has no default
  ProcessMesh mesh = {};  // of one rank where nothing is said
  Random random{0};       // of the initial weights
  MemoryOptions memory = {};
  ZeroOptions sharing = {};
  bool separate_masters = false;         // see Parameters
  FineTuning tuning = {};                // what of it is trained
  LabelSmoothing smoothing = {};         // of targets, in training
  ScheduledSampling sampling = {};       // of inputs, in training
  PolicyOptions policy = {};             // of actions, in training
  std::optional<ImageShape> image = {};  // as in DataSizes
  // Of training as it is planned. 0: it is not to be trained, and needs nothing that only training
  // reads.
  std::int64_t steps = 0;
};

// What a configuration says of it, for checks over keys of other sections too, which are declared
// before: no vocabulary, and of the mesh the shape. Asked for when all keys are read. Empty where
// the keys of a family are alone in a table.
using PlannedBuildOptions = std::function<ModelBuildOptions()>;

using BackboneFactory =
    std::function<std::unique_ptr<Backbone>(const Scope&, const ModelBuildOptions&)>;

}  // namespace longspan
