// All that must survive a run: every named, sharded tensor and every scalar.
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

// This rank's piece of a named tensor: a box of the whole. It is a handle: reading a checkpoint
// fills the elements in place.
struct StateTensor {
  // Components of letters, digits, '_', '-' and '.', joined by '/', such as
  // "layers/0/attention/query/weight" or "optimizer/first/layers/0/attention/query/weight". No name
  // is the folder of another. One rank may hold several pieces of one tensor under the same name.
  std::string name;
  Tensor tensor;
  Shape global_shape;                // as many dimensions as the piece
  std::vector<std::int64_t> offset;  // where the piece begins in the whole, an entry a dimension
  // Whether this rank writes the piece. Over all ranks each element is owned exactly once; a piece
  // that is not owned is only read.
  bool owned = true;
  // Where a save gets the elements, one piece after another, so that no more than one of them need
  // be in memory: on the host, of the shape and dtype of `tensor`, which may then lie on a dry
  // device. Undefined: they are in `tensor`.
  std::function<Tensor()> make = {};
};

// Named values that are the same on every rank. Doubles survive to the bit, NaN and infinity too.
class Scalars {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  void set(const std::string& name, bool value) { values_[name] = value; }
  template <std::integral I>
  requires(!std::same_as<I, bool>) void set(const std::string& name, I value) {
    // An unsigned value of 64 bits keeps its bits.
    values_[name] = static_cast<std::int64_t>(value);
  }
  template <std::floating_point F>
  void set(const std::string& name, F value) {
    values_[name] = static_cast<double>(value);
  }
  // Text is UTF-8.
  void set(const std::string& name, std::string_view value) { values_[name] = std::string(value); }
  void set(const std::string& name, const char* value) { values_[name] = std::string(value); }

  bool has(const std::string& name) const { return values_.contains(name); }
  // The value of that name; T is bool, an integer type, a floating type or std::string. Throws
  // DataError when there is none or it is of another type.
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

  // A tensor that this rank holds whole.
  void add(const std::string& name, const Tensor& tensor, bool owned);
  // A tensor of which this rank holds [begin, begin + tensor.shape()[axis]) of `extent` along one
  // axis, and all of the others.
  void add_part(const std::string& name,
                const Tensor& tensor,
                int axis,
                std::int64_t begin,
                std::int64_t extent,
                bool owned);
  // Any box.
  void add_box(const std::string& name,
               const Tensor& tensor,
               const Shape& global_shape,
               std::vector<std::int64_t> offset,
               bool owned);
};

}  // namespace longspan
