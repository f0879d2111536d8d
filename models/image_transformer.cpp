#include "models/image_transformer.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/modeling/sequence_parallel.h"
#include "framework/nn/embedding.h"
#include "models/attention_ops.h"
#include "models/declare_family.h"
#include "models/stack.h"

namespace longspan {
namespace {

FamilyTraits traits_of(const ImageGrid& grid) {
  return {.sequences = Sequences::examples, .image = grid};
}

PixelSequence sequence_of(const ImageTransformerOptions& options,
                          const ModelBuildOptions& setting) {
  if (!setting.image)
    throw ConfigurationError("model.family: image_transformer requires run.task: image_generation");
  if (options.values == PixelValues::mixtures && setting.image->channels != 1 &&
      setting.image->channels != 3)
    throw ConfigurationError(
        "model.pixel_distribution: logistic_mixture requires images of 1 or 3 channels, found {}",
        setting.image->channels);
  PixelOrder order = {.whole_pixels = options.values == PixelValues::mixtures,
                      .shift_each_block = options.shift_each_block};
  if (has_kind(options.common.attention, "local_2d")) {
    order.block_height = options.common.attention.image.block[0];
    order.block_width = options.common.attention.image.block[1];
  }
  return PixelSequence(*setting.image, order);
}

// Positions of the longest sequence.
std::int64_t max_positions(const ImageTransformerOptions& options,
                           const ModelBuildOptions& setting) {
  const bool one_by_one = options.values == PixelValues::categories || !setting.image;
  const std::int64_t together = one_by_one ? 1 : setting.image->channels;
  return (setting.segment + together - 1) / together;
}

// Input embedding of each position.
class PixelInput {
 public:
  PixelInput(const Scope& scope,
             const PixelSequence& sequence,
             const ImageTransformerOptions& options,
             const ModelBuildOptions& setting)
      : sequence_(sequence), setting_(setting) {
    const std::int64_t width = options.common.width;
    if (options.values == PixelValues::mixtures)
      weight_ = scope.weight("pixel/weight",
                             {width, sequence.channels_per_position() + 1},
                             Initializer::xavier(sequence.channels_per_position() + 1, width));
    else
      table_.emplace(
          scope.child("embedding"), sequence.ids(), width, options.common.table_initial());
  }

  // [rows, time, width] of this rank's positions. Embeddings are scaled by the square root of the
  // width; the projection of pixel values is not.
  Variable of(const ModelInput& reading, double scale, const SequenceShard& time) const {
    const Tensor read = reading.fields.contains("pixels")
                            ? sequence_.read_of(field_of(reading.fields, "pixels"))
                            : field_of(reading.fields, "tokens");
    if (table_) return (*table_)(columns_of(read, time, setting_.device), scale, time);
    return linear(features_of(read, time.outside()), weight_->variable, {});
  }

 private:
  // -1 .. 1 for each channel, and a constant 1; zeros at the start.
  Variable features_of(const Tensor& read, const Ranges& positions) const {
    const std::int64_t rows = read.shape()[0], channels = sequence_.channels_per_position();
    const Tensor result = Tensor::zeros({rows, total_count(positions), channels + 1},
                                        DType::f64,
                                        read.device(),
                                        MemoryTag::workspace);
    dispatch_on_host(read.device(), [&] {
      double* to = result.data<double>();
      for (std::int64_t row = 0; row < rows; ++row)
        for (const Range& range : positions)
          for (std::int64_t i = range.begin; i < range.end; ++i, to += channels + 1) {
            const auto* const values =
                read.data<std::int64_t>() + row * read.shape()[1] + i * channels;
            if (values[0] < 0) continue;
            for (std::int64_t channel = 0; channel < channels; ++channel)
              to[channel] = 2 * static_cast<double>(values[channel]) / 255 - 1;
            to[channels] = 1;
          }
    });
    return cast(Variable(copy_async(result, setting_.device)), setting_.compute);
  }

