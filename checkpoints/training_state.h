// State of a run that checkpoints save: named sharded tensors and scalars.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// This rank's piece of a named tensor: a box of the global tensor. It is a handle: loading a
// checkpoint fills the elements in place.
struct StateTensor {
  // Components of letters, digits, '_', '-' and '.', joined by '/', such as
  // "layers/0/attention/query/weight" or "optimizer/exp_avg/layers/0/attention/query/weight". No
  // name is a parent directory of another. One rank may have several pieces of one tensor under an
  // equal name.
  std::string name;
  Tensor tensor;
  Shape global_shape;                // as many dimensions as the piece
  std::vector<std::int64_t> offset;  // of the piece in the global tensor, per dimension
  // Whether this rank writes the piece. Over all ranks each element is owned exactly once. Other
  // copies are only loaded.
  bool owned = true;
  // Produces the elements for a save, so that only one piece is in memory at a time. Returns a host
  // tensor of the shape and dtype of `tensor`, which may then be on a dry device. Undefined: the
  // elements are in `tensor`.
  std::function<Tensor()> make = {};
};

// Named values, equal on every rank. Doubles are saved bit-exactly, including NaN and infinity.
class Scalars {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  void set(const std::string& name, bool value) { values_[name] = value; }
  template <std::integral I>
  requires(!std::same_as<I, bool>) void set(const std::string& name, I value) {
    // The bits of an unsigned 64-bit value are preserved.
    values_[name] = static_cast<std::int64_t>(value);
  }
  template <std::floating_point F>
  void set(const std::string& name, F value) {
    values_[name] = static_cast<double>(value);
  }
  // Text must be UTF-8.
  void set(const std::string& name, std::string_view value) { values_[name] = std::string(value); }
  void set(const std::string& name, const char* value) { values_[name] = std::string(value); }

  bool has(const std::string& name) const { return values_.contains(name); }
  // Returns the value of a name. T is bool, an integer type, a floating type or std::string. Throws
  // DataError when it is missing or has another type.
  template <typename T>
  T get(const std::string& name) const {
    if constexpr (std::same_as<T, bool>)
      return std::get<bool>(value(name, 0));
    else if constexpr (std::integral<T>)
      return static_cast<T>(std::get<std::int64_t>(value(name, 1)));
    else if constexpr (std::floating_point<T>)
      return static_cast<T>(std::get<double>(value(name, 2)));
    else
      return std::get<std::string>(value(name, 3));
  }
  template <typename T>
  T get_or(const std::string& name, T otherwise) const {
    return has(name) ? get<T>(name) : otherwise;
  }

  const std::map<std::string, Value>& values() const { return values_; }
  std::map<std::string, Value>& values() { return values_; }

 private:
  const Value& value(const std::string& name, std::size_t type) const;

  std::map<std::string, Value> values_;
};

struct TrainingState {
  std::vector<StateTensor> tensors;
  Scalars scalars;

  // Adds a tensor that this rank has in full.
  void add(const std::string& name, const Tensor& tensor, bool owned);
  // Adds a tensor sharded along one axis. This rank has [begin, begin + tensor.shape()[axis]) of
  // `extent`, and all of the other axes.
  void add_part(const std::string& name,
                const Tensor& tensor,
                int axis,
                std::int64_t begin,
                std::int64_t extent,
                bool owned);
  // Adds a tensor with any box.
  void add_box(const std::string& name,
               const Tensor& tensor,
               const Shape& global_shape,
               std::vector<std::int64_t> offset,
               bool owned);
};

}  // namespace longspan
