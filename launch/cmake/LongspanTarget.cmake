# Unity builds: most of the compile time is parsing headers and instantiating their templates, so compiling several files of a
# target together takes a third of the time. File-local names must therefore be unique within a target
# (tests/launch/unity_test). GCC warns about file-local types in included files. Unity files include absolute paths, which
# objects must not contain. Files with their own compile options are compiled alone, as are those that
# longspan_compile_alone() names.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-subobject-linkage>)
endif()

# longspan_compile_alone(SOURCE...): for sources of this directory that are large or replace another.
function(longspan_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# longspan_combine_kernels(OUT NAME PROLOGUE SOURCE...): .cu files that include several of the sources each, after the line
# PROLOGUE. CMake 3.25 has no unity builds for CUDA.
function(longspan_combine_kernels OUT NAME PROLOGUE)
  set(size 12) # nvcc parses the headers of each file twice
  if(NOT CMAKE_UNITY_BUILD)
    set(size 1)
  elseif(CMAKE_UNITY_BUILD_BATCH_SIZE EQUAL 0)
    list(LENGTH ARGN size)
  endif()
  set(files "")
  set(number 0)
  while(ARGN)
    set(content "${PROLOGUE}\n")
    list(SUBLIST ARGN 0 ${size} several)
    foreach(source ${several})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
      string(APPEND content "#include \"${source}\"\n")
    endforeach()
    list(REMOVE_ITEM ARGN ${several})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/combined_kernels/${NAME}_${number}.cu CONTENT "${content}" @ONLY)
    list(APPEND files ${CMAKE_BINARY_DIR}/combined_kernels/${NAME}_${number}.cu)
    math(EXPR number "${number} + 1")
  endwhile()
  set(${OUT} "${files}" PARENT_SCOPE)
endfunction()

# longspan_kernel_files(OUT): the .cu files of the kernels. Combined are the small ones of framework/kernels/cuda, and the
# bodies for both backends, in the folders shared, compiled for CUDA (framework/kernels/shared/backend.h).
function(longspan_kernel_files OUT)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/framework/kernels/*.cu)
  file(GLOB_RECURSE shared CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/framework/kernels/*.cpp)
  list(FILTER shared INCLUDE REGEX "/kernels/(.*/)?shared/[^/]+$")
  set(small ${files})
  list(FILTER small INCLUDE REGEX "/kernels/cuda/[^/]+[.]cu$")
  list(FILTER small EXCLUDE REGEX "/(sort|cublaslt)[.]cu$") # call CUDA libraries
  list(REMOVE_ITEM files ${small})
  longspan_combine_kernels(small cuda "// Small kernels of CUDA." ${small})
  longspan_combine_kernels(shared shared "#define LONGSPAN_BACKEND_CUDA" ${shared})
  set(${OUT} ${files} ${small} ${shared} PARENT_SCOPE)
endfunction()

