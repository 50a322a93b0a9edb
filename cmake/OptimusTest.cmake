# optimus_test(<name> DEPENDS <optimus library>... [LIBRARIES <outside library>...] [RANKS <n>...] [MPICH_RANKS <n>...] [MPICH_PART <n> <filter>] [TIMEOUT <s>]
#              [EXHAUSTIVE <filter>])
#
# One GoogleTest program from the sources of the calling folder. Without RANKS each case is a ctest entry of its own; with RANKS
# the whole program is one entry for each number of MPI ranks. Their label is the part of the name before the first underscore.
# MPICH waits without giving its core away: where there are more ranks than cores a collective takes milliseconds. With it MPICH_RANKS are
# instead of RANKS, and MPICH_PART adds the cases that match a filter on <n> ranks.
# The cases that the GoogleTest filter EXHAUSTIVE names take long: they are an entry of their own, labelled "exhaustive", that ./test --all runs.
include(GoogleTest)

# Fresh memory is poisoned in every test: a result that depends on it fails here, not on a user's machine. Set for all of ctest, because
# gtest_discover_tests keeps only the first of several variables. Two tests run at a time: threads that wait give their core away.
file(WRITE "${CMAKE_BINARY_DIR}/test_environment.cmake" [[
set(ENV{MALLOC_PERTURB_} 165)
set(ENV{OMP_NUM_THREADS} 2)
set(ENV{OMP_WAIT_POLICY} passive)
set(ENV{ASAN_OPTIONS} "allocator_may_return_null=1")
]])
set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY TEST_INCLUDE_FILES "${CMAKE_BINARY_DIR}/test_environment.cmake")

# All unit tests: what the sanitizer builds compile and run.
add_custom_target(unit_tests)

# One ctest entry: <target> on <ranks> ranks, with arguments. Uses category and ARG_TIMEOUT of optimus_test.
function(optimus_add_rank_test name target ranks)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${OPTIMUS_MPIEXEC_FLAGS} -n ${ranks} $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} PROCESSORS 2 LABELS "${category}"
    ENVIRONMENT "OMP_NUM_THREADS=1;ASAN_OPTIONS=detect_leaks=0")  # MPI libraries keep what they allocate to the end
endfunction()

function(optimus_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;EXHAUSTIVE" "DEPENDS;LIBRARIES;RANKS;MPICH_RANKS;MPICH_PART" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(target "test_${name}")
  string(REGEX MATCH "^[a-z]+" category "${name}")
  add_executable(${target} ${sources})
  # Tests are compiled far more often than they run long.
  if(OPTIMUS_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(name MATCHES "^unit_")
    add_dependencies(unit_tests ${target})
  endif()
  target_link_libraries(${target} PRIVATE optimus_flags ${ARG_LIBRARIES})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} PRIVATE optimus_${dependency})
  endforeach()
  target_compile_definitions(${target} PRIVATE OPTIMUS_SOURCE_DIR="${PROJECT_SOURCE_DIR}" OPTIMUS_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(ARG_RANKS)
    target_link_libraries(${target} PRIVATE GTest::gtest optimus_test_mpi)  # with main(): tests/support/mpi
    if(OPTIMUS_MPI_IS_MPICH AND ARG_MPICH_RANKS)
      set(ARG_RANKS ${ARG_MPICH_RANKS})
    endif()
    foreach(ranks IN LISTS ARG_RANKS)
      if(ARG_EXHAUSTIVE)
        optimus_add_rank_test(${name}.ranks_${ranks} ${target} ${ranks} --gtest_filter=-${ARG_EXHAUSTIVE})
        optimus_add_rank_test(${name}.exhaustive.ranks_${ranks} ${target} ${ranks} --gtest_filter=${ARG_EXHAUSTIVE})
        set_tests_properties(${name}.exhaustive.ranks_${ranks} PROPERTIES LABELS exhaustive TIMEOUT 10800)
      else()
        optimus_add_rank_test(${name}.ranks_${ranks} ${target} ${ranks})
      endif()
    endforeach()
    if(OPTIMUS_MPI_IS_MPICH AND ARG_MPICH_PART)
      list(POP_FRONT ARG_MPICH_PART ranks filter)
      optimus_add_rank_test(${name}.part.ranks_${ranks} ${target} ${ranks} --gtest_filter=${filter})
    endif()
  else()
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
    gtest_discover_tests(${target} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${category})
  endif()
endfunction()

# Open MPI refuses to start as root or with more ranks than cores unless told; MPICH knows neither flag.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpiexec_version ERROR_QUIET)
if(mpiexec_version MATCHES "Open MPI|OpenRTE|PRRTE")
  set(OPTIMUS_MPIEXEC_FLAGS --allow-run-as-root --oversubscribe --bind-to none)
  set(OPTIMUS_MPI_IS_MPICH OFF)
else()
  set(OPTIMUS_MPIEXEC_FLAGS "")
  set(OPTIMUS_MPI_IS_MPICH ON)  # or one of its many relatives
endif()
