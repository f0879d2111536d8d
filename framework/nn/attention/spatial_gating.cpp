// Gating unit over positions (gMLP, Liu et al. 2021).
#include <algorithm>

#include "framework/autograd/sequence_products.h"
#include "framework/autograd/token_mixing.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/token_mixer.h"

namespace longspan {
namespace {

constexpr const char* gmlp = "gmlp";
// As in the published models.
constexpr double gate_norm_epsilon = 1e-5;
// Range of the initial spatial weights times the length: the gate starts as its bias, 1.
constexpr double initial_gate_range = 1e-3;

struct SpatialGatingOptions {
  std::int64_t width = 0;
  std::int64_t hidden = 0;  // both halves
  std::int64_t heads = 1;
  std::int64_t attention = 0;
  std::int64_t longest = 0;
  bool causal = false;
};

// Rows of all positions so far, from which a pass computes its gate, and their sharding.
struct GateRows {
  Variable gate;      // [batch, own keys, this rank's channels], after the norm
  Variable key = {};  // of the attention, [batch, own keys, 1, dim]
  Variable value = {};
  std::optional<SequenceShards> shards = {};
  std::int64_t begin = 0;  // position of the first query
};

// The channels of both halves are split over the tensor ranks.
class SpatialGating : public TokenMixer {
 public:
  SpatialGating(const Scope& scope, const SpatialGatingOptions& options)
      : options_(options),
        mesh_(scope.parameters().mesh()),
        region_(mesh_.tensor),
        half_(scope.part(options.hidden / 2)),
        in_(half(scope.child("in"))),
        gate_(half(scope.child("in_gate"))),
        out_(scope.child("out"),
             {.in = options.hidden / 2, .out = options.width, .split = ParallelMode::rows}),
        norm_weight_(
            scope.child("gate_norm")
                .replicated_weight("weight", {options.hidden / 2}, Initializer::constant(1))),
        norm_bias_(scope.child("gate_norm")
                       .replicated_weight("bias", {options.hidden / 2}, Initializer::constant(0))),
        weight_(scope.replicated_weight(
            "spatial_weight",
            {options.heads, options.longest, options.longest},
            Initializer::uniform(initial_gate_range / static_cast<double>(options.longest)))),
        bias_(scope.replicated_weight(
            "spatial_bias", {options.heads * options.longest}, Initializer::constant(1))) {
    if (options.attention == 0) return;
    attention_ = scope.replicated_weight("attention_query_key_value",
                                         {3 * options.attention, options.width},
                                         Initializer::xavier(options.width, options.attention));
    attention_out_.emplace(
        scope.child("attention_out"),
        Linear::Options{
            .in = options.attention, .out = options.hidden / 2, .split = ParallelMode::columns});
  }

  Variable operator()(const Variable& x,
                      const AttentionContext& context,
                      const ForwardContext& given) const override {
    const ForwardContext pass = given.of_all_rows();
    const Variable inside = region_.enter(x, pass.time);
    const Variable passed = activate(Activation::gelu, in_(inside, pass));
    GateRows rows = {.gate = normed(activate(Activation::gelu, gate_(inside, pass)))};
    Variable query;
    if (attention_) query = projected(inside, rows);
    const AttentionMask mask = with_earlier_rows(rows, context.mask, pass);
    Variable gate = own_positions(
        spatial_gate(gather_positions(rows.gate, rows.shards), this_gate(rows)), rows.shards);
    if (attention_) gate = add(gate, attended(query, rows, mask, pass));
    return out_(gated(Activation::none, gate, passed), pass);
  }

 private:
  Linear half(const Scope& scope) const {
    return Linear(
        scope, {.in = options_.width, .out = options_.hidden / 2, .split = ParallelMode::columns});
  }

