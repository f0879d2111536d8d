#include "framework/interop/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {

namespace {

template <typename T>
T parsed(const std::string& key, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(
      error == std::errc() && end == text.data() + text.size(), "{}: invalid value {}", key, text);
  return value;
}

void add_once(const std::string& name, std::vector<std::string>& names) {
  if (std::ranges::count(names, name) == 0) names.push_back(name);
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const Architecture& each : architectures()) add_once(each.model_type, names);
  return names;
}

// Model types that share dense layers with supported ones.
constexpr std::array<const char*, 3> mixtures_of_experts = {
    "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"};

std::vector<const Architecture*> of_type(const std::string& model_type) {
  std::vector<const Architecture*> found;
  for (const Architecture& each : architectures())
    if (each.model_type == model_type) found.push_back(&each);
  return found;
}

// Returns "architectures" with current class names. Version 2 of `transformers` and the first Llama
// conversions had others.
std::vector<std::string> model_classes_of(const ModelConfig& config) {
  std::vector<std::string> names = config.texts("architectures");
  for (std::string& name : names) {
    if (name == "T5WithLMHeadModel") name = "T5ForConditionalGeneration";
    if (name == "LLaMAForCausalLM") name = "LlamaForCausalLM";
  }
  return names;
}

// Returns the architectures of "model_type". Files from before version 3 of `transformers` lack it;
// then the first known class in "architectures" decides.
std::vector<const Architecture*> candidates(const ModelConfig& config) {
  if (config.has("model_type")) {
    const std::string type = config.text("model_type");
    const std::vector<const Architecture*> found = of_type(type);
    if (std::ranges::count(mixtures_of_experts, type) > 0)
      config.throw_data_error(
          "model_type",
          fmt::format(
              "the mixture-of-experts layers of {} are not supported; import a dense model, "
              "such as one of qwen3_5",
              type));
    if (found.empty())
      config.throw_data_error(
          "model_type", fmt::format("expected {}, found {}", join_or(model_types()), quote(type)));
    return found;
  }
  const std::vector<std::string> model_classes = model_classes_of(config);
  for (const std::string& model_class : model_classes)
    for (const Architecture& each : architectures())
      if (std::ranges::count(each.model_classes, model_class) > 0) return of_type(each.model_type);
  const std::string why =
      model_classes.empty()
          ? "\"architectures\" is empty"
          : fmt::format("unknown class {} in \"architectures\"", quote(model_classes[0]));
  config.throw_data_error(
      "model_type",
      fmt::format(
          "expected a string, found nothing ({}); set it to {}", why, join_or(model_types())));
}

}  // namespace

const std::string& ModelValues::text(const std::string& key) const {
  const auto found = values_.find(key);
  require(found != values_.end(), "no such key in the configuration: {}", key);
  return found->second;
}

std::int64_t ModelValues::integer(const std::string& key) const {
  return parsed<std::int64_t>(key, text(key));
}

std::int64_t ModelValues::integer_or(const std::string& key, std::int64_t otherwise) const {
  return is(key, "none") ? otherwise : integer(key);
}

double ModelValues::number_or(const std::string& key, double otherwise) const {
  return is(key, "none") ? otherwise : parsed<double>(key, text(key));
}

std::vector<std::string> ModelValues::texts(const std::string& key) const {
  std::string_view rest = text(key);
  require(rest.size() >= 2 && rest.front() == '[' && rest.back() == ']',
          "{}: invalid value {}",
          key,
          rest);
  rest = rest.substr(1, rest.size() - 2);
  std::vector<std::string> items;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(", "), rest.size());
    items.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return items;
}

