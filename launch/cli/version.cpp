#include "launch/cli/version.h"

#include <event2/event.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl.h>
#include <spdlog/version.h>
#include <xxhash.h>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include "framework/distributed/mpi_c.h"
#include "framework/report/charts.h"
#include "revision.h"

namespace longspan {

std::string version_text() {
  const std::string revision = LONGSPAN_REVISION;
  std::string text = fmt::format(
      "longspan {}{}\n", LONGSPAN_VERSION, revision.empty() ? "" : fmt::format(" ({})", revision));

  char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(mpi, &length);
  const std::string_view name(mpi, static_cast<std::size_t>(length));
  text += fmt::format("  {}\n", name.substr(0, name.find_first_of(",\n")));

  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  H5get_libversion(&major, &minor, &patch);
  text += fmt::format("  HDF5 {}.{}.{}\n", major, minor, patch);

  const dnnl_version_t* onednn = dnnl_version();
  text += fmt::format("  oneDNN {}.{}.{}\n", onednn->major, onednn->minor, onednn->patch);

  text += fmt::format("  Highway {}.{}.{}, yaml-cpp {}, CLI11 {}\n",
                      HWY_MAJOR,
                      HWY_MINOR,
                      HWY_PATCH,
                      LONGSPAN_YAML_CPP_VERSION,
                      CLI11_VERSION);
  text += fmt::format("  spdlog {}.{}.{}, fmt {}.{}.{}, nlohmann-json {}.{}.{}, xxHash {}.{}.{}\n",
                      SPDLOG_VER_MAJOR,
                      SPDLOG_VER_MINOR,
                      SPDLOG_VER_PATCH,
                      FMT_VERSION / 10000,
                      FMT_VERSION / 100 % 100,
                      FMT_VERSION % 100,
                      NLOHMANN_JSON_VERSION_MAJOR,
                      NLOHMANN_JSON_VERSION_MINOR,
                      NLOHMANN_JSON_VERSION_PATCH,
                      XXH_VERSION_MAJOR,
                      XXH_VERSION_MINOR,
                      XXH_VERSION_RELEASE);
  text += fmt::format("  SentencePiece {}, PCRE2 {}, utf8proc {}, zlib {}, zstd {}\n",
                      LONGSPAN_SENTENCEPIECE_VERSION,
                      LONGSPAN_PCRE2_VERSION,
                      LONGSPAN_UTF8PROC_VERSION,
                      LONGSPAN_ZLIB_VERSION,
                      LONGSPAN_ZSTD_VERSION);
  text += fmt::format("  prometheus-cpp {}\n", LONGSPAN_PROMETHEUS_VERSION);
  const ChartLibrary* const curves = chart_library();
  text += fmt::format("  libevent {}, {}\n",
                      event_get_version(),
                      curves == nullptr ? "without dygraphs" : curves->name);
#ifdef LONGSPAN_WITH_CUDA
  const std::string_view nccl = LONGSPAN_NCCL_VERSION;
  text += fmt::format("  compiled with CUDA {}{}; cuBLASLt{} loaded when a GPU needs {}\n",
                      LONGSPAN_CUDA_VERSION,
                      nccl.empty() ? "" : fmt::format(" and NCCL {}", nccl),
                      nccl.empty() ? " is" : " and NCCL are",
                      nccl.empty() ? "it" : "them");
#else
  text += "  compiled without CUDA\n";
#endif
  text += fmt::format(
      "  compiled by {} {} for {}\n", LONGSPAN_COMPILER, __VERSION__, LONGSPAN_ARCHITECTURE);
  return text;
}

}  // namespace longspan
