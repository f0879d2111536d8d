# cmake -D PROGRAM=longspan -D FOLDER=folder -P WriteManualAndCompletions.cmake: has the program write its manual pages into
# FOLDER/man1, and what completes its command lines into FOLDER/completions. One that was compiled for another processor, or
# whose libraries are on another machine, cannot be started here: then there are none. SPDX-License-Identifier: Apache-2.0
file(REMOVE_RECURSE ${FOLDER}/man1 ${FOLDER}/completions)
file(MAKE_DIRECTORY ${FOLDER}/man1 ${FOLDER}/completions)
set(ENV{OMP_NUM_THREADS} 1)
set(ENV{ASAN_OPTIONS} detect_leaks=0)
execute_process(COMMAND ${PROGRAM} man --into ${FOLDER}/man1 RESULT_VARIABLE result ERROR_VARIABLE errors)
# Under the names by which the shells look for them.
foreach(pair bash:longspan zsh:_longspan fish:longspan.fish)
  if(result EQUAL 0)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 shell)
    list(GET pair 1 name)
    file(MAKE_DIRECTORY ${FOLDER}/completions/${shell})
    execute_process(COMMAND ${PROGRAM} completion ${shell} OUTPUT_FILE ${FOLDER}/completions/${shell}/${name}
      RESULT_VARIABLE result ERROR_VARIABLE errors)
  endif()
endforeach()
if(NOT result EQUAL 0)
  file(REMOVE_RECURSE ${FOLDER}/man1 ${FOLDER}/completions)
  file(MAKE_DIRECTORY ${FOLDER}/man1 ${FOLDER}/completions)
  message(WARNING "there will be no manual pages and no completions: ${PROGRAM} cannot write them here (${result}): ${errors}")
endif()