  // The norm of all channels: the tensor ranks exchange channels for positions, and back.
  Variable normed(const Variable& x) const {
    const auto norm = [&](const Variable& whole) {
      return layer_norm(whole, norm_weight_->variable, norm_bias_->variable, gate_norm_epsilon);
    };
    if (region_.whole()) return norm(x);
    const Shape& shape = x.shape();
    const int ranks = mesh_.tensor.size();
    std::vector<Ranges> positions;
    for (int rank = 0; rank < ranks; ++rank) {
      const ShardRange part = shard_range(shape[1], rank, ranks);
      positions.push_back({{part.begin, part.begin + part.count}});
    }
    const Variable some =
        heads_to_sequence(reshape(x, {shape[0], shape[1], 1, shape[2]}), positions, mesh_.tensor);
    const Shape& parts = some.shape();
    const Variable y = norm(reshape(some, {parts[0], parts[1], parts[2] * parts[3]}));
    return reshape(sequence_to_heads(reshape(y, parts), positions, mesh_.tensor), shape);
  }

  // Returns the query of the attention, and sets its key and value.
  Variable projected(const Variable& x, GateRows& rows) const {
    const Shape& shape = x.shape();
    const std::int64_t dim = options_.attention;
    const Variable all = reshape(longspan::linear(x, attention_->variable, Variable()),
                                 {shape[0] * shape[1], 3, dim});
    const auto part = [&](std::int64_t i) {
      return reshape(slice_sequence(all, i, 1), {shape[0], shape[1], 1, dim});
    };
    rows.key = part(1);
    rows.value = part(2);
    return part(0);
  }

  // Adds the rows of earlier passes, and returns the mask of the attention.
  AttentionMask with_earlier_rows(GateRows& rows,
                                  const AttentionMask& given,
                                  const ForwardContext& pass) const {
    if (is_causal(given, gmlp, "its weights have absolute positions") != options_.causal ||
        given.max_lookback.defined())
      throw ConfigurationError("layer type gmlp supports only the mask of its model");
    AttentionMask mask = given;
    if (!pass.kv_cache) {
      rows.shards = mixing_shards(mesh_, pass);
      const std::int64_t time = rows.gate.shape()[1];
      const std::int64_t positions = pass.time.total > 0 ? pass.time.total : time;
      check_mixing_length(gmlp, options_.longest, positions);
      if (!options_.causal)
        rows.gate = mask_padding(rows.gate,
                                 pass.time.total > 0 ? pass.time.inside() : Ranges{{0, time}},
                                 given.key_length,
                                 given.key_padding);
      return mask;
    }
    const KVCache& cache = *pass.kv_cache;
    require(!cache.longest() && options_.causal, "a gate does not support a limited KV cache");
    LayerKVCache& layer = pass.kv_cache->layer(pass.random.place());
    const Shape& shape = rows.gate.shape();
    std::vector<Variable> now = {reshape(rows.gate, {shape[0], shape[1], 1, shape[2]})};
    if (attention_) now.insert(now.end(), {rows.key, rows.value});
    std::int64_t end = 0;
    if (cache.sequence()) {
      const ChunkKeys keys = chunk_keys(mesh_, *cache.sequence(), cache.chunk(), std::nullopt);
      now = layer.append_chunk(now, keys.rows);
      if (mesh_.context.size() > 1) rows.shards = keys.shards;
      rows.begin = keys.shards.chunk.begin;
      mask.key_begin = keys.key_begin;
      end = keys.shards.chunk.end;
    } else {
      rows.begin = layer.end();
      layer.append(now);
      end = layer.end();
      for (std::size_t i = 0; i < now.size(); ++i)
        now[i] = slice_sequence(layer.projection(i), 0, end);
    }
    check_mixing_length(gmlp, options_.longest, end);
    mask.query_begin = rows.begin;
    rows.gate = reshape(now[0], {shape[0], now[0].shape()[1], shape[2]});
    if (attention_) {
      rows.key = now[1];
      rows.value = now[2];
    }
    return mask;
  }

