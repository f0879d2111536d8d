# oneDNN as the imported target longspan_onednn. Debian's CMake package also requires the OpenCL headers, which Longspan
# does not use, so the library and its header are searched directly.
find_library(ONEDNN_LIBRARY dnnl REQUIRED)
find_path(ONEDNN_INCLUDE_DIRECTORY oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(longspan_onednn INTERFACE IMPORTED)
target_link_libraries(longspan_onednn INTERFACE ${ONEDNN_LIBRARY})
target_include_directories(longspan_onednn INTERFACE ${ONEDNN_INCLUDE_DIRECTORY})
