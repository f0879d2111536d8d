#include "models/positions.h"

#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/positions.h"
#include "models/stack.h"

namespace longspan {
namespace {

std::string validate_segment(std::int64_t longest, std::int64_t segment) {
  if (longest >= segment) return "";
  return fmt::format(
      "data.seq_length: expected at most model.max_position_embeddings = {}, found {}",
      longest,
      segment);
}

std::string validate_examples(std::optional<std::int64_t> longest, std::int64_t segment) {
  if (segment == 0 && !longest)
    return "model.position_embedding_type: learned requires model.max_position_embeddings with "
           "data.max_length: 0";
  if (!longest || *longest >= segment) return "";
  return fmt::format(
      "model.max_position_embeddings: expected at least {} (data.max_length with "
      "end tokens and padding), found {}",
      segment,
      *longest);
}

const char* name_of(PositionEmbeddingType kind) {
  switch (kind) {
    case PositionEmbeddingType::sinusoidal:
      return "sinusoidal";
    case PositionEmbeddingType::learned:
      return "learned";
    case PositionEmbeddingType::relative:
      return "relative";
    case PositionEmbeddingType::relative_key:
      return "relative_key";
    case PositionEmbeddingType::relative_key_query:
      return "relative_key_query";
    case PositionEmbeddingType::relative_bias:
      return "relative_bias";
    case PositionEmbeddingType::alibi:
      return "alibi";
    case PositionEmbeddingType::rotary:
      return "rope";
  }
  return "";
}

std::string validate_table(const PositionOptions& options,
                           Sequences sequences,
                           std::int64_t segment) {
  if (!options.learned()) return "";
  return sequences == Sequences::segments
             ? validate_segment(options.longest.value_or(segment), segment)
             : validate_examples(options.longest, segment);
}

std::string validate_buckets(const PositionOptions& options) {
  if (!options.biased()) return "";
  if (options.buckets % 2 != 0)
    return fmt::format("model.relative_attention_num_buckets: expected an even number, found {}",
                       options.buckets);
  if (options.relative_max_distance > options.buckets / 2) return "";
  return fmt::format(
      "model.relative_attention_max_distance: expected more than {} (half of "
      "model.relative_attention_num_buckets = {}; T5: 128), found {}",
      options.buckets / 2,
      options.buckets,
      options.relative_max_distance);
}

Weight position_table(const Scope& scope,
                      const PositionOptions& options,
                      const ModelOptions& common,
                      const ModelBuildOptions& setting) {
  return scope.weight("positions/weight",
                      {options.first + options.rows(setting.segment), common.width},
                      common.table_initial());
}

void require_rows(const Weight& table, std::int64_t first, const ForwardContext& pass) {
  const std::int64_t longest = table->global_shape[0] - first;
  require(end_of(pass) <= longest,
          "expected at most model.max_position_embeddings = {} tokens, found {}",
          longest,
          end_of(pass));
}

// Returns the rows of this rank's positions.
Variable rows_of_pass(const Weight& table, std::int64_t first, const ForwardContext& pass) {
  require_rows(table, first, pass);
  Ranges rows = positions_of(pass);
  for (Range& range : rows) {
    range.begin += first;
    range.end += first;
  }
  return table_rows(table->variable, rows);
}

std::vector<std::string> length_keys(Sequences sequences) {
  if (sequences == Sequences::segments) return {"data.seq_length"};
  return {"data.max_length", "data.pad_to_multiple_of"};
}

}  // namespace

void declare(OptionTable& table,
             PositionOptions& options,
             const ModelOptions& common,
             Sequences sequences,
             const PlannedBuildOptions& planned) {
  table.add(
      "model.position_embedding_type",
      options.kind,
      "position embedding: sinusoidal or learned (absolute), relative (learned keys and values, "
      "Shaw et al. 2018), relative_key (keys only), relative_key_query (also with the other key, "
      "Huang et al. 2020), relative_bias (learned bias per head and bucket, shared by all layers "
      "of a stack, Raffel et al. 2020), alibi (fixed slopes, Press et al. 2022) or rope (rotary, "
      "Su et al. 2021)",
      {{"sinusoidal", PositionEmbeddingType::sinusoidal},
       {"learned", PositionEmbeddingType::learned},
       {"relative", PositionEmbeddingType::relative},
       {"relative_key", PositionEmbeddingType::relative_key},
       {"relative_key_query", PositionEmbeddingType::relative_key_query},
       {"relative_bias", PositionEmbeddingType::relative_bias},
       {"alibi", PositionEmbeddingType::alibi},
       {"rope", PositionEmbeddingType::rotary}},
      affects_weights());
  table.add("model.max_position_embeddings",
            options.longest,
            sequences == Sequences::segments
                ? "number of learned positions; none: data.seq_length. With rope, only exported"
                : "number of learned positions; none: the longest sequence of the data. With "
                  "rope, only exported",
            between(1, max_sequence_length),
            affects_weights());
  // Exported models contain it.
  table.caution("model.max_position_embeddings", [&options]() -> std::string {
    return options.learned() || options.kind == PositionEmbeddingType::rotary
               ? ""
               : "no effect on training, as model.position_embedding_type is neither learned nor "
                 "rope";
  });
  table.add(
      "model.position_embedding_offset",
      options.first,
      "table row of the first position of a sequence (RoBERTa: 2), which adds as many unused rows",
      between(0, 1 << 20),
      affects_weights(),
      only_with(is("model.position_embedding_type", {"learned"})));
  table.add(
      "model.relative_attention_max_distance",
      options.relative_max_distance,
      "maximum relative position with its own embedding, in either direction; for relative_bias, "
      "start of the last bucket, more than half of model.relative_attention_num_buckets (T5: 128)",
      between(1, 1 << 20),
      affects_weights(),
      only_with(is("model.position_embedding_type",
                   {"relative", "relative_key", "relative_key_query", "relative_bias"})));
  table.add("model.relative_attention_num_buckets",
            options.buckets,
            "number of buckets of relative positions, even; small ones have their own bucket, "
            "larger ones logarithmic buckets, half for each direction in a bidirectional stack",
            between(4, 1 << 16),
            affects_weights(),
            only_with(is("model.position_embedding_type", {"relative_bias"})));
  table.check({"model.relative_attention_num_buckets",
               "model.relative_attention_max_distance",
               "model.position_embedding_type"},
              [&options] { return validate_buckets(options); });
  declare_rotary(table, options, common, sequences);
  table.check({"model.position_embedding_type", "model.attention.layer_types"},
              [&options, &common] { return validate_distances(options, common); });
  if (!planned) return;
  std::vector<std::string> keys = {"model.max_position_embeddings",
                                   "model.position_embedding_type"};
  const std::vector<std::string> lengths = length_keys(sequences);
  keys.insert(keys.end(), lengths.begin(), lengths.end());
  table.check(std::move(keys), [&options, sequences, planned] {
    return validate_table(options, sequences, planned().segment);
  });
}

std::string validate_distances(const PositionOptions& options, const ModelOptions& common) {
  if (!options.is_relative()) return "";
  if (options.rotary()) return validate_rotary_kinds(common.attention);
  const AttentionKind* const kind = first_kind_without_relative_positions(common.attention);
  if (kind == nullptr) return "";
  return fmt::format(
      "model.position_embedding_type: {} does not support {} in "
      "model.attention.layer_types; set it to sinusoidal or learned",
      name_of(options.kind),
      kind->name);
}

std::string validate_positions(const PositionOptions& options,
                               const ModelOptions& common,
                               Sequences sequences,
                               std::int64_t segment) {
  std::string problem = validate_distances(options, common);
  if (problem.empty()) problem = validate_buckets(options);
  if (problem.empty()) problem = validate_rotary(options, common, sequences);
  return problem.empty() ? validate_table(options, sequences, segment) : problem;
}

PositionEmbedding::PositionEmbedding(const Scope& scope,
                                     const PositionOptions& options,
                                     const ModelOptions& common,
                                     const ModelBuildOptions& setting)
    : by_distance_(options.is_relative()),
      first_(options.first),
      width_(common.width),
      compute_(setting.compute),
      device_(setting.device) {
  if (options.learned()) table_ = position_table(scope, options, common, setting);
}

Variable PositionEmbedding::embed(const TokenEmbedding& embedding,
                                  const Tensor& tokens,
                                  double scale,
                                  const ForwardContext& pass,
                                  const Tensor& places) const {
  if (by_distance_) return embedding(tokens, scale, pass.time);
  if (places.defined()) return add(embedding(tokens, scale, pass.time), rows_of(places, pass));
  Variable positions;
  if (table_) {
    positions = rows_of_pass(table_, first_, pass);
  } else {
    positions = Variable(
        sinusoids(SinusoidLayout::interleaved, positions_of(pass), width_, -1, compute_, device_));
  }
  return scale_and_add_positions(embedding(tokens, 1, pass.time), scale, positions);
}

Variable PositionEmbedding::rows_of(const Tensor& places, const ForwardContext& pass) const {
  if (table_) {
    require_rows(table_, first_, pass);
    return longspan::embedding(table_->variable, places, -first_, 1);
  }
  const Variable all(
      sinusoids(SinusoidLayout::interleaved, {{0, end_of(pass)}}, width_, -1, compute_, device_));
  return longspan::embedding(all, places, 0, 1);
}

std::function<Variable(const Variable& x, const ForwardContext& pass)> layer_positions(
    const Scope& layer,
    const PositionOptions& options,
    const ModelOptions& common,
    const ModelBuildOptions& setting) {
  return [table = position_table(layer, options, common, setting), first = options.first](
             const Variable& x, const ForwardContext& pass) {
    return scale_and_add_positions(x, 1, cast(rows_of_pass(table, first, pass), x.value().dtype()));
  };
}

RelativeTerms distance_terms(const Scope& attention,
                             const PositionOptions& options,
                             const ModelOptions& common) {
  RelativeTerms terms;
  if (options.kind == PositionEmbeddingType::alibi)
    terms.slopes = alibi_slopes(attention, common.heads);
  if (!options.has_tables()) return terms;
  const RelativePositionTables::Options tables = {
      .max_distance = options.relative_max_distance,
      .dim = common.head_dim(),
      .initial = common.initial().value_or(
          Initializer::xavier(2 * options.relative_max_distance + 1, common.head_dim())),
      .values = options.kind == PositionEmbeddingType::relative,
      .of_keys = options.kind == PositionEmbeddingType::relative_key_query};
  terms.tables.emplace(attention, tables);
  return terms;
}

std::optional<RelativePositionBias> distance_bias(const Scope& stack,
                                                  const PositionOptions& options,
                                                  const ModelOptions& common,
                                                  bool causal) {
  if (!options.biased()) return std::nullopt;
  const RelativePositionBias::Options bias = {.heads = common.heads,
                                              .buckets = options.buckets,
                                              .max_distance = options.relative_max_distance,
                                              .causal = causal,
                                              .initial = common.table_initial()};
  return RelativePositionBias(stack, bias);
}

std::optional<Rotary> rotary_of(const PositionOptions& options,
                                const ModelOptions& common,
                                const ModelBuildOptions& setting) {
  if (!options.rotary()) return std::nullopt;
  return Rotary(options.rope, common.head_dim(), setting.compute, setting.device);
}

}  // namespace longspan
