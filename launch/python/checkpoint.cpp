// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/checkpoint.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "framework/training_loop/loading.h"
#include "launch/cli/loaded_run.h"
#include "launch/python/python_values.h"

namespace longspan::python {
namespace {

using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;
using TensorRow = std::tuple<std::string, std::string, std::vector<std::int64_t>>;

// Opens the named checkpoint of the run at `path`, or else the checkpoint or newest step at `path`.
Checkpoint open(const std::string& path, const std::optional<std::string>& name) {
  const nb::gil_scoped_release others_run;
  const ReadProgress watch = [](std::int64_t) { check_signals(); };
  if (!name) return Checkpoint::open(checkpoints_at(path).back(), watch);
  auto found = open_checkpoint(name, path, {}, watch);
  if (!found) throw DataError("{}", no_checkpoint_message(path));
  return found->checkpoint;
}

std::vector<TensorRow> tensors(const Checkpoint& checkpoint) {
  std::vector<TensorRow> rows;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const auto extents = tensor.shape.extents();
    rows.emplace_back(tensor.name,
                      std::string(name_of(tensor.dtype)),
                      std::vector<std::int64_t>(extents.begin(), extents.end()));
  }
  return rows;
}

// Returns the full tensor's elements as raw bytes, from whatever ranks wrote them.
Bytes read(const Checkpoint& checkpoint, const std::string& name) {
  const auto tensor = [&] {
    const nb::gil_scoped_release others_run;
    const Shape& shape = checkpoint.shape_of(name);
    const Tensor whole =
        Tensor::empty(shape, checkpoint.dtype_of(name), Device::cpu(), MemoryTag::workspace);
    checkpoint.read(
        {.name = name,
         .tensor = whole,
         .global_shape = shape,
         .offset = std::vector<std::int64_t>(static_cast<std::size_t>(shape.dimensions()), 0)});
    return std::make_unique<Tensor>(whole);
  }();
  std::byte* const bytes = tensor->bytes();
  const std::size_t size = tensor->byte_size();
  const nb::capsule owner(new Tensor(*tensor),
                          [](void* last) noexcept { delete static_cast<Tensor*>(last); });
  return Bytes(bytes, {size}, owner);
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  nb::class_<Checkpoint>(module, "Checkpoint", "One saved step.")
      .def_static("open", &open, nb::arg("path"), nb::arg("name") = nb::none())
      .def_prop_ro("path", [](const Checkpoint& self) { return self.path().string(); })
      .def_prop_ro("step", [](const Checkpoint& self) { return self.info().step; })
      .def_prop_ro("run_id", [](const Checkpoint& self) { return self.info().run_id; })
      .def_prop_ro("saved_at", [](const Checkpoint& self) { return self.info().saved_at; })
      .def_prop_ro("configuration",
                   [](const Checkpoint& self) { return self.info().configuration; })
      .def_prop_ro("layout",
                   [](const Checkpoint& self) {
                     const MeshShape& layout = self.info().layout;
                     return std::tuple(layout.data, layout.context, layout.tensor);
                   })
      .def_prop_ro("scalars", [](const Checkpoint& self) { return self.scalars().values(); })
      .def("tensors", &tensors, "Name, dtype and shape of each tensor.")
      .def("read", &read, nb::arg("name"));
}

}  // namespace longspan::python