  PixelSequence sequence_;
  ModelBuildOptions setting_;
  std::optional<TokenEmbedding> table_;
  Weight weight_;
};

class ImageTransformer : public Backbone {
 public:
  ImageTransformer(const Scope& scope,
                   const ImageTransformerOptions& options,
                   const ModelBuildOptions& setting)
      : common_(options.common),
        setting_(setting),
        mixtures_(options.values == PixelValues::mixtures ? options.mixtures : 0),
        sequence_(sequence_of(options, setting)),
        input_(scope, sequence_, options, setting),
        places_(scope.child("positions"), sequence_, options.positions, options.common, setting),
        source_(source_encoder(scope, options, setting)),
        layers_(make_layers(scope,
                            stack_options(options, setting),
                            attention_ops(scope,
                                          options.common,
                                          {},
                                          traits_of({sequence_.rows(), sequence_.columns()}),
                                          max_positions(options, setting)))),
        residual_(make_residual(options.common, setting.memory)) {
    if (options.of_classes)
      classes_.emplace(scope.child("classes"),
                       std::max<std::int64_t>(setting.classes, 1),
                       options.common.width,
                       options.common.table_initial());
  }

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    const double scale = std::sqrt(static_cast<double>(common_.width));
    Variable x = input_.of(reading, scale, pass.time);
    if (classes_) x = add(x, (*classes_)(classes_of(reading, pass), scale, pass.time));
    x = drop(scale_and_add_positions(x, 1, places_.of(positions_of(pass))),
             common_.dropout,
             pass.child("embedding"));
    StackInputs reads;
    if (source_) reads.encoder_outputs = (*source_)(reading, pass);
    return {.hidden = residual_->run(layers_, x, reads, pass.child("layers")), .time = pass.time};
  }

  std::int64_t time_of(const ModelInput& reading) const override {
    return (reading.time() + sequence_.channels_per_position() - 1) /
           sequence_.channels_per_position();
  }
  OutputHeadSpec end() const override {
    OutputHeadSpec end = output_head_spec(common_);
    end.pixels = sequence_;
    end.mixtures = mixtures_;
    end.reads_classes = classes_.has_value();
    if (source_) end.source_image = source_->shape();
    return end;
  }
  bool supports_kv_cache() const override { return longspan::reads_on(common_.attention); }
  std::int64_t vocabulary() const override { return sequence_.ids(); }

 private:
  // Returns the class of each row at this rank's positions inside split regions. Throws DataError
  // for an unlabeled image, since files may lack labels.
  Tensor classes_of(const ModelInput& reading, const ForwardContext& pass) const {
    const Tensor& label = field_of(reading.fields, "label");
    const auto length = reading.fields.find("length");
    dispatch_on_host(label.device(), [&] {
      for (std::int64_t row = 0; row < label.elements(); ++row)
        if (label.data<std::int64_t>()[row] < 0 &&
            (length == reading.fields.end() || length->second.data<std::int64_t>()[row] > 0))
          throw DataError(
              "model.class_conditional: an image has no class; set the file of labels "
              "(data.train_target and so on, or --data-target), or set it to false");
    });
    const std::int64_t columns = total_count(pass.time.inside());
    const Tensor result = Tensor::empty(
        {label.elements(), columns}, DType::i64, label.device(), MemoryTag::workspace);
    dispatch_on_host(label.device(), [&] {
      for (std::int64_t row = 0; row < label.elements(); ++row)
        std::fill_n(
            result.data<std::int64_t>() + row * columns, columns, label.data<std::int64_t>()[row]);
    });
    return copy_async(result, setting_.device);
  }

  static std::optional<SourceImageEncoder> source_encoder(const Scope& scope,
                                                          const ImageTransformerOptions& options,
                                                          const ModelBuildOptions& setting) {
    if (!options.source.side) return std::nullopt;
    return SourceImageEncoder(scope, options.source, options.common, options.positions, setting);
  }
  static StackOptions stack_options(const ImageTransformerOptions& options,
                                    const ModelBuildOptions& setting) {
    StackOptions stack = {.common = options.common, .memory = setting.memory};
    if (options.source.side)
      stack.cross = CrossAttentionOptions{.encoder_width = options.common.output_width()};
    return stack;
  }

