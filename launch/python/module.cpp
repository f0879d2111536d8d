// The module longspan._longspan of the package longspan, and the session of a Python process.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include <string>

#include "framework/distributed/session.h"
#include "launch/python/python_values.h"

namespace longspan::python {

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session", "The ranks of a job; at most one per process.")
      .def(
          "__init__",
          [](Session* self) { new (self) Session({.joins_running_mpi = true}); },
          "Joins the MPI session of mpi4py, or starts one for several ranks.")
      .def_prop_ro("rank", [](const Session& self) { return self.world().rank(); })
      .def_prop_ro("size", [](const Session& self) { return self.world().size(); })
      .def("claim_report",
           &Session::claim_error_report,
           nb::call_guard<nb::gil_scoped_release>(),
           "True on the one rank that reports why the job fails.")
      .def(
          "tell",
          [](const Session& self, const std::string& sentence) { self.tell(sentence.c_str()); },
          nb::arg("sentence"),
          "Writes an error to the log of the run that trained last, if any.")
      .def("abort",
           &Session::abort,
           nb::arg("exit_code"),
           "Ends all processes of the job with this exit code.");
}

}  // namespace longspan::python

NB_MODULE(_longspan, module) {
  using namespace longspan::python;
  module.attr("__doc__") = "Internal functions of the package longspan.";
  translate_errors();
  bind_session(module);
  bind_checkpoint(module);
  bind_run(module);
  bind_use(module);
  bind_training(module);
}
