#include "framework/nn/attention/attention.h"

#include <algorithm>

#include "framework/autograd/losses.h"
#include "framework/nn/attention/attention_recorder.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

std::string validate_heads(std::int64_t heads, const MeshShape& mesh) {
  if (heads % mesh.tensor == 0) return "";
  return fmt::format(
      "model.num_attention_heads: expected a multiple of "
      "parallel.tensor_parallel_size = {}, found {}",
      mesh.tensor,
      heads);
}

std::string validate_key_heads(std::int64_t key_heads, std::int64_t heads, const MeshShape& mesh) {
  if (heads % key_heads != 0)
    return fmt::format(
        "model.num_key_value_heads: expected a divisor of model.num_attention_heads = {}, found {}",
        heads,
        key_heads);
  if (key_heads % mesh.tensor == 0) return "";
  return fmt::format(
      "model.num_key_value_heads: expected a multiple of "
      "parallel.tensor_parallel_size = {}, found {}",
      mesh.tensor,
      key_heads);
}

namespace {

ShardRange heads_of(const Scope& scope,
                    const MultiHeadAttention::Options& options,
                    const AttentionOp& mechanism) {
  if (const auto own = mechanism.projection_shape()) return scope.part(own->value_heads);
  throw_if_error(validate_heads(options.heads, scope.parameters().mesh().shape));
  return scope.part(options.heads);
}

ShardRange key_heads_of(const Scope& scope,
                        const MultiHeadAttention::Options& options,
                        const AttentionOp& mechanism) {
  if (const auto own = mechanism.projection_shape()) return scope.part(own->value_heads);
  const std::int64_t key_heads = options.key_heads.value_or(options.heads);
  throw_if_error(validate_key_heads(key_heads, options.heads, scope.parameters().mesh().shape));
  if (mechanism.ties_query_and_key() && key_heads != options.heads)
    throw ConfigurationError(
        "model.num_key_value_heads: {} cannot be combined with an attention "
        "type whose queries and keys share a projection; omit it",
        key_heads);
  return scope.part(key_heads);
}

Linear projection(const Scope& scope,
                  const MultiHeadAttention::Options& options,
                  std::int64_t features,
                  bool bias,
                  std::optional<std::int64_t> in = {}) {
  return Linear(scope,
                {.in = in.value_or(options.width),
                 .out = features,
                 .split = ParallelMode::columns,
                 .bias = bias,
                 .initial = options.initial});
}

// Numbers of features of the projections.
struct ProjectionWidths {
  std::int64_t query;
  std::int64_t key;
  std::int64_t value;
};
ProjectionWidths projection_widths(const MultiHeadAttention::Options& options,
                                   const AttentionOp& mechanism) {
  if (const auto own = mechanism.projection_shape()) {
    const std::int64_t keys = own->key_heads * own->key_dim;
    return {.query = keys, .key = keys, .value = own->value_heads * own->value_dim};
  }
  const std::int64_t keys = options.key_heads.value_or(options.heads) * options.dim;
  return {.query = options.heads * options.dim, .key = keys, .value = keys};
}

// Returns the context for all rows of [memory; x], or of an encoder output, as one segment. Each
// row draws its own dropout.
ForwardContext over(const ForwardContext& pass, Ranges positions, std::int64_t total) {
  ForwardContext result = pass.of_all_rows();
  result.time = {.total = total, .shares = {std::move(positions)}};
  return result;
}

// `with_memory`: the rows of the memory come first.
ForwardContext over_memory_too(const ForwardContext& pass, bool with_memory) {
  Ranges positions = with_memory ? pass.memory.inside() : Ranges();
  for (const Range& range : pass.time.inside())
    positions.push_back({pass.memory.total + range.begin, pass.memory.total + range.end});
  return over(pass, std::move(positions), pass.memory.total + pass.time.total);
}

std::vector<Linear> global_projections(const Scope& scope,
                                       const MultiHeadAttention::Options& options,
                                       const AttentionOp& mechanism) {
  std::vector<Linear> result;
  if (!mechanism.projects_global()) return result;
  for (const std::string name : {"query", "key", "value"}) {
    MultiHeadAttention::Options copy = options;
    const bool is_query = name == "query";
    const std::int64_t heads = is_query ? options.heads : options.key_heads.value_or(options.heads);
    if (!copy.initial) copy.initial = Initializer::xavier(options.width, heads * options.dim);
    copy.initial->as = scope.child(name).path() + "/weight";
    const bool bias =
        is_query ? options.bias.query : (name == "key" ? options.bias.key : options.bias.value);
    result.push_back(projection(scope.child("global_" + name), copy, heads * options.dim, bias));
  }
  return result;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope,
                                       const Options& options,
                                       std::unique_ptr<AttentionOp> mechanism)
    : mesh_(scope.parameters().mesh()),
      region_(mesh_.tensor),
      heads_(heads_of(scope, options, *mechanism)),
      key_heads_(key_heads_of(scope, options, *mechanism)),
      dim_(mechanism->projection_shape() ? mechanism->projection_shape()->key_dim : options.dim),
      value_dim_(mechanism->projection_shape() ? mechanism->projection_shape()->value_dim
                                               : options.dim),
      query_(mechanism->projects_query_and_key()
                 ? std::optional(projection(scope.child("query"),
                                            options,
                                            projection_widths(options, *mechanism).query,
                                            options.bias.query))
                 : std::nullopt),
      key_(mechanism->ties_query_and_key() || !mechanism->projects_query_and_key()
               ? std::nullopt
               : std::optional(projection(scope.child("key"),
                                          options,
                                          projection_widths(options, *mechanism).key,
                                          options.bias.key,
                                          options.encoder_hidden_size))),
      value_(mechanism->projects_value()
                 ? std::optional(projection(scope.child("value"),
                                            options,
                                            projection_widths(options, *mechanism).value,
                                            options.bias.value,
                                            options.encoder_hidden_size))
                 : std::nullopt),
      global_(global_projections(scope, options, *mechanism)),
      output_gate_(options.output_gate && !mechanism->gates_output()
                       ? std::optional(projection(scope.child("output_gate"),
                                                  options,
                                                  heads_.total * value_dim_,
                                                  options.bias.query))
                       : std::nullopt),
      out_(scope.child("out"),
           {.in = heads_.total * value_dim_,
            .out = options.width,
            .split = ParallelMode::rows,
            .bias = options.bias.out,
            .initial = options.initial_out ? options.initial_out : options.initial}),
      rotary_(options.rotary),
      mechanism_(std::move(mechanism)) {
  for (const RecurrentStateSpec& state : mechanism_->recurrent_states(scope.parameters()))
    state_names_.push_back(scope.add_recurrent_state(state));
  if (!options.query_key_norm || !mechanism_->supports_qk_norm()) return;
  if (query_) query_norm_.emplace(scope.child("query_norm"), dim_, *options.query_key_norm);
  if (key_) key_norm_.emplace(scope.child("key_norm"), dim_, *options.query_key_norm);
}

Variable MultiHeadAttention::operator()(const Variable& x,
                                        const Variable& memory,
                                        const AttentionContext& context,
                                        const ForwardContext& pass) const {
  const Variable asking = region_.enter(x, pass.time);
  const Variable seen =
      memory.defined() ? concat_memory(region_.enter(memory, pass.memory), asking) : asking;
  const bool has_memory = memory.defined() || (pass.kv_cache && pass.memory.total > 0);
  const ForwardContext reading = has_memory && pass.time.total > 0
                                     ? over_memory_too(pass, memory.defined())
                                     : pass.of_all_rows();
  if (pass.kv_cache && (pass.kv_cache->caches_keys() || mechanism_->has_recurrent_state()))
    return attend_with_cache(asking, seen, reading, context, pass);
  ProjectedQKV projected = project(asking, seen, reading, pass);
  if (mesh_.context.size() > 1 && !pass.time.repeated)
    projected.shares =
        sequence_shards(mesh_, memory.defined() ? pass.memory.total : 0, pass.time.total);
  return apply_attention(for_heads(std::move(projected)), context, pass);
}

Variable MultiHeadAttention::operator()(const Variable& x,
                                        const EncoderOutput& side,
                                        const AttentionContext& context,
                                        const ForwardContext& pass) const {
  const KVCache* const chunks =
      pass.kv_cache && pass.kv_cache->sequence() ? pass.kv_cache.get() : nullptr;
  if (pass.kv_cache && !chunks) return cross_attend_with_cache(x, side, context, pass);
  const ForwardContext reading =
      side.time.total > 0 ? over(pass, side.time.inside(), side.time.total) : over(pass, {}, 0);
  ProjectedQKV projected =
      project(region_.enter(x, pass.time), region_.enter(side.rows, side.time), reading, pass);
  const std::int64_t keys = side.time.total;
  if (chunks) projected.chunk = chunk_placement(*chunks, keys);
  if (mesh_.context.size() > 1)
    projected.shares =
        chunks ? cross_attention_shards(mesh_, *chunks->sequence(), chunks->chunk(), keys)
               : cross_attention_shards(mesh_, pass.time.total, keys);
  return apply_attention(for_heads(std::move(projected)), context, pass);
}

Variable MultiHeadAttention::first_value(const Variable& x,
                                         const AttentionContext& context,
                                         const ForwardContext& pass) const {
  ProjectedQKV input = {
      .query = {}, .key = {}, .value = {}, .heads = heads_, .input = region_.enter(x, pass.time)};
  if (pass.kv_cache) input.state = &recurrent_state(x.shape()[0], pass);
  return mechanism_->first_value(input, context, pass);
}

ProjectedQKV MultiHeadAttention::project(const Variable& asking,
                                         const Variable& seen,
                                         const ForwardContext& reading,
                                         const ForwardContext& pass) const {
  const bool with_memory = !seen.same_as(asking);
  require(key_ || !with_memory, "shared queries and keys support self-attention only");
  const Variable query =
      query_ ? normalize_and_rotate(split_heads(this->query(asking, pass), dim_), query_norm_, pass)
             : Variable();
  ProjectedQKV projected = {
      .query = query,
      .key = key_ ? normalize_and_rotate(
                        split_heads((*key_)(seen, reading), dim_), key_norm_, pass, with_memory)
                  : query,
      .value = value_ ? split_heads((*value_)(seen, reading), value_dim_) : Variable(),
      .heads = heads_,
      .input = asking};
  if (!global_.empty()) {
    require(seen.same_as(asking), "global positions support self-attention only");
    projected.global = {
        .query =
            normalize_and_rotate(split_heads(global_[0](asking, reading), dim_), query_norm_, pass),
        .key = normalize_and_rotate(split_heads(global_[1](seen, reading), dim_), key_norm_, pass),
        .value = split_heads(global_[2](seen, reading), value_dim_)};
  }
  return projected;
}

Variable MultiHeadAttention::query(const Variable& asking, const ForwardContext& pass) const {
  if (!pass.active_rows || !key_ || mechanism_->mixes_queries())
    return (*query_)(asking, pass.of_all_rows());
  const RowSubset& rows = pass.active_rows->rows;
  const Variable some = (*query_)(gather_rows(asking, rows), pass);
  return scatter_rows(some, rows, asking.shape().with(-1, some.shape().width()));
}

Variable MultiHeadAttention::normalize_and_rotate(Variable&& given,
                                                  const std::optional<QKNorm>& norm,
                                                  const ForwardContext& pass,
                                                  bool with_memory) const {
  Variable projected = norm ? (*norm)(given) : std::move(given);
  if (!rotary_ || !mechanism_->rotates()) return projected;
  const std::int64_t rows = projected.shape()[1];
  const bool placed = pass.time.total > 0;
  const bool decodes = pass.kv_cache && !pass.kv_cache->sequence();
  std::int64_t before = decodes ? pass.kv_cache->positions() : pass.memory.total;
  // While decoding, positions of a state that continues over segments do not restart.
  if (decodes && !state_names_.empty()) before = pass.kv_cache->total_positions();
  Ranges positions = placed ? pass.time.inside() : Ranges{{0, rows}};
  for (Range& range : positions) range = {before + range.begin, before + range.end};
  if (with_memory) {
    Ranges memory = pass.memory.inside();
    memory.insert(memory.end(), positions.begin(), positions.end());
    positions = std::move(memory);
  }
  const std::int64_t length = before + (placed ? pass.time.total : rows);
  return rotary_->turn(std::move(projected), positions, length);
}

ProjectedQKV MultiHeadAttention::for_heads(ProjectedQKV&& projected) const {
  if (mechanism_->supports_grouped_kv() || heads_.count == key_heads_.count)
    return std::move(projected);
  projected.key = for_all_heads(projected.key);
  projected.value = for_all_heads(projected.value);
  if (projected.global) {
    projected.global->key = for_all_heads(projected.global->key);
    projected.global->value = for_all_heads(projected.global->value);
  }
  return std::move(projected);
}

// Projects keys and values in one product with the memory rows.
Variable MultiHeadAttention::concat_memory(const Variable& memory, const Variable& x) const {
  const double products = 2 * 2.0 * static_cast<double>(memory.shape().elements()) *
                          static_cast<double>(key_heads_.count * dim_);
  return concat_time(memory, x, products);
}

Variable MultiHeadAttention::split_heads(Variable&& projected, std::int64_t dim) {
  const Variable rows = std::move(projected);  // sole owner, so that it may be overwritten
  const Shape& shape = rows.shape();
  return reshape(rows, {shape[0], shape[1], shape[2] / dim, dim});
}

Variable MultiHeadAttention::apply_attention(const ProjectedQKV& projected,
                                             const AttentionContext& context,
                                             const ForwardContext& pass) const {
  if (context.mask.max_lookback.defined() && !mechanism_->supports_document_mask())
    throw ConfigurationError(
        "an attention type of this model does not support data.documents.reset_attention_mask");
  Variable mixed = (*mechanism_)(projected, context, pass);
  if (pass.watch) pass.watch->see(*mechanism_, projected, context, pass, mixed);
  if (output_gate_) {
    Variable logits = (*output_gate_)(projected.input, pass.of_all_rows());
    mixed = gate(GateFunction::reset, mixed, {}, split_heads(std::move(logits), value_dim_), {});
  }
  const Shape& shape = mixed.shape();
  const Variable heads = reshape(mixed, {shape[0], shape[1], heads_.count * value_dim_});
  if (!pass.active_rows) return out_(heads, pass);
  const RowSubset& rows = pass.active_rows->rows;
  const Variable some = out_(gather_rows(heads, rows), pass);
  return scatter_rows(some, rows, {shape[0], shape[1], some.shape().width()});
}

Variable MultiHeadAttention::probabilities(const Variable& x,
                                           const EncoderOutput& side,
                                           std::int64_t heads,
                                           const ForwardContext& pass) const {
  require(key_.has_value(), "shared queries and keys support self-attention only");
  const Variable query = normalize_and_rotate(
      split_heads((*query_)(region_.enter(x, pass.time)), dim_), query_norm_, pass);
  Variable key;
  Tensor length = side.length;
  if (pass.kv_cache && !pass.kv_cache->sequence()) {
    const LayerKVCache& kept = pass.kv_cache->layer(pass.random.place());
    require(!kept.empty(), "cross-attention requires encoder outputs");
    key = for_all_heads(kept.projection(0));
    length = kept.length;
  } else {
    Variable own = (*key_)(region_.enter(side.rows, side.time));
    if (mesh_.context.size() > 1)
      own = all_gather_sequence(
          own, cross_attention_shards(mesh_, 1, side.time.total).keys, mesh_.context);
    key = for_all_heads(normalize_and_rotate(split_heads(std::move(own), dim_), key_norm_, pass));
  }
  // A rank without any of the heads contributes zeros, because the backward collectives of its
  // projections need every rank.
  const std::int64_t here = std::clamp<std::int64_t>(heads - heads_.begin, 0, heads_.count);
  const double weight = here == 0 ? 0 : 1 / static_cast<double>(heads);
  return reduce_from_tensor_parallel_region(
      dense_attention_weights(query, key, length, {0, std::max<std::int64_t>(here, 1)}, weight),
      mesh_.tensor);
}

}  // namespace longspan