  ModelOptions common_;
  ModelBuildOptions setting_;
  std::int64_t mixtures_;
  PixelSequence sequence_;
  PixelInput input_;
  PixelPlaces places_;
  std::optional<SourceImageEncoder> source_;
  std::vector<Layer> layers_;
  std::unique_ptr<Residual> residual_;
  std::optional<TokenEmbedding> classes_;
};

// Batches may contain rows without an image, which would enter the statistics of power
// normalization.
std::string validate_norm(const ImageTransformerOptions& options) {
  return options.common.norm_kind == NormKind::power
             ? "model.norm.type: model.family: image_transformer does not support powernorm; set "
               "it to layernorm or rmsnorm"
             : "";
}

std::string validate_tied(const ImageTransformerOptions& options) {
  return options.common.tied_embeddings
             ? "model.tie_word_embeddings: model.family: image_transformer does not support it "
               "(256 input ids per channel, 256 output values); set it to false"
             : "";
}

std::string validate_conditions(const ImageTransformerOptions& options) {
  return options.of_classes && options.source.side ? "model.class_conditional: true cannot be "
                                                     "combined with model.source_size; change one "
                                                     "of them"
                                                   : "";
}

}  // namespace

void declare(OptionTable& table,
             ImageTransformerOptions& options,
             const PlannedBuildOptions& planned) {
  declare(table, options.common, planned, traits_of({}));
  table.add("model.pixel_distribution",
            options.values,
            "output distribution: categorical (256 values of one channel) or logistic_mixture "
            "(all channels of a pixel, Salimans et al. 2017), which makes a sequence of RGB "
            "values a third as long",
            {{"categorical", PixelValues::categories}, {"logistic_mixture", PixelValues::mixtures}},
            affects_weights());
  table.add("model.num_mixtures",
            options.mixtures,
            "number of logistic components",
            between(1, 1 << 10),
            affects_weights(),
            only_with(is("model.pixel_distribution", {"logistic_mixture"})));
  table.add(
      "model.pixel_position_embedding_type",
      options.positions,
      "embedding of row and column, with the channels of a pixel as separate columns: sinusoidal "
      "(each in half of the features) or learned (a vector per row and per column)",
      {{"sinusoidal", PixelPositions::sinusoidal}, {"learned", PixelPositions::learned}},
      affects_weights());
  table.add("model.right_shift_blockwise",
            options.shift_each_block,
            "prediction of a block's first value from the block's surroundings only "
            "(tensor2tensor); false: also from the last value of the previous block",
            affects_weights(),
            only_with(layer_type({"local_2d"})));
  table.add("model.class_conditional",
            options.of_classes,
            "learned class embedding at each position, for class-conditional generation",
            affects_weights());
  declare(table, options.source);
  std::vector<std::string> source_keys = {
      "model.source_size", "model.use_parallel_residual", "model.num_encoder_layers"};
  if (planned)
    for (const char* const key : {"memory.recompute_num_layers", "memory.recompute_granularity"})
      source_keys.emplace_back(key);
  table.check(std::move(source_keys), [&options, planned] {
    if (!planned) return validate_source(options.source, options.common, {}, {});
    const ModelBuildOptions setting = planned();
    return validate_source(options.source, options.common, setting.memory, setting.image);
  });
  table.check({"model.tie_word_embeddings"}, [&options] { return validate_tied(options); });
  table.check({"model.norm.type"}, [&options] { return validate_norm(options); });
  table.check({"model.class_conditional", "model.source_size"},
              [&options] { return validate_conditions(options); });
  table.warn("model.vocab_size", []() -> std::string { return "pixel values have their own ids"; });
}

BackboneFactory image_transformer_body(const ImageTransformerOptions& options) {
  return [options](const Scope& scope, const ModelBuildOptions& setting) {
    throw_if_error(validate_tied(options));
    throw_if_error(validate_norm(options));
    throw_if_error(validate_conditions(options));
    throw_if_error(validate_source(options.source, options.common, setting.memory, setting.image));
    throw_if_error(problem_of(
        options.common.attention,
        options.common.attention_setting(traits_of({}), max_positions(options, setting))));
    return std::make_unique<ImageTransformer>(scope, options, setting);
  };
}

Family image_transformer_family() {
  return {"image_transformer",
          "autoregressive image model with 1D or 2D local attention (Parmar et al. 2018), for "
          "run.task: image_generation",
          {"image_generation"},
          declared(image_transformer_body)};
}

}  // namespace longspan
