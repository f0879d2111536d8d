#include "models/patch_encoder.h"

#include "framework/modeling/sequence_parallel.h"
#include "models/attention_ops.h"
#include "models/stack.h"

namespace longspan {
namespace {

constexpr FamilyTraits patch_traits = {.causal = false, .sequences = Sequences::examples};

class PatchEncoder : public Backbone {
 public:
  PatchEncoder(const Scope& scope, const EncoderOptions& options, const ModelBuildOptions& setting)
      : options_(options),
        device_(setting.device),
        input_(scope, options.patches, options.positions, options.common, setting),
        stack_(scope,
               {.common = options.common, .memory = setting.memory},
               attention_ops(
                   scope, options.common, options.positions, patch_traits, input_.positions()),
               setting) {}

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    BackboneOutput states;
    states.time = pass.time;
    const AttentionContext context =
        EncoderOutput{.time = pass.time, .length = lengths(reading)}.key_context();
    const Tensor& pixels = field_of(reading.fields, "pixels");
    states.hidden = stack_(input_(pixels, pass), {.context = context}, pass);
    return states;
  }

  std::int64_t time_of(const ModelInput& /*reading*/) const override { return input_.positions(); }
  OutputHeadSpec end() const override {
    return {.width = options_.common.output_width(),
            .dropout = options_.common.dropout,
            .initial = options_.common.table_initial(),
            .pooling = options_.pooling,
            .class_layer = options_.class_layer};
  }
  // Pixel values.
  std::int64_t vocabulary() const override { return 256; }

 private:
  // Masks all positions of rows without an image.
  Tensor lengths(const ModelInput& reading) const {
    const Tensor& values = field_of(reading.fields, "length");
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(values.elements()),
                                      input_.positions());
    if (!values.device().state().is_meta())
      for (std::size_t row = 0; row < lengths.size(); ++row)
        if (values.data<std::int64_t>()[row] == 0) lengths[row] = 0;
    return host_to_device(lengths);
  }
  Tensor host_to_device(const std::vector<std::int64_t>& lengths) const {
    return host_field(lengths, {std::ssize(lengths)}, device_);
  }

  EncoderOptions options_;
  Device device_;
  PatchInput input_;
  Stack stack_;
};

}  // namespace

std::string validate_patch_encoder(const EncoderOptions& options) {
  if (!options.patches.side) return "";
  if (!options.positions.learned())
    return "model.patch_size requires model.position_embedding_type: learned";
  if (options.positions.first != 0)
    return "model.patch_size requires model.position_embedding_offset: 0";
  if (options.pooling != Pooling::first) return "model.patch_size requires model.pooling: first";
  if (options.recurrence.is_recurrent())
    return "model.patch_size requires model.recurrence.type: none";
  if (options.input.norm || options.input.token_types > 0)
    return "model.patch_size cannot be combined with model.layernorm_embedding or "
           "model.type_vocab_size; omit them";
  return "";
}

std::unique_ptr<Backbone> patch_encoder(const Scope& scope,
                                        const EncoderOptions& options,
                                        const ModelBuildOptions& setting) {
  throw_if_error(validate_patch_encoder(options));
  return std::make_unique<PatchEncoder>(scope, options, setting);
}

}  // namespace longspan
