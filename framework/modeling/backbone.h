// Interface of a backbone: maps fields and recurrent state to hidden states and new recurrent
// state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/data/batching/batch_plan.h"
#include "framework/data/sequence_level_options.h"
#include "framework/modeling/label_readout_options.h"
#include "framework/modeling/model_input.h"
#include "framework/modeling/non_autoregressive.h"
#include "framework/modeling/pixel_sequence.h"
#include "framework/modeling/policy_options.h"
#include "framework/modeling/scheduled_sampling.h"
#include "framework/modeling/seq2seq_losses.h"
#include "framework/nn/embedding.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/layers.h"
#include "framework/nn/memory_options.h"
#include "framework/nn/parameters.h"

namespace longspan {

// A loss term: weight x the sum of `values` over all ranks, divided by the batch's count of that
// name over all ranks.
struct LossTerm {
  std::string name;
  Variable values;    // accumulator dtype, on this context rank; any shape
  std::string count;  // name of a batch count: "tokens"; empty: `values` are equal on every rank
                      // and in every microbatch, and count once
  double weight = 1;
};

// A per-position metric that is not a loss, such as the number of steps. The sum covers this
// context rank and is equal on its tensor ranks. The mean divides by the batch's count of that
// name.
struct AuxiliaryMetric {
  std::string name;
  double sum = 0;
  double largest = 0;
  std::string count;
  // Sum over the rows that reach a position, and their number. Available per position of the
  // sequence in passes without training.
  struct At {
    double sum = 0;
    double rows = 0;
  };
  std::vector<At> at = {};
};

struct BackboneOutput {
  Variable hidden = {};         // [rows, time, width], this rank's positions of `time`
  SequenceShard time = {};      // all positions of `hidden`
  RecurrentState carried = {};  // for the next batch; the model fills in `all` if it is empty
  // Loss terms and metrics of the backbone itself, without those of the output head.
  std::vector<LossTerm> terms = {};
  std::vector<AuxiliaryMetric> watched = {};
  CrossAttentionWeights cross_attention_weights = {};  // where OutputHeadSpec::source requires it
  // With OutputHeadSpec::masked: the encoder outputs that the decoder attends to.
  std::vector<EncoderOutput> encoder_outputs = {};
};

// Non-autoregressive options with what the decoder needs to read and predict targets.
struct NatTargets : NatOptions {
  std::int64_t mask = -1;  // id of the mask token, which replaces a token to predict
  std::int64_t encoder_hidden_size = 0;
};

// Configuration of the output head.
struct OutputHeadSpec {
  std::int64_t width = 0;                // of the hidden states
  std::optional<Initializer> norm = {};  // of the norm's gain; none: no norm
  NormOptions norm_form = {};
  double dropout = 0;                    // after the norm
  bool bias = false;                     // of the output head
  double logit_scale = 1;                // of a language-modeling head (LMHead)
  std::optional<double> logit_cap = {};  // of a language-modeling head
  Initializer initial = {};              // of the output head's weights
  Weight table = nullptr;                // embedding table, where the output head is tied to it
  TaggingHeadType tags = TaggingHeadType::softmax;  // of a tagging head
  Pooling pooling = Pooling::first;                 // of a classification head
  bool class_layer = false;                  // of a classification head: it has a hidden layer
  CrossAttentionLossOptions source = {};     // of a sequence-to-sequence head
  std::int64_t embedding_width = 0;          // of CrossAttentionWeights::embedding
  std::optional<NatTargets> masked = {};     // for non-autoregressive decoding
  std::optional<PixelSequence> pixels = {};  // of a pixel head
  bool reads_classes = false;  // the model reads the field `label` together with the pixels
  std::optional<ImageShape> source_image = {};  // the model reads a field `source` of this shape
  std::int64_t mixtures = 0;  // logistic mixture components per pixel; 0: categorical values
};

class Backbone {
 public:
  virtual ~Backbone() = default;

  // `pass` gives this rank's positions of the input's time and of the recurrent state. With
  // `pass.kv_cache`, decoding continues after the positions in the KV cache, or the pass reads its
  // chunk of the input.
  virtual BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const = 0;

