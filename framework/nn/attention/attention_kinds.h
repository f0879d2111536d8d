// The attention kinds by name, and which layer and head has which.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/nn/attention/attention_kind.h"
#include "framework/nn/attention/compressed_attention.h"
#include "framework/nn/attention/image_attention.h"
#include "framework/nn/attention/linformer_attention.h"
#include "framework/nn/attention/lsh_attention.h"
#include "framework/nn/attention/pattern.h"
#include "framework/nn/attention/random_feature_options.h"
#include "framework/nn/attention/routing_attention.h"
#include "framework/nn/attention/sinkhorn_attention.h"
#include "framework/nn/attention/synthesizer_attention.h"
#include "framework/options/options.h"

namespace longspan {

// model.attention.local_1d, of Image Transformers (tensor2tensor).
struct Local1dOptions {
  std::int64_t filter_width = 127;  // keys before a block, in an encoder as many after it
  std::int64_t block_length = 128;
};

// The section model.attention.
//
// `kinds` has an element for each layer and is repeated to the number of layers. In an element `/`
// divides the heads, head h taking the part h modulo their number, and `+` unites kinds in one
// softmax: the three ways of Child et al. 2019 are [sliding_window, strided],
// [sliding_window/strided] and [sliding_window+strided]. A layer of a kind that is an operation of
// its own has nothing else.
struct AttentionOptions {
  std::vector<std::string> kinds = {"full"};
  std::vector<std::string> encoder_kinds = {};  // in their place, in the encoder of a pair
  std::vector<std::int64_t> sliding_window = {
      128};  // keys with the query itself, of all layers or of each
  Local1dOptions local_1d = {};
  std::int64_t dilation = 2;
  std::int64_t stride = 128;
  std::int64_t summary = 32;
  std::int64_t summary_groups = 1;
  bool self = true;
  std::vector<std::int64_t> global = {0};
  bool global_projections = false;
  std::int64_t random = 0;
  std::int64_t block = 64;
  std::int64_t seed = 0;
  LshOptions lsh = {};
  RandomFeatureOptions features = {};
  LinformerOptions linformer = {};
  RoutingOptions routing = {};
  SinkhornOptions sinkhorn = {};
  SynthesizerOptions synthesizer = {};
  CompressedOptions compressed = {};
  ImageBlockOptions image = {};
  // Kinds of someone else's, beside those of the library: `kinds` may name them. Their names are
  // others than the library's, without / + and ,. They are in no configuration file; their keys are
  // members of theirs. Whether layers have other weights is told of a configuration's text, which
  // knows none of them: a checkpoint of such a model is not refused by another kind's model for its
  // model.attention.layer_types, but only where names or shapes of weights differ.
  std::vector<AttentionKind> added = {};
};

// What is set and no layer reads is a warning of the table: model.attention.layer_types may be
// another one on the command line. in_weights: what of model.attention.layer_types, as it is
// written, fixes a model's weights.
void declare(OptionTable& table,
             AttentionOptions& options,
             std::function<std::string(const std::string&)> in_weights);

// Every kind with what it sees, for the reference.
std::string describe_kinds();

// Whether some heads of some layer have the kind.
bool has_kind(const AttentionOptions& options, std::string_view name);

// The kind of a layer where it is a mechanism of its own and no pattern, otherwise nothing.
const AttentionKind* attention_kind(const AttentionOptions& options, std::int64_t layer);

// The keys of the section model that mechanisms read, each with the names of those that do.
std::vector<std::pair<std::string, std::vector<std::string>>> kinds_by_key();

// The first kind whose layers cannot read on from kept keys; nothing where all can.
const AttentionKind* first_kind_without_kv_cache(const AttentionOptions& options);
inline bool reads_on(const AttentionOptions& options) {
  return first_kind_without_kv_cache(options) == nullptr;
}

// Positions of the longest sequence that every layer is made for, where the training data's has
// `segment`; 0: of any.
std::int64_t longest_sequence_of(const AttentionOptions& options, std::int64_t segment);
// The shorter of two such lengths.
std::int64_t shorter_of(std::int64_t a, std::int64_t b);

// Whether any layer has probabilities, which model.attention.dropout drops.
bool has_probabilities(const AttentionOptions& options);

// The first kind that knows no distances between tokens, so that it does not go with relative
// positions; nothing where all do.
const AttentionKind* first_kind_without_relative_positions(const AttentionOptions& options);

// The same of rotary positions.
const AttentionKind* first_kind_without_rotary(const AttentionOptions& options);

// Whether global positions of a layer have projections of their own.
bool projects_global(const AttentionOptions& options, std::int64_t layer);

// What the options are asked for.
struct AttentionBuildOptions {
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  std::int64_t dim = 1;  // of a head
  std::int64_t width = 1;
  double dropout = 0;        // of the attention probabilities
  bool memory = false;       // the model remembers earlier segments: positions are not absolute
  std::int64_t segment = 0;  // positions of the training data's sequences; 0: not known
  bool causal = true;        // otherwise windows reach as far behind a query as before it, and
                             // every kind sees both sides
  bool documents = false;    // rows hold documents that do not look at each other
  bool examples = false;  // data.max_length says how long sequences are, otherwise data.seq_length:
                          // then batches are padded
  // Of a model of pixels: those of an image, in the order in which they are predicted.
  std::optional<ImageGrid> image = {};
  MeshShape mesh = {};
  DType compute = DType::f64;
};

// What is wrong with the options, as one sentence; nothing where they can be.
std::string problem_of(const AttentionOptions& options, const AttentionBuildOptions& setting);

// Of model.attention.layer_types as it is written in a configuration: the layers whose weights are
// others than a causal layer's.
std::string layers_of_other_weights(std::string_view kinds,
                                    std::int64_t layers,
                                    bool global_projections);

// The keys that the heads of a model see in each layer, as far as its own mask lets them; all,
// where the kind is a mechanism of its own. Throws ConfigurationError with problem_of.
std::vector<AttentionPattern> attention_patterns(const AttentionOptions& options,
                                                 const AttentionBuildOptions& setting);

}  // namespace longspan
