# CPack: Debian packages, built by launch/package. SPDX-License-Identifier: Apache-2.0
set(CPACK_PACKAGE_NAME longspan)
set(CPACK_PACKAGE_VENDOR "The Longspan developers")
set(CPACK_PACKAGE_CONTACT "The Longspan developers <longspan@localhost.localdomain>")
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL program development documents)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# Files that Debian requires and `cmake --install` does not write.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/DebianFiles.cmake)
set(CPACK_LONGSPAN_SOURCE ${CMAKE_SOURCE_DIR})
set(CPACK_LONGSPAN_MULTIARCH ${CMAKE_LIBRARY_ARCHITECTURE})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME longspan)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME longspan-dev)
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_NAME longspan-doc)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_ARCHITECTURE all)
# Shared libraries are found by dpkg-shlibdeps; `longspan launch` starts mpirun of openmpi-bin.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "longspan-doc, longspan-dev")
# Dependencies of longspan-config.cmake and longspan.pc.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libopenmpi-dev, libhdf5-dev, libdnnl-dev, libhwy-dev, librandom123-dev, \
libfmt-dev, libspdlog-dev, nlohmann-json3-dev, libxxhash-dev, libsentencepiece-dev, libpcre2-dev, libutf8proc-dev, \
libpng-dev, zlib1g-dev, libzstd-dev, libevent-dev, prometheus-cpp-dev, pkg-config")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS longspan-doc)

# The first line is a summary without a full stop; the others have at most 80 characters.
set(description "Longspan trains Transformers on very long sequences, across processes,
GPUs and nodes: one program, one YAML file per model, and checkpoints that
resume on any number of processes.")
set(processor "It was compiled for the processor ${LONGSPAN_ARCHITECTURE}.")
if(LONGSPAN_ARCHITECTURE STREQUAL x86-64-v3)
  set(processor "It requires a processor with AVX2 (x86-64-v3).")
elseif(LONGSPAN_ARCHITECTURE STREQUAL native OR NOT LONGSPAN_ARCHITECTURE)
  set(processor "It requires the processor type of the machine that built it.")
endif()
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "trainer for Transformers on very long sequences
${description}
.
This is the program, with manual pages and shell completions.
${processor}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "trainer for Transformers on very long sequences - static libraries
${description}
.
These are headers and static libraries, for CMake and pkg-config.
${processor}")
set(CPACK_COMPONENT_DOCUMENTS_DESCRIPTION "trainer for Transformers on very long sequences - documents
${description}
.
This is its documentation, with configuration files.")
include(CPack)
