# cmake --install: libraries, headers, the program, and a package for find_package(longspan).
include(CMakePackageConfigHelpers)
