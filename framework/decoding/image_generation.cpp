#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/decoding/generation.h"
#include "framework/decoding/sampling.h"
#include "framework/kernels/logistic_mixture.h"
#include "framework/kernels/logistic_mixture_pixel.h"
#include "framework/modeling/all_gather_logits.h"
#include "framework/nn/attention/kv_cache.h"

namespace longspan {

namespace {

// A batch of images.
class Drawing {
 public:
  Drawing(const Model& model, std::span<PartialImage> images)
      : model_(model), images_(images), sequence_(*model.body().end().pixels) {
    std::vector<std::int64_t> labels;
    for (const PartialImage& image : images) labels.push_back(image.label);
    labels_ = host_tensor(labels, {std::ssize(labels)});
    const std::optional<ImageShape> source = model.body().end().source_image;
    if (!source) return;
    std::vector<std::int64_t> sources;
    for (const PartialImage& image : images)
      sources.insert(sources.end(), image.source.begin(), image.source.end());
    sources_ = host_tensor(sources, {std::ssize(images), source->values()});
  }

  // Returns the first position from `begin` on at which an image has a value to generate.
  std::int64_t next_to_draw(std::int64_t begin) const {
    const auto is_open = [&](std::int64_t position) {
      return std::ranges::any_of(
          images_, [&](PartialImage& image) { return values(image, position)[0] < 0; });
    };
    while (begin < sequence_.positions() && !is_open(begin)) ++begin;
    return begin;
  }

  // Returns the output head's scores of the last of these positions for each image.
  std::vector<double> read(std::int64_t begin, std::int64_t end) {
    const std::int64_t together = sequence_.channels_per_position();
    std::vector<std::int64_t> ids(static_cast<std::size_t>((end - begin) * together) *
                                  images_.size());
    std::int64_t* to = ids.data();
    for (const PartialImage& image : images_)
      for (std::int64_t i = begin; i < end; ++i, to += together)
        sequence_.read_at(i, image.values.data(), to);
    ModelInput reading = {
        .fields = {{"tokens", host_tensor(ids, {std::ssize(images_), (end - begin) * together})},
                   {"label", labels_}},
        .only_last = true};
    if (sources_.defined()) reading.fields["source"] = sources_;
    const Scores result = model_.scores(reading, ForwardContext{.kv_cache = kept_});
    const ShardRange& part = model_.readout().part();
    const Communicator shared =
        part.count == part.total ? Communicator() : model_.parameters().mesh().tensor;
    const Tensor logits = all_gather_logits(result.scores.value(), part, shared);
    const auto copy = [](const auto& values) {
      return std::vector<double>(values.begin(), values.end());
    };
    return logits.dtype() == DType::f32 ? copy(logits.span<float>()) : copy(logits.span<double>());
  }

  std::int64_t positions() const { return sequence_.positions(); }
  // Values predicted together at a position.
  std::span<std::int64_t> values(PartialImage& image, std::int64_t position) const {
    const auto together = static_cast<std::size_t>(sequence_.channels_per_position());
    return std::span(image.values)
        .subspan(static_cast<std::size_t>(sequence_.position_of(position)) * together, together);
  }

 private:
  Tensor host_tensor(const std::vector<std::int64_t>& values, const Shape& shape) const {
    return Tensor::from<std::int64_t>(
        values, shape, model_.parameters().device().host(), MemoryTag::workspace);
  }

