# cmake --install: libraries, headers, the program (launch/CMakeLists.txt), and the files for find_package(longspan) and
# pkg-config. SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY LONGSPAN_LIBRARIES)
get_property(folders GLOBAL PROPERTY LONGSPAN_FOLDERS)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/longspan)

install(TARGETS ${libraries} EXPORT longspan ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
# Same include paths as in the tree: #include "framework/core/tensor.h".
foreach(folder ${folders})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/longspan/${folder}
    COMPONENT development FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT longspan NAMESPACE longspan:: FILE longspan-targets.cmake DESTINATION ${package_directory}
  COMPONENT development)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/longspan-config.cmake.in
  ${CMAKE_BINARY_DIR}/package/longspan-config.cmake INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/longspan-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/longspan-config.cmake ${CMAKE_BINARY_DIR}/package/longspan-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindOneDnn.cmake DESTINATION ${package_directory} COMPONENT development)

# pkg-config: static libraries, each before its dependencies. Dependencies without a pkg-config file, or with a name that
# varies between systems, are listed by path.
set(archives "")
foreach(library ${libraries})
  get_target_property(type ${library} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    string(PREPEND archives " -l${library}")
  endif()
endforeach()
set(hdf5 ${HDF5_C_LIBRARIES}) # without its own dependencies
list(FILTER hdf5 INCLUDE REGEX "hdf5")
set(others ${MPI_C_LIBRARIES} ${hdf5} ${ONEDNN_LIBRARY})
set(pkg_config_definitions "")
if(LONGSPAN_WITH_CUDA)
  # The kernels and the host code of a module call each other.
  set(archives " -Wl,--start-group${archives} -Wl,--end-group")
  list(APPEND others ${CUDA_cudart_static_LIBRARY} -lrt)
  set(pkg_config_definitions " -DLONGSPAN_WITH_CUDA")
endif()
list(APPEND others -lpthread -ldl)
list(JOIN others " " pkg_config_libraries)
set(includes ${MPI_C_INCLUDE_DIRS} ${HDF5_C_INCLUDE_DIRS})
list(REMOVE_DUPLICATES includes)
list(TRANSFORM includes PREPEND -I)
list(JOIN includes " " pkg_config_includes)
file(RELATIVE_PATH pkg_config_root /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pkg_config_root ${pkg_config_root})
configure_file(${CMAKE_CURRENT_LIST_DIR}/longspan.pc.in ${CMAKE_BINARY_DIR}/package/longspan.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/longspan.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
# The documentation, with the directory layout of the tree, and the configuration files.
foreach(page README CONTRIBUTING CHANGELOG SECURITY checkpoints/README configs/README framework/README launch/README
    launch/packaging/README launch/python/README models/README tests/README)
  get_filename_component(place ${page} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/${page}.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/${place} COMPONENT documents)
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents
  FILES_MATCHING PATTERN "*.yaml")
