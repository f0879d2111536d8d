// A golden file: numbers made with the authors' own code in float64, and what they were made from.
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
// datasets of f64 or i64. Read whole, and asked for by name: what was never asked for is known, so
// that nothing in a file is passed over. Everything throws DataError with the file's name.
class GoldenFile {
 public:
  explicit GoldenFile(const std::filesystem::path& path);

  // "attention-causal": the file's name without its ending.
  const std::string& name() const { return name_; }

  std::int64_t integer(const std::string& attribute) const;
  std::vector<std::int64_t> integers(const std::string& attribute) const;
  double real(const std::string& attribute) const;
  const std::string& text(const std::string& attribute) const;
  // An integer that is 0 or 1.
  bool flag(const std::string& attribute) const;

  // Of "inputs/x" and so on.
  bool has(const std::string& dataset) const { return datasets_.contains(dataset); }
  // The elements are shared: clone what is to be written.
  const Tensor& numbers(const std::string& dataset) const;
  const Tensor& ids(const std::string& dataset) const;

  // The attributes and datasets that nobody asked for, but for those that only describe.
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