  const Model& model_;
  std::span<PartialImage> images_;
  PixelSequence sequence_;
  Tensor labels_;
  Tensor sources_;  // undefined if the model reads none
  std::shared_ptr<KVCache> kept_ = std::make_shared<KVCache>();
};

void draw_together(const Model& model,
                   std::span<PartialImage> images,
                   std::int64_t first,
                   const ImageGenerationOptions& options) {
  const Random random = Random(options.seed).child("pixels");
  const std::int64_t mixtures = model.body().end().mixtures;
  Drawing drawing(model, images);
  std::int64_t read = 0;
  for (std::int64_t i = drawing.next_to_draw(0); i < drawing.positions();
       i = drawing.next_to_draw(i + 1)) {
    const std::vector<double> logits = drawing.read(read, i + 1);
    read = i + 1;
    const auto place = static_cast<std::uint64_t>(i);
    const std::size_t numbers = logits.size() / images.size();
    for (std::size_t image = 0; image < images.size(); ++image) {
      const std::span<std::int64_t> values = drawing.values(images[image], i);
      const auto of_image = std::span(logits).subspan(image * numbers, numbers);
      const Random own = random.child(static_cast<std::uint64_t>(first) + image);
      if (values[0] >= 0) continue;
      if (mixtures > 0)
        sample_logistic_mixture(
            of_image, mixtures, options.sampling.temperature, own.child(place), values);
      else
        values[0] = sample_token(of_image, options.sampling, uniform_at(own, place));
    }
  }
}

}  // namespace

void sample_images(const Model& model,
                   std::span<PartialImage> images,
                   const ImageGenerationOptions& options) {
  const OutputHeadSpec end = model.body().end();
  require(end.pixels.has_value(), "image generation requires a model that predicts pixels");
  check_sampling(options.sampling);
  if (const int context = model.parameters().mesh().context.size(); context > 1)
    throw ConfigurationError(
        "parallel.context_parallel_size: expected 1, found {}: image "
        "generation does not support context parallelism",
        context);
  if (!model.body().supports_kv_cache())
    throw ConfigurationError(
        "model.attention.layer_types: image generation requires attention types that support a KV "
        "cache: full, sliding_window, local_1d or local_2d");
  if (end.mixtures > 0 && (options.sampling.top_k > 0 || options.sampling.top_p < 1))
    throw ConfigurationError(
        "top-k and top-p do not support models with model.pixel_distribution: "
        "logistic_mixture; use the temperature");
  for (const PartialImage& image : images)
    require(std::ssize(image.values) == end.pixels->shape().values(),
            "expected an image of {} values, found {}",
            end.pixels->shape().values(),
            image.values.size());
  if (end.source_image)
    for (const PartialImage& image : images)
      require(std::ssize(image.source) == end.source_image->values(),
              "expected a source image of {} values, found {}",
              end.source_image->values(),
              image.source.size());
  const NoGradGuard unrecorded;
  const auto together = static_cast<std::size_t>(options.batch_size);
  for (std::size_t begin = 0; begin < images.size(); begin += together)
    draw_together(model,
                  images.subspan(begin, std::min(together, images.size() - begin)),
                  static_cast<std::int64_t>(begin),
                  options);
}

namespace {

double intensity_of(std::int64_t value) { return logistics::intensity_of<double>(value); }

std::int64_t nearest_value(double place) {
  return static_cast<std::int64_t>(std::lround(255 * (std::clamp(place, -1.0, 1.0) + 1) / 2));
}

}  // namespace

void sample_logistic_mixture(std::span<const double> numbers,
                             std::int64_t mixtures,
                             double temperature,
                             const Random& place,
                             std::span<std::int64_t> values) {
  const std::int64_t channels = std::ssize(values);
  require(std::ssize(numbers) == mixture_parameters(mixtures, channels),
          "invalid mixture: {} parameters for {} channels",
          numbers.size(),
          channels);
  check_logits(numbers);
  const auto logits = numbers.first(static_cast<std::size_t>(mixtures));
  const std::int64_t k = sample_token(logits, {.temperature = temperature}, uniform_at(place, 0));
  const auto at = [&](std::int64_t channel, std::int64_t kind) {
    const std::int64_t kinds = channels == 1 ? 2 : 3;
    return numbers[static_cast<std::size_t>(mixtures * (1 + channel * kinds + kind) + k)];
  };
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double mean = at(channel, 0);
    if (channel == 1) mean += std::tanh(at(0, 2)) * intensity_of(values[0]);
    if (channel == 2)
      mean += std::tanh(at(1, 2)) * intensity_of(values[0]) +
              std::tanh(at(2, 2)) * intensity_of(values[1]);
    const double scale = temperature * std::exp(std::max(at(channel, 1), logistics::min_log_scale));
    // Avoids log(0).
    const double u = std::max(uniform_at(place, static_cast<std::uint64_t>(1 + channel)), 0x1p-54);
    values[static_cast<std::size_t>(channel)] =
        nearest_value(mean + scale * (std::log(u) - std::log1p(-u)));
  }
}

}  // namespace longspan
