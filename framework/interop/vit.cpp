#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/quote.h"
#include "framework/interop/architecture.h"
#include "framework/interop/config_keys.h"
#include "framework/interop/label_names.h"

namespace longspan::vit {
namespace {

constexpr const char* type = "vit";

// Head on top of the backbone.
enum class Head : std::uint8_t { classes, none };

// Reads "image_size" and similar keys, which may be two numbers: height and width.
std::pair<std::int64_t, std::int64_t> read_size(const ModelConfig& config, const std::string& key) {
  if (!config.is_list(key)) {
    const std::int64_t side = config.integer(key, 1, 1 << 14);
    return {side, side};
  }
  const std::vector<double> sides = config.numbers(key);
  const auto is_side = [](double side) {
    return side >= 1 && side <= 1 << 14 && side == static_cast<double>(std::int64_t(side));
  };
  if (sides.size() != 2 || !std::ranges::all_of(sides, is_side))
    config.throw_data_error(key,
                            "expected a number of pixels, or a height and a width, found a list");
  return {static_cast<std::int64_t>(sides[0]), static_cast<std::int64_t>(sides[1])};
}

// Reads one number per channel, or a common one.
std::vector<double> read_each(const ModelConfig& config,
                              const std::string& key,
                              std::int64_t channels) {
  if (!config.has(key)) return {0.5};
  if (!config.is_list(key)) return {config.number(key, 0.5)};
  const std::vector<double> each = config.numbers(key);
  if (std::ssize(each) != channels && each.size() != 1)
    config.throw_data_error(
        key,
        fmt::format("expected a number for each of {} channels, found {}", channels, each.size()));
  return each;
}

// Images must have the model's size and are not preprocessed. Resizing settings therefore have no
// effect.
void check_preprocessor(const ModelConfig& pixels) {
  constexpr const char* as_they_are = "images are read unchanged";
  for (const char* const key : {"do_center_crop", "do_pad", "do_flip_channel_order"})
    pixels.require_flag(key, false, as_they_are);
  pixels.ignore_keys({"do_resize",
                      "size",
                      "resample",
                      "default_to_square",
                      "size_divisor",
                      "crop_size",
                      "do_convert_rgb",
                      "image_mean",
                      "image_std",
                      "rescale_factor"});
  // Provenance, and the output format of the image processor.
  pixels.ignore_keys({"image_processor_type",
                      "feature_extractor_type",
                      "processor_class",
                      "_processor_class",
                      "_valid_processor_keys",
                      "data_format",
                      "input_data_format",
                      "return_tensors",
                      "device",
                      "disable_grouping"});
}

// Reads the pixel transformation, for values 0 to 255.
void read_pixels(const ModelConfig& config, std::int64_t channels, ImportedConfig& meaning) {
  std::vector<double> mean = {0.5}, deviation = {0.5};
  const std::filesystem::path path =
      std::filesystem::path(config.place()).parent_path() / pixels_config_name;
  std::error_code unused;
  if (std::filesystem::exists(path, unused)) {
    const ModelConfig pixels(path);
    check_preprocessor(pixels);
    const bool normalized = pixels.flag("do_normalize", true);
    const double factor = pixels.flag("do_rescale", true)
                              ? 255 * pixels.number("rescale_factor", 1.0 / 255, above_0)
                              : 255;
    mean = normalized ? read_each(pixels, "image_mean", channels) : std::vector<double>{0};
    deviation = normalized ? read_each(pixels, "image_std", channels) : std::vector<double>{1};
    for (double& each : mean) each /= factor;
    for (double& each : deviation) {
      if (each <= 0) pixels.throw_data_error("image_std", "expected numbers above 0");
      each /= factor;
    }
    pixels.finish();
  } else {
    meaning.remarks.push_back(
        fmt::format("no {}: model.image_mean and model.image_std are 0.5", pixels_config_name));
  }
  meaning.settings.emplace_back("model.image_mean", fmt::format("[{}]", fmt::join(mean, ", ")));
  meaning.settings.emplace_back("model.image_std", fmt::format("[{}]", fmt::join(deviation, ", ")));
}

void read_image(const ModelConfig& config, ImportedConfig& meaning) {
  const auto [height, width] = read_size(config, "image_size");
  const auto [side, other] = read_size(config, "patch_size");
  const std::int64_t channels = config.integer("num_channels", 1, 3);
  if (side != other) config.throw_data_error("patch_size", "expected a square, found two sides");
  if (channels == 2) config.throw_data_error("num_channels", "expected 1 or 3, found 2");
  if (height % side != 0 || width % side != 0)
    config.throw_data_error(
        "patch_size",
        fmt::format("expected a divisor of the image size {} x {}, found {}", height, width, side));
  meaning.image = {height, width, channels};
  const std::int64_t values = height * width * channels;
  ModelSettings& settings = meaning.settings;
  settings.emplace_back("model.patch_size", fmt::format("{}", side));
  settings.emplace_back("model.max_position_embeddings",
                        fmt::format("{}", 1 + (height / side) * (width / side)));
  settings.emplace_back("data.format", "images");
  settings.emplace_back("data.max_length", fmt::format("{}", values));
  settings.emplace_back("data.global_batch_tokens", fmt::format("{}", 16 * values));
  read_pixels(config, channels, meaning);
}

ImportedConfig read(Head head, const ModelConfig& config) {
  config.pass_over_common();
  config.require_encoder_alone();
  // Setting of a pixel prediction head.
  config.ignore_keys({"encoder_stride"});
  ImportedConfig meaning = {.settings = read_encoder_keys(config, 0)};
  const ModelSettings own = {
      {"run.task", "classification"},
      {"model.norm.position", "pre"},
      {"model.position_embedding_type", "learned"},
      {"model.add_pooling_layer", head == Head::none ? "true" : "false"},
      {"model.attention.bias",
       config.flag("qkv_bias", true) ? "[query, key, value, out]" : "[out]"},
  };
  meaning.settings.insert(meaning.settings.end(), own.begin(), own.end());
  // Settings of a pooler, which a classification head lacks.
  if (head == Head::none) {
    const std::int64_t width = config.integer("hidden_size", 1, INT64_MAX);
    if (config.has("pooler_output_size") &&
        config.integer("pooler_output_size", 1, INT64_MAX) != width)
      config.throw_data_error("pooler_output_size",
                              fmt::format("expected {} (hidden_size)", width));
    if (config.has("pooler_act") && config.text("pooler_act") != "tanh")
      config.throw_data_error(
          "pooler_act", fmt::format("expected tanh, found {}", quote(config.text("pooler_act"))));
  }
  config.ignore_keys({"pooler_output_size", "pooler_act"});
  read_image(config, meaning);
  if (head == Head::classes) read_label_names(config, meaning);
  config.finish();
  return meaning;
}

// Returns 0 without images.
std::int64_t of_image(const ModelValues& values, const std::string& key) {
  return values.all().contains(key) ? values.integer(key) : 0;
}

bool has_bias(const ModelValues& values, const std::string& projection) {
  return std::ranges::count(values.texts("model.attention.bias"), projection) > 0;
}

nlohmann::ordered_json write(const ModelValues& values) {
  const std::int64_t height = of_image(values, "image.height");
  const std::int64_t across = of_image(values, "image.width");
  nlohmann::ordered_json size = height;
  if (height != across) size = {height, across};
  nlohmann::ordered_json config = {{"model_type", type},
                                   {"image_size", size},
                                   {"patch_size", values.integer_or("model.patch_size", 1)},
                                   {"num_channels", of_image(values, "image.channels")},
                                   {"qkv_bias", has_bias(values, "query")}};
  config.update(write_encoder_keys(values));
  return config;
}

nlohmann::ordered_json write_pixels(const ModelValues& values) {
  const auto each = [&](const std::string& key) {
    std::vector<double> numbers = values.numbers(key);
    if (numbers.size() == 1)
      numbers.resize(static_cast<std::size_t>(of_image(values, "image.channels")), numbers[0]);
    return numbers;
  };
  return {
      {"image_processor_type", "ViTImageProcessor"},
      {"do_resize", true},
      {"size",
       {{"height", of_image(values, "image.height")}, {"width", of_image(values, "image.width")}}},
      {"do_rescale", true},
      {"rescale_factor", 1.0 / 255},
      {"do_normalize", true},
      {"image_mean", each("model.image_mean")},
      {"image_std", each("model.image_std")}};
}

std::vector<TensorPair> tensors(Head head, const ModelValues& values) {
  const std::int64_t width = values.integer("model.hidden_size");
  const std::int64_t side = values.integer("model.patch_size");
  const std::string input = "vit.embeddings.";
  std::vector<TensorPair> pairs = {
      {.hf_name = input + "cls_token",
       .longspan_names = {"class_token/weight"},
       .shape = {1, 1, width}},
      {.hf_name = input + "position_embeddings",
       .longspan_names = {"positions/weight"},
       .shape = {1, values.integer("model.max_position_embeddings"), width}},
      {.hf_name = input + "patch_embeddings.projection.weight",
       .longspan_names = {"patches/weight"},
       .shape = {width, of_image(values, "image.channels"), side, side}},
      {.hf_name = input + "patch_embeddings.projection.bias",
       .longspan_names = {"patches/bias"},
       .shape = {width}}};
  const auto add = [&](const std::string& there,
                       const std::string& here,
                       bool bias = true,
                       bool optional = false) {
    pairs.push_back(
        {.hf_name = there + ".weight", .longspan_names = {here + "/weight"}, .optional = optional});
    if (bias)
      pairs.push_back(
          {.hf_name = there + ".bias", .longspan_names = {here + "/bias"}, .optional = optional});
  };
  for (std::int64_t layer = 0; layer < values.integer("model.num_hidden_layers"); ++layer) {
    const std::string there = fmt::format("vit.encoder.layer.{}.", layer);
    const std::string attention = fmt::format("layers/{}/attention/", layer);
    const std::string feed = fmt::format("layers/{}/feed_forward/", layer);
    add(there + "layernorm_before", attention + "norm");
    for (const std::string each : {"query", "key", "value"})
      add(there + "attention.attention." + each, attention + each, has_bias(values, each));
    add(there + "attention.output.dense", attention + "out");
    add(there + "layernorm_after", feed + "norm");
    add(there + "intermediate.dense", feed + "in");
    add(there + "output.dense", feed + "out");
  }
  add("vit.layernorm", "final_norm");
  if (head == Head::none)
    add("vit.pooler.dense", "output/layer", true, true);
  else
    add("classifier", "output");
  return pairs;
}

Architecture architecture(Head head) {
  Architecture made = {
      .model_type = type,
      .name = "ViT",
      .family = "encoder",
      .prefix = "vit.",
      .read = [head](const ModelConfig& config) { return read(head, config); },
      .write = write,
      .tensors = [head](const ModelValues& values) { return tensors(head, values); },
      .is_constant = [](std::string_view) { return false; },
      .is_headless = head == Head::none,
      .write_pixels = write_pixels};
  if (head == Head::classes) {
    made.model_classes = {"ViTForImageClassification"};
    made.resolve = label_settling("classifier.weight");
    return made;
  }
  made.model_classes = {"ViTModel", "ViTForMaskedImageModeling"};
  made.is_unsupported_tensor = [](std::string_view name) {
    return name.starts_with("decoder.") || name.ends_with("embeddings.mask_token");
  };
  return made;
}

}  // namespace

std::vector<Architecture> architectures() {
  return {architecture(Head::none), architecture(Head::classes)};
}

}  // namespace longspan::vit
