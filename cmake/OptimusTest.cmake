# optimus_test(<name> DEPENDS <optimus library>... [LIBRARIES <outside library>...] [RANKS <n>...] [TIMEOUT <s>] [LABELS <label>...])
#
# One GoogleTest program from the sources of the calling folder. Without RANKS each case is a ctest entry of its own; with RANKS
# the whole program is one entry for each number of MPI ranks.
include(GoogleTest)

# All unit tests: what the sanitizer builds compile and run.
add_custom_target(unit_tests)

function(optimus_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "DEPENDS;LIBRARIES;RANKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(target "test_${name}")
  add_executable(${target} ${sources})
  # Tests are compiled far more often than they run long.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(name MATCHES "^unit_")
    add_dependencies(unit_tests ${target})
  endif()
  target_link_libraries(${target} PRIVATE optimus_flags ${ARG_LIBRARIES})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} PRIVATE optimus_${dependency})
  endforeach()
  target_compile_definitions(${target} PRIVATE OPTIMUS_SOURCE_DIR="${PROJECT_SOURCE_DIR}" OPTIMUS_BINARY_DIR="${CMAKE_BINARY_DIR}")
  # Fresh memory is poisoned in every test: a result that depends on it fails here, not on a user's machine.
  set(environment "MALLOC_PERTURB_=165;OMP_NUM_THREADS=2;ASAN_OPTIONS=allocator_may_return_null=1")
  if(ARG_RANKS)
    target_link_libraries(${target} PRIVATE GTest::gtest optimus_test_mpi)  # with main(): tests/support/mpi
    foreach(ranks IN LISTS ARG_RANKS)
      add_test(NAME ${name}.ranks_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} ${OPTIMUS_MPIEXEC_FLAGS} -n ${ranks} $<TARGET_FILE:${target}>)
      set_tests_properties(${name}.ranks_${ranks} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "MALLOC_PERTURB_=165;OMP_NUM_THREADS=1;ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1" PROCESSORS 2 LABELS "${ARG_LABELS}")
    endforeach()
  else()
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
    gtest_discover_tests(${target} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${environment}" LABELS "${ARG_LABELS}")
  endif()
endfunction()

# Open MPI refuses to start as root or with more ranks than cores unless told; MPICH knows neither flag.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpiexec_version ERROR_QUIET)
if(mpiexec_version MATCHES "Open MPI|OpenRTE|PRRTE")
  set(OPTIMUS_MPIEXEC_FLAGS --allow-run-as-root --oversubscribe --bind-to none)
else()
  set(OPTIMUS_MPIEXEC_FLAGS "")
endif()
