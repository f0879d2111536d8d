// SPDX-License-Identifier: Apache-2.0
#include "launch/python/python_values.h"

#include <utility>

#include "framework/core/error.h"

namespace longspan::python {
namespace {

void raise(const Error& error) {
  const nb::object kind =
      nb::module_::import_("longspan.errors").attr("of_code")(static_cast<int>(error.code()));
  const std::string sentence = error.what();
  // File names may be any bytes.
  const nb::object text = nb::steal(
      PyUnicode_DecodeUTF8(sentence.data(), static_cast<Py_ssize_t>(sentence.size()), "replace"));
  PyErr_SetObject(kind.ptr(), text.ptr());
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

void check_signals() {
  const nb::gil_scoped_acquire interpreter;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

std::shared_ptr<nb::object> held(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* last) {
            const nb::gil_scoped_acquire interpreter;
            delete last;
          }};
}

}  // namespace longspan::python
