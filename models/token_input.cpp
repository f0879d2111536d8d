#include "models/token_input.h"

#include <cmath>

#include "framework/core/async_copy.h"
#include "framework/kernels/element.h"
#include "framework/nn/positions.h"

namespace longspan {

double InputOptions::scale(std::int64_t width) const {
  return scaled ? std::sqrt(static_cast<double>(width)) : 1;
}

void declare(OptionTable& table, InputOptions& options) {
  table.add(
      "model.scale_embedding",
      options.scaled,
      "multiplication of embeddings by sqrt(model.hidden_size) (Vaswani et al. 2017); false: no "
      "scaling (BERT)",
      affects_weights());
  table.add("model.layernorm_embedding",
            options.norm,
            "norm after the embeddings (Devlin et al. 2019)",
            affects_weights());
}

void declare_token_types(OptionTable& table, InputOptions& options) {
  table.add("model.type_vocab_size",
            options.token_types,
            "number of token types, which have embeddings (Devlin et al. 2019); a single text has "
            "the first type; 0: no token types",
            between(0, 1 << 16),
            affects_weights());
}

TokenInput::TokenInput(const Scope& scope,
                       const InputOptions& options,
                       const PositionOptions& positions,
                       const ModelOptions& common,
                       const ModelBuildOptions& setting)
    : scale_(options.scale(common.width)),
      dropout_(common.dropout),
      positions_(scope, positions, common, setting) {
  if (options.token_types > 0)
    types_ = scope.child("token_types")
                 .weight("weight", {options.token_types, common.width}, common.table_initial());
  if (options.norm) norm_.emplace(scope.child("embedding_norm"), common.width, common.norm_form());
}

Variable TokenInput::operator()(const TokenEmbedding& embedding,
                                const Tensor& tokens,
                                const ForwardContext& pass,
                                const Tensor& length,
                                const Variable& extra) const {
  Variable x = positions_.embed(embedding, tokens, scale_, pass);
  if (extra.defined()) x = add(x, extra);
  if (types_) {
    const Variable first = table_rows(types_->variable, {{0, 1}});
    x = add_bias(x, reshape(first, {first.shape()[1]}));
  }
  if (norm_) x = (*norm_)(x, pass.child("embedding_norm"), length);
  return drop(x, dropout_, pass.child("embedding"));
}

PreviousActionInputs::PreviousActionInputs(const Scope& scope,
                                           std::int64_t width,
                                           const Initializer& initial,
                                           const ModelBuildOptions& setting)
    : device_(setting.device),
      compute_(setting.compute),
      action_(scope.child("previous_action"), setting.classes, width, initial),
      reward_(scope.child("reward"), {.in = 1, .out = width, .bias = false, .hidden = false}) {}

Variable PreviousActionInputs::operator()(const Variable& x,
                                          const ModelInput& reading,
                                          double scale,
                                          const SequenceShard& time) const {
  const Tensor actions = columns_of(reading, "previous_action", time, device_);
  return add(add(x, action_(actions, scale, time)), reward_(rewards(reading, time)));
}

Variable PreviousActionInputs::rewards(const ModelInput& reading, const SequenceShard& time) const {
  const Tensor& field = field_of(reading.fields, "reward");
  const Ranges& positions = time.outside();
  const std::int64_t rows = field.shape()[0], columns = field.shape()[1];
  const Tensor here = Tensor::empty({rows, total_count(positions), 1},
                                    accumulator_of(compute_),
                                    device_.host(),
                                    MemoryTag::workspace);
  dispatch_on_host(here.device(), [&] {
    with_floating_type(here.dtype(), [&]<typename T>(TypeTag<T>) {
      T* to = here.data<T>();
      for (std::int64_t row = 0; row < rows; ++row)
        for (const Range& range : positions)
          for (std::int64_t at = range.begin; at < range.end; ++at)
            *to++ = T(static_cast<Accumulator<T>>(field.data<double>()[row * columns + at]));
    });
  });
  return cast(Variable(copy_async(here, device_)), compute_);
}

}  // namespace longspan
