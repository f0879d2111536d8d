#include "framework/weights/architecture.h"

#include <algorithm>
#include <charconv>

#include "framework/core/error.h"
#include "framework/core/option_text.h"
#include "framework/weights/gpt2.h"
#include "framework/weights/llama.h"

namespace longspan {
namespace {

template <typename T>
T parsed(const std::string& key, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "{} is {}", key, text);
  return value;
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const Architecture& each : architectures()) names.push_back(each.model_type);
  return names;
}

const Architecture* find(const std::string& model_type) {
  const auto found = std::ranges::find(architectures(), model_type, &Architecture::model_type);
  return found == architectures().end() ? nullptr : &*found;
}

}  // namespace

const std::string& ModelValues::text(const std::string& key) const {
  const auto found = values_.find(key);
  require(found != values_.end(), "the configuration has no key {}", key);
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
  require(rest.size() >= 2 && rest.front() == '[' && rest.back() == ']', "{} is {}", key, rest);
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
    std::vector<Architecture> each = {gpt2_architecture()};
    for (Architecture& other : llama_architectures()) each.push_back(std::move(other));
    return each;
  }();
  return all;
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Architecture& each : architectures()) names.push_back(each.name);
  return names;
}

const Architecture& architecture_of(const ModelConfig& config) {
  const std::string type = config.text("model_type");
  const Architecture* found = find(type);
  if (found == nullptr)
    config.refuse(
        "model_type",
        fmt::format("found {}; Longspan imports {}", in_quotes(type), either(model_types())));
  for (const std::string& model_class : config.texts("architectures"))
    if (std::ranges::count(found->model_classes, model_class) == 0)
      config.refuse("architectures",
                    fmt::format("found {}; of {} Longspan imports {}",
                                in_quotes(model_class),
                                found->name,
                                either(found->model_classes)));
  return *found;
}

}  // namespace longspan
