#include "framework/tracking/metrics_record.h"

#include <chrono>

namespace longspan {
namespace {

std::string_view name_of(MetricGroup group) {
  switch (group) {
    case MetricGroup::training:
      return "training";
    case MetricGroup::validation:
      return "validation";
    case MetricGroup::time:
      return "time";
    case MetricGroup::memory:
      return "memory";
  }
  return "";
}

}  // namespace

double seconds_of_the_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string column_of(const MetricField& field) {
  return field.group == MetricGroup::validation ? "validation_" + field.name : field.name;
}

std::string tag_of(const MetricField& field) {
  return std::string(name_of(field.group)) + "/" + field.name;
}

double number_of(const MetricField& field) {
  return std::visit([](auto value) { return static_cast<double>(value); }, field.value);
}

}  // namespace longspan
