#include "models/universal_transformer.h"

#include <cmath>

#include "framework/modeling/documents.h"
#include "framework/modeling/lm_head.h"
#include "framework/nn/embedding.h"
#include "models/attention_ops.h"
#include "models/declare_family.h"
#include "models/stack.h"

namespace longspan {
namespace {

constexpr FamilyTraits universal_traits = {.repeats_layers = true};

class UniversalTransformer : public Backbone {
 public:
  UniversalTransformer(const Scope& scope,
                       const UniversalTransformerOptions& options,
                       const ModelBuildOptions& setting)
      : options_(options),
        setting_(setting),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        recurrence_(scope,
                    {.recurrence = options,
                     .positions = options.positions,
                     .width = options.common.width,
                     .initial = options.common.table_initial(),
                     .reversible = options.common.residual == ResidualKind::reversible},
                    setting),
        block_(make_layers(scope.child("block"),
                           {.common = options.common,
                            .memory = setting.memory,
                            .recurrence = options,
                            .rotary = rotary_of(options.positions, options.common, setting)},
                           attention_ops(scope.child("block"),
                                         options.common,
                                         options.positions,
                                         universal_traits,
                                         setting.segment))),
        residual_(make_residual(options.common, setting.memory)) {}

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    const Tensor tokens = columns_of(reading, "tokens", pass.time, setting_.device);
    const double scale = std::sqrt(static_cast<double>(options_.common.width));
    const Variable x = drop(
        embedding_(tokens, scale, pass.time), options_.common.dropout, pass.child("embedding"));
    BackboneOutput states = {.hidden = {}, .time = pass.time};
    const StackInputs reads = {.context = {.mask = {.max_lookback = document_lookback(
                                                        reading, pass.time, setting_.device)},
                                           .distances = {}}};
    states.hidden =
        recurrence_.run(block_, *residual_, x, reads, pass, {}, [&](const ActResult& pondered) {
          add_ponder_loss(pondered, options_.ponder_weight, {}, setting_.mesh, states);
        });
    return states;
  }

  OutputHeadSpec end() const override {
    OutputHeadSpec end = output_head_spec(options_.common);
    if (options_.common.tied_embeddings) end.table = embedding_.table();
    return end;
  }
  bool supports_kv_cache() const override {
    return longspan::reads_on(options_.common.attention) && options_.positions.supports_kv_cache();
  }
  // The number of adaptive steps depends on all positions.
  std::string whole_sequence_setting() const override {
    return options_.adaptive() ? "model.recurrence.type: act"
                               : whole_sequence_type(options_.common.attention);
  }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t max_segment_length() const override {
    return shorter_of(recurrence_.longest(),
                      max_sequence_length_of(options_.common.attention, setting_.segment));
  }

 private:
  UniversalTransformerOptions options_;
  ModelBuildOptions setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  Recurrence recurrence_;
  std::vector<Layer> block_;
  std::unique_ptr<Residual> residual_;
};

std::string validate_documents(const UniversalTransformerOptions& options, bool documents_apart) {
  if (!documents_apart) return "";
  if (options.count == RecurrenceType::adaptive)
    return "model.recurrence.type: act cannot be combined with "
           "data.documents.reset_attention_mask; set it to fixed";
  if (options.positions.is_relative()) return "";
  return "model.position_embedding_type: absolute positions cannot be combined with "
         "data.documents.reset_attention_mask; set it to relative, alibi or rope";
}

}  // namespace

void declare(OptionTable& table,
             UniversalTransformerOptions& options,
             const PlannedBuildOptions& planned) {
  declare(table, options.common, planned, universal_traits);
  declare_logit_cap(table, options.common);
  declare_logit_scale(table, options.common);
  declare(table, options.positions, options.common, Sequences::segments, planned);
  table.add(
      "model.recurrence.type",
      options.count,
      "recurrence over depth: fixed (model.recurrence.num_steps for all positions) or act "
      "(adaptive computation time per position, Graves 2016). Plans and FLOPs count all steps",
      {{"fixed", RecurrenceType::fixed}, {"act", RecurrenceType::adaptive}},
      affects_weights());
  declare(table, options, options.positions);
  table.check(recurrence_keys(),
              [&options] { return validate_recurrence(options, options.common); });
  if (planned)
    table.check({"model.position_embedding_type", "model.recurrence.type"}, [&options, planned] {
      return validate_documents(options, planned().documents_apart);
    });
}

BackboneFactory universal_transformer_body(const UniversalTransformerOptions& options) {
  return [options](const Scope& scope, const ModelBuildOptions& setting) {
    throw_if_error(validate_positions(
        options.positions, options.common, Sequences::segments, setting.segment));
    throw_if_error(validate_recurrence(options, options.common));
    throw_if_error(validate_documents(options, setting.documents_apart));
    return std::make_unique<UniversalTransformer>(scope, options, setting);
  };
}

std::unique_ptr<Model> make_universal_transformer(const UniversalTransformerOptions& options,
                                                  const ModelBuildOptions& setting) {
  return std::make_unique<Model>(setting, universal_transformer_body(options), lm_head());
}

Family universal_transformer_family() {
  return {"universal_transformer",
          "causal language model with recurrence over depth, for a fixed number of steps or with "
          "adaptive computation time (Dehghani et al. 2019)",
          {"language_modeling"},
          declared(universal_transformer_body)};
}

}  // namespace longspan
