# optimus_library(<name> [DEPENDS <optimus library>...] [LIBRARIES <outside library>...])
#
# One static library from the sources of the calling folder (not of its subfolders). DEPENDS is the one place that says which
# other folders this one may include; it is written to ${CMAKE_BINARY_DIR}/layers.txt, which scripts/check_layers reads.
# LIBRARIES are private: no header of the folder may need them.
file(WRITE "${CMAKE_BINARY_DIR}/layers.txt" "")

function(optimus_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(target "optimus_${name}")
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${target} ${scope} optimus_flags)
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} ${scope} optimus_${dependency})
  endforeach()
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(JOIN " " dependencies ${ARG_DEPENDS})
  file(APPEND "${CMAKE_BINARY_DIR}/layers.txt" "${name} ${folder}: ${dependencies}\n")
endfunction()
