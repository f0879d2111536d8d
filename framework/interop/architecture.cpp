#include "framework/interop/architecture.h"

#include <algorithm>
#include <charconv>

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

}  // namespace longspan
