// What all bindings use: calls out of Python and into it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

namespace longspan::python {

namespace nb = nanobind;

// Errors of the program become the exceptions of longspan.errors, by their exit codes.
void translate_errors();

// For long work that runs without the interpreter: throws what Ctrl-C asks for.
void check_signals();

// A Python object held by who may let go of it without the interpreter.
std::shared_ptr<nb::object> held(nb::object object);

// What each file binds.
void bind_session(nb::module_& module);
void bind_checkpoint(nb::module_& module);
void bind_run(nb::module_& module);
void bind_use(nb::module_& module);
void bind_training(nb::module_& module);

}  // namespace longspan::python