# longspan_library(NAME FOLDER DEPENDS targets...): a module, built as a static library of the sources in FOLDER, or as an
# interface library without sources. Its headers are included as "FOLDER/header.h". It exports one include directory, which
# contains only a link to FOLDER, so a target sees the headers of its dependencies and no others. With the CUDA toolkit, its
# *.cu files form a second library that is linked with it, and those in cuda/hopper a third, for compute capability 9.0.
function(longspan_library NAME FOLDER)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${FOLDER}/*.cpp)
  if(NAME STREQUAL kernels)
    longspan_kernel_files(cuda_sources)
    # Compiled alone: attention/cpu, whose instantiations take far longer than its headers, and element.cpp, which depends on
    # the CUDA backend (framework/core/dispatch.h); the others are the same in a build with CUDA.
    set(alone ${sources})
    list(FILTER alone INCLUDE REGEX "/kernels/(attention/cpu/[^/]+|element[.]cpp)$")
    longspan_compile_alone(${alone})
  else()
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${FOLDER}/*.cu)
  endif()
  set(hopper_sources ${cuda_sources})
  list(FILTER hopper_sources INCLUDE REGEX "/cuda/hopper/")
  list(FILTER cuda_sources EXCLUDE REGEX "/cuda/hopper/")
  if(LONGSPAN_WITH_CUDA)
    list(FILTER sources EXCLUDE REGEX "/no_gpu.cpp$") # replaces cuda/gpu.cu without a toolkit
  endif()
  if(LONGSPAN_WITH_NCCL)
    list(FILTER sources EXCLUDE REGEX "/no_nccl.cpp$") # replaces nccl_library.cpp without nccl.h
  else()
    list(FILTER sources EXCLUDE REGEX "/nccl_library.cpp$")
  endif()
  set(tree ${CMAKE_BINARY_DIR}/include/${NAME})
  get_filename_component(parent ${tree}/${FOLDER} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${FOLDER} ${tree}/${FOLDER} SYMBOLIC)
  set(target longspan_${NAME})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    if(NAME STREQUAL kernels OR (NAME MATCHES "^(core|distributed|tokenizers|data)$" AND NOT LONGSPAN_SANITIZE))
      target_compile_options(${target} PRIVATE ${LONGSPAN_COMPILE_OPTIONS})
    else()
      target_compile_options(${target} PRIVATE ${LONGSPAN_SIZE_OPTIMIZED_OPTIONS})
    endif()
    # Tests with the emulated device define the functions of these two and must not link them from another object.
    set(replaced ${sources})
    list(FILTER replaced INCLUDE REGEX "/no_(gpu|nccl)[.]cpp$")
    longspan_compile_alone(${replaced})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(longspan::${NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${NAME})
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${tree}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/longspan>)
  target_compile_features(${target} ${scope} cxx_std_20)
  foreach(dependency ${ARG_DEPENDS})
    if(TARGET longspan_${dependency})
      set(dependency longspan_${dependency})
    endif()
    target_link_libraries(${target} ${scope} ${dependency})
  endforeach()
  if(LONGSPAN_WITH_CUDA AND cuda_sources)
    longspan_cuda_library(${NAME} cuda "${cuda_sources}" "${LONGSPAN_CUDA_OPTIONS}")
    target_link_libraries(${target} PRIVATE ${target}_cuda)
    if(hopper_sources)
      longspan_cuda_library(${NAME} hopper "${hopper_sources}"
        --generate-code=arch=compute_90a,code=[compute_90a,sm_90a])
      set_target_properties(${target}_hopper PROPERTIES CUDA_ARCHITECTURES OFF)
      target_link_libraries(${target}_cuda PRIVATE ${target}_hopper)
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY LONGSPAN_LIBRARIES ${target})
  set_property(GLOBAL APPEND PROPERTY LONGSPAN_FOLDERS ${FOLDER})
endfunction()

# The CUDA library of module NAME; KIND is cuda or hopper.
function(longspan_cuda_library NAME KIND SOURCES OPTIONS)
  set(target longspan_${NAME}_${KIND})
  add_library(${target} STATIC ${SOURCES})
  add_library(longspan::${NAME}_${KIND} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${NAME}_${KIND})
  target_compile_options(${target} PRIVATE -Xcompiler=-Wall,-Wextra ${OPTIONS})
  target_link_libraries(${target} PRIVATE longspan_${NAME} CUDA::cudart_static)
  set_property(GLOBAL APPEND PROPERTY LONGSPAN_LIBRARIES ${target})
endfunction()

include(GNUInstallDirs)
set(LONGSPAN_COMPILE_OPTIONS -Wall -Wextra -Wshadow -Wconversion -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False positives of GCC 12 for assignments of short strings (GCC bug 105651).
  list(APPEND LONGSPAN_COMPILE_OPTIONS -Wno-restrict)
  # At -O1 GCC inserts vzeroupper only with this option. Without it, the upper halves of vector registers stay in use after
  # a vector loop or a copied struct, and on Intel processors every later SSE instruction waits, as in exp of the C library.
  list(APPEND LONGSPAN_COMPILE_OPTIONS -fexpensive-optimizations)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # Some classes have two implementation files, with and without a GPU; the latter does not use all members.
  list(APPEND LONGSPAN_COMPILE_OPTIONS -Wno-unused-private-field)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:SHELL:-include\ ${CMAKE_CURRENT_LIST_DIR}/older_clang.h>)
  endif()
endif()
if(LONGSPAN_ARCHITECTURE)
  list(APPEND LONGSPAN_COMPILE_OPTIONS -march=${LONGSPAN_ARCHITECTURE})
endif()
if(LONGSPAN_WERROR)
  list(APPEND LONGSPAN_COMPILE_OPTIONS -Werror)
endif()
# For everything except the kernels and the modules that read, save or send much data: less optimization, which halves the
# compile time. Under sanitizers this includes all modules except kernels. Fuzzers keep full optimization.
set(LONGSPAN_SIZE_OPTIMIZED_OPTIONS ${LONGSPAN_COMPILE_OPTIONS})
if(LONGSPAN_SANITIZE)
  if(NOT LONGSPAN_FUZZ)
    list(APPEND LONGSPAN_SIZE_OPTIMIZED_OPTIONS -O0)
  endif()
  add_compile_options(-fsanitize=${LONGSPAN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LONGSPAN_SANITIZE})
elseif(CMAKE_BUILD_TYPE STREQUAL Release)
  list(APPEND LONGSPAN_SIZE_OPTIMIZED_OPTIONS -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND LONGSPAN_SIZE_OPTIMIZED_OPTIONS -finline-small-functions)
  endif()
endif()
