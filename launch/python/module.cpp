// The module longspan._longspan of the package longspan. SPDX-License-Identifier: Apache-2.0
#include "launch/python/python_values.h"

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
