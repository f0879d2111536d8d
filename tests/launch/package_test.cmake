# Installs the build into a folder, then builds and runs programs that use it through find_package: one trains on its
# own data, one has its own attention type, one reads the checkpoint of the first.
#   cmake -DBUILD=build-folder -DSOURCE=source-folder -P package_test.cmake
set(work ${BUILD}/package-test)
set(consumer ${work}/consumer)
file(REMOVE_RECURSE ${work})
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${work}/installed"
    "${CMAKE_COMMAND};-S;${SOURCE}/tests/launch/consumer;-B;${consumer};-G;Ninja;-DCMAKE_PREFIX_PATH=${work}/installed;-DCMAKE_EXE_LINKER_FLAGS=${LINK_FLAGS}"
    "${CMAKE_COMMAND};--build;${consumer}"
    "${consumer}/own_attention"
    "${consumer}/train_on_own_data;${work}/checkpoints"
    "${consumer}/read_checkpoint;${work}/checkpoints")
  execute_process(COMMAND ${step} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${step} failed:\n${output}")
  endif()
endforeach()
if(NOT output MATCHES "^step 120 of 1 rank\n" OR NOT output MATCHES "\nlayers/0/attention/query/weight \\[32, 32\\] f32 [0-9]")
  message(FATAL_ERROR "the installed library read a checkpoint as: ${output}")
endif()
foreach(program train_on_own_data read_checkpoint)
  execute_process(COMMAND ${consumer}/${program} RESULT_VARIABLE result ERROR_VARIABLE error)
  if(NOT result EQUAL 2 OR NOT error MATCHES "^${program}: expected 1 argument, ")
    message(FATAL_ERROR "${program} without an argument returned ${result} and wrote: ${error}")
  endif()
endforeach()
# The example programs stay short.
file(GLOB programs ${SOURCE}/tests/launch/consumer/*.cpp)
foreach(program ${programs})
  file(READ ${program} text)
  string(REGEX MATCHALL "\n" ends "${text}")
  list(LENGTH ends length)
  if(length GREATER 80)
    message(FATAL_ERROR "${program} has ${length} lines")
  endif()
endforeach()
foreach(file man/man1/longspan.1 man/man1/longspan-train.1 man/man1/longspan-tokenizer.1 man/man1/longspan-man.1
    bash-completion/completions/longspan zsh/site-functions/_longspan fish/vendor_completions.d/longspan.fish
    doc/longspan/configs/tiny.yaml doc/longspan/launch/README.md)
  if(NOT EXISTS ${work}/installed/share/${file})
    message(FATAL_ERROR "there is no installed ${file}")
  endif()
endforeach()
# No installed file may contain the path of the source tree.
file(GLOB_RECURSE files ${work}/installed/*.cmake ${work}/installed/*.pc)
foreach(file ${files})
  file(READ ${file} text)
  string(FIND "${text}" "${SOURCE}/" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "${file} points into the source tree")
  endif()
endforeach()
file(REMOVE_RECURSE ${work})
