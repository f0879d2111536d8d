# cmake --install: the libraries, their headers, the program (launch/CMakeLists.txt) and a package for
# find_package(longspan). SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY LONGSPAN_LIBRARIES)
get_property(folders GLOBAL PROPERTY LONGSPAN_FOLDERS)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/longspan)

install(TARGETS ${libraries} EXPORT longspan ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Under the same names as in the tree: #include "framework/core/tensor.h".
foreach(folder ${folders})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/longspan/${folder}
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT longspan NAMESPACE longspan:: FILE longspan-targets.cmake DESTINATION ${package_directory})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/longspan-config.cmake.in
  ${CMAKE_BINARY_DIR}/package/longspan-config.cmake INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/longspan-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/longspan-config.cmake ${CMAKE_BINARY_DIR}/package/longspan-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindOneDnn.cmake DESTINATION ${package_directory})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The pages, beside each other as in the tree.
foreach(page README CONTRIBUTING CHANGELOG SECURITY checkpoints/README configs/README framework/README launch/README
    launch/python/README models/README tests/README)
  get_filename_component(place ${page} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/${page}.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/${place})
endforeach()
