// Registry of attention types, and their assignment to layers and heads.
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
#include "framework/nn/attention/mamba2_layer.h"
#include "framework/nn/attention/pattern.h"
#include "framework/nn/attention/random_projection.h"
#include "framework/nn/attention/recurrent_layers.h"
#include "framework/nn/attention/routing_attention.h"
#include "framework/nn/attention/rwkv7_layer.h"
#include "framework/nn/attention/sinkhorn_attention.h"
#include "framework/nn/attention/synthesizer_attention.h"
#include "framework/nn/attention/token_mixer.h"
#include "framework/options/options.h"

namespace longspan {

// model.attention.local_1d, as in Image Transformer (tensor2tensor).
struct Local1dOptions {
  std::int64_t filter_width = 127;  // keys before a block; in an encoder also as many after it
  std::int64_t block_length = 128;
};

// Section model.attention.
//
// `kinds` has one element per layer and repeats over the layers. In an element, `/` assigns types
// to heads (head h has part h modulo their number), and `+` combines types in one softmax. The
// three variants of Child et al. 2019 are [sliding_window, strided], [sliding_window/strided] and
// [sliding_window+strided]. A type with its own op cannot be combined with others in a layer.
struct AttentionOptions {
  std::vector<std::string> kinds = {"full"};
  // in place of `kinds` in the encoder of an encoder-decoder
  std::vector<std::string> encoder_kinds = {};
  std::vector<std::int64_t> sliding_window = {
      128};  // keys including the query itself, for all layers or one per layer
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
  std::int64_t convolution_taps = 4;  // of the delta types and mamba2
  Mamba2Options mamba2 = {};
  Rwkv7Options rwkv7 = {};
  TokenMixingOptions mixing = {};
  DeltaRuleOptions delta_rule = {};
  // Custom attention types, which `kinds` may name. Requires names that differ from the built-in
  // ones, without `/`, `+` and `,`. Configuration files do not contain them: their options are
  // members of the type. The weight compatibility check uses only configuration text and therefore
  // ignores them. A checkpoint of another custom type is rejected only if names or shapes of
  // weights differ.
  std::vector<AttentionKind> added = {};
};

// in_weights: returns the part of model.attention.layer_types, as written, that determines the
// weights.
void declare(OptionTable& table,
             AttentionOptions& options,
             std::function<std::string(const std::string&)> in_weights);

// Returns the condition of a key that only these types read: some layer has one of them.
Condition layer_type(std::vector<std::string> kinds);

// Returns every type with the keys it attends to, for the reference.
std::string describe_kinds();

// Returns whether any head of any layer has the type.
bool has_kind(const AttentionOptions& options, std::string_view name);

// Returns the type of a layer that has its own op. Null if the layer has a pattern.
const AttentionKind* attention_kind(const AttentionOptions& options, std::int64_t layer);

// Returns the first type whose layers do not support a KV cache, or null.
const AttentionKind* first_kind_without_kv_cache(const AttentionOptions& options);
inline bool reads_on(const AttentionOptions& options) {
  return first_kind_without_kv_cache(options) == nullptr;
}

// Returns the longest sequence that every layer supports, if training sequences have `segment`
// positions. 0: any length.
std::int64_t max_sequence_length_of(const AttentionOptions& options, std::int64_t segment);
// Returns the shorter of two such lengths.
std::int64_t shorter_of(std::int64_t a, std::int64_t b);

// Returns whether any layer has probabilities, to which model.attention.dropout applies.
bool has_probabilities(const AttentionOptions& options);

// Returns the first type that does not support relative positions, or null.
const AttentionKind* first_kind_without_relative_positions(const AttentionOptions& options);

// As above, for RoPE.
const AttentionKind* first_kind_without_rotary(const AttentionOptions& options);

// Returns whether global positions of a layer have their own projections.
bool projects_global(const AttentionOptions& options, std::int64_t layer);

// Model properties that the options are built for.
struct AttentionBuildOptions {
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  std::int64_t dim = 1;  // per head
  std::int64_t width = 1;
  double dropout = 0;          // on the attention probabilities
  bool value_bias = true;      // the value projection has a bias
  double norm_epsilon = 1e-5;  // of the model's norms
  bool memory = false;         // the model has Transformer-XL memory: positions are not absolute
  std::int64_t segment = 0;    // positions of a training sequence; 0: unknown
  // false: windows extend equally to both sides and every type is bidirectional
  bool causal = true;
  bool documents = false;  // rows contain documents that do not attend to each other
  // sequence length is data.max_length instead of data.seq_length; batches are padded
  bool examples = false;
  // layers may read the values of the first layer: each runs once, without cross-attention, and
  // predicts no pixels
  bool value_residual = true;
  std::int64_t layer = 0;  // index of the layer that is built; only for AttentionKind::make
  // Pixel models: grid of an image, in prediction order.
  std::optional<ImageGrid> image = {};
  MeshShape mesh = {};
  DType compute = DType::f64;
};

// Returns the first error in the options as a message. Otherwise empty.
std::string problem_of(const AttentionOptions& options, const AttentionBuildOptions& setting);

// Returns the layers of model.attention.layer_types, as written in a configuration, whose weights
// differ from those of a causal layer.
std::string layers_of_other_weights(std::string_view kinds,
                                    std::int64_t layers,
                                    bool global_projections);

// Returns the keys that the heads attend to in each layer, before the model's own mask. A type with
// its own op has a full pattern. Throws ConfigurationError with the message of problem_of.
std::vector<AttentionPattern> attention_patterns(const AttentionOptions& options,
                                                 const AttentionBuildOptions& setting);

}  // namespace longspan
