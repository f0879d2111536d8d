#!/usr/bin/env python3
"""Recipes of launch/packaging: each requires every library that launch/setup installs, and parses.

    tests/launch/packaging_test.py

Builds no recipe, because container tools, dnf, conda and Spack are not available.
"""

import ast
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
RECIPES = SOURCE / "launch" / "packaging"

# {Debian package: (Fedora, conda-forge, Spack)}. None: the recipe does not require it.
NAMES = {
    "libopenmpi-dev": ("openmpi-devel", "openmpi", "openmpi"),
    "libhdf5-dev": ("hdf5-devel", "hdf5", "hdf5"),
    "libdnnl-dev": ("onednn-devel", "onednn", "onednn"),
    "libhwy-dev": ("highway-devel", "libhwy", "highway"),
    "librandom123-dev": ("Random123-devel", "random123", "random123"),
    "libyaml-cpp-dev": ("yaml-cpp-devel", "yaml-cpp", "yaml-cpp"),
    "libcli11-dev": ("cli11-devel", "cli11", "cli11"),
    "libspdlog-dev": ("spdlog-devel", "spdlog", "spdlog"),
    "libfmt-dev": ("fmt-devel", "fmt", "fmt"),
    "nlohmann-json3-dev": ("json-devel", "nlohmann_json", "nlohmann-json"),
    "libxxhash-dev": ("xxhash-devel", "xxhash", "xxhash"),
    "libsentencepiece-dev": ("sentencepiece-devel", "libsentencepiece", "sentencepiece"),
    "libpcre2-dev": ("pcre2-devel", "pcre2", "pcre2"),
    "libutf8proc-dev": ("utf8proc-devel", "libutf8proc", "utf8proc"),
    "zlib1g-dev": ("zlib-devel", "zlib", "zlib-api"),
    "libzstd-dev": ("libzstd-devel", "zstd", "zstd"),
    "libpng-dev": ("libpng-devel", "libpng", "libpng"),
    "libevent-dev": ("libevent-devel", "libevent", "libevent"),
    "libprotozero-dev": ("protozero-devel", "protozero", "protozero"),
    "prometheus-cpp-dev": ("prometheus-cpp-devel", "prometheus-cpp", "prometheus-cpp"),
    "libgtest-dev": ("gtest-devel", None, "googletest"),
    "libgmock-dev": ("gmock-devel", None, "googletest"),
    "libbenchmark-dev": ("google-benchmark-devel", None, "benchmark"),
    "libjs-dygraphs": (None, None, None),  # optional; reports note that it is missing
}


def text_of(name):
    return (RECIPES / name).read_text(encoding="utf-8")


class Recipes(unittest.TestCase):
    def test_each_recipe_requires_every_library(self):
        setup = (SOURCE / "launch" / "setup").read_text(encoding="utf-8")
        listed = re.search(r"(?s)\npackages=\((.*?)\n\)", setup)[1]
        expected = set(re.findall(r"(?<![\w-])(?:lib[\w-]+|[\w-]+-dev)(?= )", re.sub(r"#.*", " ", listed).replace("\n", " ")))
        self.assertEqual(expected, set(NAMES), "launch/setup installs others than the recipes know")
        for debian, names in NAMES.items():
            for recipe, name in zip(("fedora.Containerfile", "conda/meta.yaml", "spack/package.py"), names):
                with self.subTest(recipe=recipe, library=debian):
                    if name is not None:
                        self.assertRegex(text_of(recipe), rf"(?<![\w-]){re.escape(name)}(?![\w-])")

    def test_conda_recipe_has_current_version(self):
        version = re.search(r"project\(longspan VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"version: {version}\n", text_of("conda/meta.yaml"))

    def test_recipes_parse(self):
        subprocess.run(["bash", "-n", RECIPES / "conda" / "build.sh"], check=True, timeout=60)
        ast.parse(text_of("spack/package.py"))
        for name in "Containerfile", "ubuntu.Containerfile", "fedora.Containerfile":
            lines = text_of(name).replace("\\\n", " ").splitlines()
            words = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
            self.assertEqual(words[0], "FROM")
            known = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD"}
            self.assertLessEqual(set(words), known, name)
            for line in lines:
                if line.startswith("RUN "):
                    subprocess.run(["bash", "-n", "-c", line[4:]], check=True, timeout=60)
        sections = re.findall(r"(?m)^%(\w+)", text_of("longspan.def"))
        self.assertEqual(sections, ["files", "post", "files", "post", "runscript", "test", "help"])

    def test_recipes_use_existing_options(self):
        """Checks options against the --help of the scripts."""
        for path in RECIPES.rglob("*"):
            if not path.is_file():
                continue
            for script, arguments in re.findall(r"(?m)^[^#\n]*?\b(launch/(?:setup|package))\b([^\n&]*)", path.read_text()):
                shown = subprocess.run([SOURCE / script, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
                for option in re.findall(r"--[\w-]+", arguments):
                    with self.subTest(recipe=path.name, option=option):
                        self.assertIn(option, shown)


class Wheel(unittest.TestCase):
    """launch/package --wheel with a stub of Python that does not compile."""

    python = """#!/bin/sh
[ "$1" != -c ] || exit 0 # it has what builds
[ "$4" != --version ] && [ "$3" != --version ] || exit 0
printf '%s ' "$@" >"$0.words"
echo "  noise of pip"
echo "  [1/2] Building CXX object a.o"
[ ! -f "$0.fails" ] || { echo "  a.cpp: an error" && exit 1; }
while [ "$1" != --wheel-dir ]; do shift; done
echo wheel >"$2/longspan-0.1.0-cp312-abi3-linux_x86_64.whl"
"""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = Path(self.folder.name) / "out"
        self.program = Path(self.folder.name) / "python"
        self.program.write_text(self.python)
        self.program.chmod(0o755)

    def package(self, *arguments):
        return subprocess.run([SOURCE / "launch" / "package", "--wheel", "--python", self.program, "--output", self.output, *arguments],
                              capture_output=True, text=True, check=False)

    def test_prints_progress_and_size_of_wheel(self):
        result = self.package()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("[1/2] Building CXX object a.o\n", result.stdout)
        self.assertNotIn("noise", result.stdout)
        wheel = self.output / "longspan-0.1.0-cp312-abi3-linux_x86_64.whl"
        self.assertEqual(wheel.read_text(), "wheel\n")
        self.assertIn(f"{wheel}: 6 bytes\n", result.stdout)
        words = Path(f"{self.program}.words").read_text().split()
        for word in ("wheel", "--verbose", "--no-build-isolation", str(SOURCE / "launch" / "python")):
            self.assertIn(word, words)

    def test_build_failure_and_invalid_options_are_reported(self):
        Path(f"{self.program}.fails").touch()
        result = self.package()
        self.assertEqual(result.returncode, 1)
        self.assertIn("a.cpp: an error\npackage: pip built no wheel", result.stderr)
        for arguments, message in ((("--compression", "xz"), "--compression cannot be combined with --wheel"),
                                   (("--build", "."), "--build cannot be combined with --wheel"),
                                   (("--python", "nowhere"), "nowhere: no such program")):
            result = self.package(*arguments)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    unittest.main()
