# cmake -D PROGRAM=longspan -D FOLDER=man1 -P WriteManualPages.cmake: has the program write its manual pages. One that was
# compiled for another processor, or whose libraries are on another machine, cannot be started here: then there are none.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
set(ENV{OMP_NUM_THREADS} 1)
set(ENV{ASAN_OPTIONS} detect_leaks=0)
execute_process(COMMAND ${PROGRAM} man --into ${FOLDER} RESULT_VARIABLE result ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
  message(WARNING "there will be no manual pages: ${PROGRAM} cannot write them here (${result}): ${errors}")
endif()
