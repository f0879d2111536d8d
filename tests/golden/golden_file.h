// A golden file: inputs and results of reference code in float64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan::golden {

// Root attributes are hyper-parameters; the groups inputs, weights, outputs and gradients hold
// datasets of f64 or i64. The constructor reads all of them and records access by name, so that
// checks can report unused ones. All methods throw DataError with the file's name.
class GoldenFile {
 public:
  explicit GoldenFile(const std::filesystem::path& path);

  // The file's name without extension, such as "attention-causal".
  const std::string& name() const { return name_; }

  std::int64_t integer(const std::string& attribute) const;
  std::vector<std::int64_t> integers(const std::string& attribute) const;
  double real(const std::string& attribute) const;
  const std::string& text(const std::string& attribute) const;
  // An integer that is 0 or 1.
  bool flag(const std::string& attribute) const;

  // Datasets have names such as "inputs/x".
  bool has(const std::string& dataset) const { return datasets_.contains(dataset); }
  // The tensor shares its elements: clone before writing.
  const Tensor& numbers(const std::string& dataset) const;
  const Tensor& ids(const std::string& dataset) const;

  // Attributes and datasets that were not read, except descriptions.
  std::vector<std::string> unused() const;

 private:
  using Attribute = std::variant<std::vector<std::int64_t>, std::vector<double>, std::string>;

  const Attribute& attribute(const std::string& name) const;
  const Tensor& dataset(const std::string& name, DType dtype) const;

  std::string name_;
  std::map<std::string, Attribute> attributes_;
  std::map<std::string, Tensor> datasets_;
  mutable std::set<std::string> used_;
};

}  // namespace longspan::golden
