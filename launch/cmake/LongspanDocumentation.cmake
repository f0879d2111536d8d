# The target `documentation`: API reference of the library headers, by Doxygen, as HTML in documentation/ of the build
# directory. Doxygen warnings are errors. SPDX-License-Identifier: Apache-2.0
find_program(DOXYGEN doxygen)
find_program(PERL perl)
mark_as_advanced(DOXYGEN PERL)
if(DOXYGEN AND PERL)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in ${CMAKE_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(documentation
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/documentation
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/documentation
    COMMAND ${DOXYGEN} ${CMAKE_BINARY_DIR}/Doxyfile
    COMMENT "Writing documentation/index.html" VERBATIM)
endif()