std::vector<double> ModelValues::numbers(const std::string& key) const {
  std::vector<double> numbers;
  for (const std::string& item : texts(key)) numbers.push_back(parsed<double>(key, item));
  return numbers;
}

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = [] {
    std::vector<Architecture> each = {gpt2::architecture()};
    for (Architecture& other : llama::architectures()) each.push_back(std::move(other));
    each.push_back(mamba2::architecture());
    for (Architecture& other : bert::architectures()) each.push_back(std::move(other));
    for (Architecture& other : vit::architectures()) each.push_back(std::move(other));
    each.push_back(bart::architecture());
    each.push_back(t5::architecture());
    return each;
  }();
  return all;
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Architecture& each : architectures()) add_once(each.name, names);
  return names;
}

const Architecture& architecture_of(const ModelConfig& config) {
  const std::vector<const Architecture*> found = candidates(config);
  const Architecture* meant = found.front();
  for (const std::string& model_class : model_classes_of(config)) {
    const auto has = [&](const Architecture* each) {
      return std::ranges::count(each->model_classes, model_class) > 0;
    };
    const auto place = std::ranges::find_if(found, has);
    if (place != found.end()) {
      meant = *place;
      continue;
    }
    std::vector<std::string> known;
    for (const Architecture* const each : found)
      known.insert(known.end(), each->model_classes.begin(), each->model_classes.end());
    config.throw_data_error(
        "architectures",
        fmt::format(
            "expected {} for {}, found {}", join_or(known), meant->name, quote(model_class)));
  }
  return *meant;
}

namespace {

// Returns the number of rows before tensor `index`.
std::int64_t rows_before(const std::vector<Shape>& here, std::size_t index) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < index; ++i) rows += here[i][0];
  return rows;
}

// Calls f(offset there, offset in the part, contiguous elements) for copies that cover the part. A
// transposed matrix is traversed in small tiles, one element per copy.
template <typename F>
void for_each_piece(const TensorPair& pair,
                    const std::vector<Shape>& here,
                    std::size_t index,
                    const F& f) {
  const std::int64_t before = rows_before(here, index);
  const std::int64_t rows = here[index][0];
  const std::int64_t width = rows == 0 ? 0 : here[index].elements() / rows;
  if (pair.orientation == Orientation::same) {
    const std::int64_t all = rows_before(here, here.size()), groups = pair.groups;
    for (std::int64_t group = 0; group < groups; ++group)
      f((group * all + before) / groups * width,
        group * (rows / groups) * width,
        rows / groups * width);
    return;
  }
  constexpr std::int64_t side = 32;
  const std::int64_t all_rows = rows_before(here, here.size());
  for (std::int64_t top = 0; top < rows; top += side)
    for (std::int64_t left = 0; left < width; left += side)
      for (std::int64_t column = left; column < std::min(left + side, width); ++column)
        for (std::int64_t row = top; row < std::min(top + side, rows); ++row)
          f(column * all_rows + before + row, row * width + column, 1);
}

template <typename T>
void copy_part(const TensorPair& pair,
               const std::vector<Shape>& here,
               std::size_t index,
               const Tensor& there,
               const Tensor& part,
               bool to_part) {
  T* const whole = there.data<T>();
  T* const piece = part.data<T>();
  for_each_piece(pair, here, index, [&](std::int64_t place, std::int64_t own, std::int64_t count) {
    if (to_part)
      std::copy_n(whole + place, count, piece + own);
    else
      std::copy_n(piece + own, count, whole + place);
  });
}

}  // namespace

Shape hf_shape(const TensorPair& pair, const std::vector<Shape>& here) {
  const Shape whole = here.front().with(0, rows_before(here, here.size()));
  for (const Shape& shape : here) {
    require(shape.with(0, whole[0]) == whole, "\"{}\": shapes of its parts differ", pair.hf_name);
    require(shape[0] % pair.groups == 0, "\"{}\": unequal groups of rows", pair.hf_name);
  }
  if (!pair.shape.empty()) {
    const Shape other(pair.shape);
    require(other.elements() == whole.elements() && pair.orientation == Orientation::same,
            "\"{}\": number of elements differs",
            pair.hf_name);
    return other;
  }
  if (pair.orientation == Orientation::same) return whole;
  require(whole.dimensions() == 2, "\"{}\" is not a matrix", pair.hf_name);
  return {whole[1], whole[0]};
}

