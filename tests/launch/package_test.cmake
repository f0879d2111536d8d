# Installs the build into a folder, then builds and runs a project that uses it through find_package.
#   cmake -DBUILD=build-folder -DSOURCE=source-folder -P package_test.cmake
set(work ${BUILD}/package-test)
file(REMOVE_RECURSE ${work})
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${work}/installed"
    "${CMAKE_COMMAND};-S;${SOURCE}/tests/launch/consumer;-B;${work}/consumer;-G;Ninja;-DCMAKE_PREFIX_PATH=${work}/installed;-DCMAKE_EXE_LINKER_FLAGS=${LINK_FLAGS}"
    "${CMAKE_COMMAND};--build;${work}/consumer"
    "${work}/consumer/consumer")
  execute_process(COMMAND ${step} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${step} failed:\n${output}")
  endif()
endforeach()
if(NOT output MATCHES "read \\[2, 4\\] on 1")
  message(FATAL_ERROR "the installed library printed: ${output}")
endif()
foreach(page longspan longspan-train longspan-tokenizer longspan-man)
  if(NOT EXISTS ${work}/installed/share/man/man1/${page}.1)
    message(FATAL_ERROR "there is no installed manual page ${page}.1")
  endif()
endforeach()
# Nothing that is installed may point back into the tree it was built in.
file(GLOB_RECURSE files ${work}/installed/*.cmake)
foreach(file ${files})
  file(READ ${file} text)
  string(FIND "${text}" "${SOURCE}/framework" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "${file} points into the source tree")
  endif()
endforeach()
file(REMOVE_RECURSE ${work})
