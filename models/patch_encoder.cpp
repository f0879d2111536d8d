#include "models/patch_encoder.h"

#include "framework/model/shared_time.h"
#include "models/mechanisms.h"
#include "models/stack.h"

namespace longspan {
namespace {

constexpr FamilyTraits patch_traits = {.causal = false, .sequences = Sequences::examples};

class PatchEncoder : public Body {
 public:
  PatchEncoder(const Scope& scope, const EncoderOptions& options, const ModelSetting& setting)
      : options_(options),
        device_(setting.device),
        input_(scope, options.patches, options.positions, options.common, setting),
        stack_(
            scope,
            {.common = options.common, .memory = setting.memory},
            mechanisms(scope, options.common, options.positions, patch_traits, input_.positions()),
            setting) {}

  States run(const Reading& reading, const Pass& pass) const override {
    States states;
    states.time = pass.time;
    const SegmentContext context = Side{.time = pass.time, .length = lengths(reading)}.seen();
    const Tensor& pixels = field_of(reading.fields, "pixels");
    states.hidden = stack_(input_(pixels, pass), {.context = context}, pass);
    return states;
  }

  std::int64_t time_of(const Reading& /*reading*/) const override { return input_.positions(); }
  BodyEnd end() const override {
    return {.width = options_.common.output_width(),
            .dropout = options_.common.dropout,
            .initial = options_.common.table_initial(),
            .pooling = options_.pooling,
            .class_layer = options_.class_layer};
  }
  // Of values.
  std::int64_t vocabulary() const override { return 256; }

 private:
  // Of a row that has no image none of its positions is seen.
  Tensor lengths(const Reading& reading) const {
    const Tensor& values = field_of(reading.fields, "length");
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(values.elements()),
                                      input_.positions());
    if (!values.device().state().dry())
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

std::string patch_encoder_problem(const EncoderOptions& options) {
  if (!options.patches.side) return "";
  if (!options.positions.learned())
    return "model.patch_size is for model.position_embedding_type: learned; set it to that";
  if (options.positions.first != 0)
    return "model.patch_size is set, and model.position_embedding_offset is not 0; set it to 0";
  if (options.pooling != Pooling::first)
    return "model.patch_size is for model.pooling: first, the token that stands for an image; set "
           "it to "
           "that";
  if (options.recurrence.recurs())
    return "model.patch_size is set with model.recurrence.type, which adds positions at each step; "
           "set it to "
           "none";
  if (options.input.norm || options.input.token_types > 0)
    return "model.patch_size is set with model.layernorm_embedding or model.type_vocab_size, which "
           "are of tokens "
           "of texts; leave them out";
  return "";
}

std::unique_ptr<Body> patch_encoder(const Scope& scope,
                                    const EncoderOptions& options,
                                    const ModelSetting& setting) {
  refuse(patch_encoder_problem(options));
  return std::make_unique<PatchEncoder>(scope, options, setting);
}

}  // namespace longspan
