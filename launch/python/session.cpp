// The session of a Python process. SPDX-License-Identifier: Apache-2.0
#include "framework/distributed/session.h"

#include <nanobind/stl/string.h>

#include <string>

#include "launch/python/python_values.h"

namespace longspan::python {

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session", "The ranks of a job; one in the life of a process.")
      .def(
          "__init__",
          [](Session* self) { new (self) Session({.joins_running_mpi = true}); },
          "Joins the MPI that mpi4py has started, or starts it where there are several ranks.")
      .def_prop_ro("rank", [](const Session& self) { return self.world().rank(); })
      .def_prop_ro("size", [](const Session& self) { return self.world().size(); })
      .def("claim_report",
           &Session::claim_error_report,
           nb::call_guard<nb::gil_scoped_release>(),
           "True on the one rank that says why the job fails.")
      .def(
          "tell",
          [](const Session& self, const std::string& sentence) { self.tell(sentence.c_str()); },
          nb::arg("sentence"),
          "Writes an error to the log of the run that trains or failed last, where there is one.")
      .def("abort",
           &Session::abort,
           nb::arg("exit_code"),
           "Ends every process of the job with that code.");
}

}  // namespace longspan::python