  // The weights of the channels that this rank mixes.
  SpatialGate this_gate(const GateRows& rows) const {
    const std::int64_t ranks = rows.shards ? rows.shards->ranks.size() : 1;
    const std::int64_t count = half_.count / ranks;
    const std::int64_t begin = half_.begin + (rows.shards ? rows.shards->ranks.rank() : 0) * count;
    const std::int64_t each = options_.hidden / 2 / options_.heads;
    const std::int64_t head = begin / each, heads = std::max<std::int64_t>(count / each, 1);
    const std::int64_t longest = options_.longest;
    const auto some = [&](const Variable& x, std::int64_t elements) {
      return slice_sequence(reshape(x, {1, options_.heads, elements}), head, heads);
    };
    return {
        .weight = reshape(some(weight_->variable, longest * longest), {heads, longest, longest}),
        .bias = reshape(some(bias_->variable, longest), {heads, longest}),
        .causal = options_.causal,
        .begin = rows.begin};
  }

  Variable attended(const Variable& query,
                    const GateRows& rows,
                    const AttentionMask& mask,
                    const ForwardContext& pass) const {
    const Variable y = attend(
        {.query = query, .key = rows.key, .value = rows.value, .heads = {}, .shares = rows.shards},
        mask,
        {},
        {});
    const Shape& shape = y.shape();
    return (*attention_out_)(reshape(y, {shape[0], shape[1], shape[3]}), pass);
  }

  SpatialGatingOptions options_;
  ProcessMesh mesh_;
  TensorParallelRegion region_;
  ShardRange half_;
  Linear in_;
  Linear gate_;
  Linear out_;
  Weight norm_weight_;
  Weight norm_bias_;
  Weight weight_;
  Weight bias_;
  Weight attention_;
  std::optional<Linear> attention_out_;
};

std::int64_t gate_hidden(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  return options.mixing.gate_hidden.value_or(4 * setting.width);
}

std::string validate_gating(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  if (const std::string problem = validate_mixing(gmlp, options, setting, true); !problem.empty())
    return problem;
  constexpr const char* hidden_key = "model.attention.gmlp.hidden_size";
  const std::int64_t hidden = gate_hidden(options, setting), heads = options.mixing.gate_heads;
  if (hidden % (2 * heads) != 0)
    return fmt::format(
        "{}: expected a multiple of 2 x model.attention.gmlp.num_heads = {}, found {}",
        hidden_key,
        heads,
        hidden);
  const std::int64_t ranks = std::int64_t{setting.mesh.tensor} * setting.mesh.context;
  if (const std::string problem =
          validate_channel_sharding(gmlp, hidden_key, hidden / 2, setting.mesh);
      !problem.empty())
    return problem + " features in half of the hidden layer";
  const auto divide = [heads](std::int64_t count) {
    return count % heads == 0 || heads % count == 0;
  };
  // Passes that repeat the sequence divide the channels among the tensor ranks alone.
  if (!divide(ranks) || !divide(setting.mesh.tensor))
    return fmt::format(
        "model.attention.gmlp.num_heads: expected a divisor or a multiple of {} (tensor ranks) "
        "and of {} (tensor and context ranks), found {}",
        setting.mesh.tensor,
        ranks,
        heads);
  return "";
}

}  // namespace

AttentionKind spatial_gating_kind() {
  return {.name = gmlp,
          .sees = "as full, by learned weights of positions that gate the features",
          .alone = "it has no keys",
          .supports_kv_cache = true,
          .turns = true,
          .own_weights = true,
          .has_probabilities = false,
          .longest = longest_mixing,
          .problem = validate_gating,
          .make_mixer = [](const Scope& scope,
                           const AttentionOptions& options,
                           const AttentionBuildOptions& setting) -> std::unique_ptr<TokenMixer> {
            AttentionBuildOptions here = setting;
            here.mesh = scope.parameters().mesh().shape;
            throw_if_error(validate_gating(options, here));
            return std::make_unique<SpatialGating>(
                scope,
                SpatialGatingOptions{.width = setting.width,
                                     .hidden = gate_hidden(options, setting),
                                     .heads = options.mixing.gate_heads,
                                     .attention = options.mixing.gate_attention,
                                     .longest = mixing_length(gmlp, options, setting),
                                     .causal = setting.causal});
          }};
}

}  // namespace longspan