Tensor shard_range(const TensorPair& pair,
                   const Tensor& there,
                   const std::vector<Shape>& here,
                   std::size_t index) {
  if (here.size() == 1 && pair.orientation == Orientation::same) return there.reshape(here.front());
  Tensor part = Tensor::empty(here[index], there.dtype(), there.device(), MemoryTag::workspace);
  if (there.dtype() == DType::f64)
    copy_part<double>(pair, here, index, there, part, true);
  else
    copy_part<float>(pair, here, index, there, part, true);
  return part;
}

void put_part(const TensorPair& pair,
              const Tensor& part,
              const std::vector<Shape>& here,
              std::size_t index,
              const Tensor& there) {
  if (there.dtype() == DType::f64)
    copy_part<double>(pair, here, index, there, part, false);
  else
    copy_part<float>(pair, here, index, there, part, false);
}

namespace {

constexpr std::array<const char*, 6> token_id_keys = {"bos_token_id",
                                                      "pad_token_id",
                                                      "eos_token_id",
                                                      "decoder_start_token_id",
                                                      "forced_bos_token_id",
                                                      "forced_eos_token_id"};
constexpr std::array<const char*, 14> requests = {"do_sample",
                                                  "num_beams",
                                                  "num_beam_groups",
                                                  "length_penalty",
                                                  "min_length",
                                                  "max_length",
                                                  "min_new_tokens",
                                                  "max_new_tokens",
                                                  "no_repeat_ngram_size",
                                                  "encoder_no_repeat_ngram_size",
                                                  "repetition_penalty",
                                                  "bad_words_ids",
                                                  "suppress_tokens",
                                                  "begin_suppress_tokens"};

std::optional<ModelConfig> generation_config(const ModelConfig& config) {
  const auto path = std::filesystem::path(config.place()).parent_path() / generation_config_name;
  std::error_code unused;
  if (!std::filesystem::exists(path, unused)) return std::nullopt;
  return ModelConfig(path);
}

}  // namespace

TokenIds read_token_ids(const ModelConfig& config,
                        std::int64_t vocabulary,
                        const TokenIds& otherwise) {
  const std::optional<ModelConfig> generation = generation_config(config);
  TokenIds ids;
  for (const char* const key : token_id_keys) {
    const ModelConfig& source = generation && generation->has(key) ? *generation : config;
    if (source.is_list(key)) source.throw_data_error(key, "expected one id, found a list");
    const bool is_configured =
        config.is_present(key) || (generation && generation->is_present(key));
    if (source.has(key))
      ids[key] = source.integer(key, 0, vocabulary - 1);
    else if (const auto usual = otherwise.find(key); !is_configured && usual != otherwise.end())
      ids.insert(*usual);
  }
  const auto forced = ids.find("forced_eos_token_id");
  if (forced == ids.end()) return ids;
  const auto end = ids.find("eos_token_id");
  if (end == ids.end() || end->second != forced->second)
    config.throw_data_error(
        forced->first,
        fmt::format("expected the id of \"eos_token_id\", found {}", forced->second));
  return ids;
}

std::vector<std::string> unsupported_generation_settings(const ModelConfig& config) {
  const std::optional<ModelConfig> generation = generation_config(config);
  std::vector<std::string> found;
  for (const char* const key : requests)
    if (config.has(key) || (generation && generation->has(key))) found.emplace_back(key);
  return found;
}

void write_token_ids(const TokenIds& ids, nlohmann::ordered_json& config) {
  for (const char* const key : token_id_keys) {
    const auto found = ids.find(key);
    config[key] = nullptr;
    if (found != ids.end()) config[key] = found->second;
  }
}

}  // namespace longspan