  // Returns the batch as the backbone reads it. `random`: of a training step; none outside
  // training.
  virtual Batch prepared(const Batch& batch, const std::optional<Random>& /*random*/) const {
    return batch;
  }

  // Collective over the tensor ranks. Returns the scaled mean embeddings [n, width] of weights [n,
  // this rank's shard of the vocabulary] (ModelInput::soft_embeddings). Records no gradient.
  virtual Tensor mixed_embeddings(const Tensor& /*weights*/) const {
    throw Failure("this family does not support mean embeddings as decoder input");
  }

  // Whether it can decode incrementally from a KV cache (ForwardContext::kv_cache), a few positions
  // at a time.
  virtual bool supports_kv_cache() const { return false; }

  // Returns the setting that requires whole sequences, "key: value". Empty if training can read
  // them in chunks (memory.bptt_chunk_length).
  virtual std::string whole_sequence_setting() const { return "this model family"; }
  // Returns the encoder outputs that all chunks attend to (ModelInput::encoder_outputs). Empty
  // without an encoder.
  virtual std::vector<EncoderOutput> encode(const ModelInput& /*reading*/,
                                            const ForwardContext& /*pass*/) const {
    return {};
  }

  // Returns the number of positions. It is below the number of pixel columns where one position
  // reads several values.
  virtual std::int64_t time_of(const ModelInput& reading) const { return reading.time(); }

  virtual OutputHeadSpec end() const = 0;
  // Number of input ids.
  virtual std::int64_t vocabulary() const = 0;
  // The longest sequence that it supports; 0: unlimited.
  virtual std::int64_t max_segment_length() const { return 0; }
  // Memory length (`mem_len`) in training and the names of the recurrent state tensors; none
  // without recurrent state.
  virtual std::int64_t max_mem_len() const { return 0; }
  virtual std::vector<std::string> recurrent_state_names() const { return {}; }
  // Returns whether layers with a recurrent state continue from the stream's previous segment.
  virtual bool is_stateful() const { return false; }
  // Collective over the ranks that share the weights. Returns metrics of the current weights, by
  // name.
  virtual std::vector<std::pair<std::string, double>> metric_values() const { return {}; }
};

// Sizes of a task's data.
struct DataSizes {
  // For a task without classes.
  DataSizes(std::int64_t ids, std::int64_t labels = 0) : vocabulary(ids), classes(labels) {}

  std::int64_t vocabulary = 0;  // ids of the tokenizer
  std::int64_t classes = 0;     // or tags
  // Batch shapes of an epoch, where the data are separate examples of known size; for memory plans.
  std::vector<BatchShape> batches = {};
  std::optional<ImageShape> image = {};  // the common shape of all images
};

// Settings for building a model.
struct ModelBuildOptions {
  std::int64_t vocabulary = 0;  // as in DataSizes
  std::int64_t classes = 0;
  bool is_policy = false;    // classes are actions; the model also reads the previous action and
                             // reward
  std::int64_t segment = 0;  // segment length of the training data
  bool documents_apart = false;  // rows hold several documents that must not attend to each other
  DType compute = DType::f32;
  Device device;          // of weights and computation; Device::cpu() or a GPU, without a default
  ProcessMesh mesh = {};  // default: one rank
  Random random{0};       // for weight initialization
  MemoryOptions memory = {};
  ZeroOptions sharing = {};
  bool separate_masters = false;             // see Parameters
  FineTuning tuning = {};                    // which parameters are trained
  LabelSmoothing smoothing = {};             // of targets, in training
  ScheduledSampling sampling = {};           // of inputs, in training
  SequenceLevelOptions sequence_level = {};  // of candidate outputs, in training
  PolicyOptions policy = {};                 // of actions, in training
  std::optional<ImageShape> image = {};      // as in DataSizes
  // Planned training steps. 0: inference only, without what only training needs.
  std::int64_t steps = 0;
};

// Planned build options from the configuration, for checks that also involve keys of sections
// declared earlier. The vocabulary is 0 where only the data determine it, and the mesh has only its
// shape. Call it after all keys are read. Empty where a table has only the keys of a family.
using PlannedBuildOptions = std::function<ModelBuildOptions()>;

using BackboneFactory =
    std::function<std::unique_ptr<Backbone>(const Scope&, const ModelBuildOptions&)>;

}  // namespace longspan
