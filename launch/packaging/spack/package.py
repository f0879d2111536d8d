# Spack recipe. Add it to a local repository:
#   spack repo create ~/longspan-repo longspan
#   mkdir ~/longspan-repo/packages/longspan && cp launch/packaging/spack/package.py ~/longspan-repo/packages/longspan/
#   spack repo add ~/longspan-repo && spack dev-build longspan@main       in the root of the tree
# SPDX-License-Identifier: Apache-2.0
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Longspan(CMakePackage):
    """Trains the Transformer family on very long sequences, across processes, GPUs and nodes."""

    # The URL of the repository, for `spack install`; `spack dev-build` uses the current directory.
    # git = "https://..."

    license("Apache-2.0")

    version("main", branch="main")

    variant("cuda", default=False, description="Build the kernels for NVIDIA GPUs")
    variant("tests", default=False, description="Build the tests and the benchmarks")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openmpi@4.1")
    depends_on("hdf5@1.10: ~mpi")
    depends_on("onednn@2.6:")
    depends_on("highway@1.0:")
    depends_on("random123@1.14:")
    depends_on("yaml-cpp@0.7:")
    depends_on("cli11@2.1:", type="build")
    depends_on("spdlog@1.10:")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("xxhash@0.8:")
    depends_on("sentencepiece@0.1.91:")
    depends_on("pcre2@10.40:")
    depends_on("utf8proc@2.6:")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("libpng@1.6:")
    depends_on("libevent@2.1:")
    depends_on("protozero@1.7:", type="build")
    depends_on("prometheus-cpp@1.0:")
    depends_on("cuda@12.4:", when="+cuda")
    depends_on("googletest@1.12: +gmock", when="+tests")
    depends_on("benchmark@1.7:", when="+tests")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("LONGSPAN_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define_from_variant("LONGSPAN_TESTS", "tests"),
            self.define("LONGSPAN_ARCHITECTURE", ""),  # the Spack compiler wrappers set the processor flags
        ]
