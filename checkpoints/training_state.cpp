#include "checkpoints/training_state.h"

namespace longspan {

const Scalars::Value& Scalars::value(const std::string& name, std::size_t type) const {
  constexpr std::string_view types[] = {"a boolean", "an integer", "a number", "a string"};
  const auto found = values_.find(name);
  if (found == values_.end())
    throw DataError("training state: missing scalar \"{}\" (expected {})", name, types[type]);
  if (found->second.index() != type)
    throw DataError("training state: scalar \"{}\": expected {}, found {}",
                    name,
                    types[type],
                    types[found->second.index()]);
  return found->second;
}

void TrainingState::add(const std::string& name, const Tensor& tensor, bool owned) {
  const auto dimensions = static_cast<std::size_t>(tensor.shape().dimensions());
  add_box(name, tensor, tensor.shape(), std::vector<std::int64_t>(dimensions, 0), owned);
}

void TrainingState::add_part(const std::string& name,
                             const Tensor& tensor,
                             int axis,
                             std::int64_t begin,
                             std::int64_t extent,
                             bool owned) {
  const int dimensions = tensor.shape().dimensions();
  require(axis >= -dimensions && axis < dimensions,
          "tensor \"{}\": shape {} has no axis {}",
          name,
          tensor.shape().to_string(),
          axis);
  std::vector<std::int64_t> offset(static_cast<std::size_t>(dimensions), 0);
  offset[static_cast<std::size_t>(axis < 0 ? axis + dimensions : axis)] = begin;
  add_box(name, tensor, tensor.shape().with(axis, extent), std::move(offset), owned);
}

void TrainingState::add_box(const std::string& name,
                            const Tensor& tensor,
                            const Shape& global_shape,
                            std::vector<std::int64_t> offset,
                            bool owned) {
  tensors.push_back({name, tensor, global_shape, std::move(offset), owned});
}

}  // namespace longspan
