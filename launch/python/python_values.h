// Helpers shared by all bindings: calls between C++ and Python. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

namespace longspan::python {

namespace nb = nanobind;

// Translates errors of the program into the exceptions of longspan.errors, by exit code.
void translate_errors();

// For long work that runs without the interpreter lock: throws the exception requested by Ctrl-C.
void check_signals();

// Holds a Python object so that threads without the interpreter lock can release it.
std::shared_ptr<nb::object> held(nb::object object);

// Each binds the functions of one file.
void bind_session(nb::module_& module);
void bind_checkpoint(nb::module_& module);
void bind_run(nb::module_& module);
void bind_use(nb::module_& module);
void bind_training(nb::module_& module);

}  // namespace longspan::python
