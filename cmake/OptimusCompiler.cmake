# Compiler settings shared by every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

set(OPTIMUS_SANITIZE "" CACHE STRING "Sanitizers to build with, as in -fsanitize=: address, undefined, thread, or several with commas")

add_library(optimus_flags INTERFACE)
target_compile_options(optimus_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-missing-field-initializers)  # designated initialisers name what differs from the defaults
# Products and sums stay apart unless a kernel asks for a fused multiply-add: the same source gives the same bits on every machine.
target_compile_options(optimus_flags INTERFACE -ffp-contract=off)
target_include_directories(optimus_flags INTERFACE "${PROJECT_SOURCE_DIR}")
# A program loads only the libraries it calls: each of the others costs time at every start.
target_link_options(optimus_flags INTERFACE -Wl,--as-needed)
if(OPTIMUS_SANITIZE)
  target_compile_options(optimus_flags INTERFACE -fsanitize=${OPTIMUS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(optimus_flags INTERFACE -fsanitize=${OPTIMUS_SANITIZE})
endif()
