#!/usr/bin/env bash
# Build script of the conda recipe. SPDX-License-Identifier: Apache-2.0
set -euo pipefail
export CXXFLAGS="${CXXFLAGS:-} -isystem $SRC_DIR/random123/include"
# shellcheck disable=SC2086
cmake -S . -B build-conda -G Ninja ${CMAKE_ARGS:-} -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PREFIX" \
  -DCMAKE_PREFIX_PATH="$PREFIX" -DLONGSPAN_TESTS=OFF -DLONGSPAN_CUDA=OFF -DLONGSPAN_ARCHITECTURE=x86-64-v3
cmake --build build-conda
cmake --install build-conda
