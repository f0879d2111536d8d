# cmake -D PROGRAM=longspan -D FOLDER=folder -P WriteManualAndCompletions.cmake: runs the program to
# write its manual pages into FOLDER/man1 and its shell completions into FOLDER/completions. Writes none if the program was
# compiled for another processor or its libraries are missing. SPDX-License-Identifier: Apache-2.0
file(REMOVE_RECURSE ${FOLDER}/man1 ${FOLDER}/completions)
file(MAKE_DIRECTORY ${FOLDER}/man1 ${FOLDER}/completions)
set(ENV{OMP_NUM_THREADS} 1)
set(ENV{ASAN_OPTIONS} detect_leaks=0)
execute_process(COMMAND ${PROGRAM} man --output-dir ${FOLDER}/man1 RESULT_VARIABLE result ERROR_VARIABLE errors)
# File names that the shells search for.
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
  message(WARNING "No manual pages and completions: ${PROGRAM} cannot run here (${result}): ${errors}")
endif()
