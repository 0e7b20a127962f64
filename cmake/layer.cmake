include(GoogleTest)

# preheat_layer(NAME DEPS ... [PUBLIC_LIBS ...] [PRIVATE_LIBS ...] [TEST_DEPS ...])
#
# The target preheat_NAME of the current folder: every .cc in it but *_test.cc and main.cc. Tests beside the
# sources become one program, NAME_test, each case known to ctest. DEPS are layers (without the
# prefix) and say all that the folder may include; the rest are libraries from elsewhere.
function(preheat_layer name)
  cmake_parse_arguments(L "NO_WERROR" "" "DEPS;PUBLIC_LIBS;PRIVATE_LIBS;TEST_DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM L_DEPS PREPEND preheat_)
  list(TRANSFORM L_TEST_DEPS PREPEND preheat_)
  if(sources)
    add_library(preheat_${name} STATIC ${sources})
    target_include_directories(preheat_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
    target_link_libraries(preheat_${name} PUBLIC ${L_DEPS} ${L_PUBLIC_LIBS} PRIVATE ${L_PRIVATE_LIBS})
    target_compile_options(preheat_${name} PRIVATE -Wall -Wextra ${PREHEAT_WERROR})
  else()
    add_library(preheat_${name} INTERFACE)
    target_include_directories(preheat_${name} INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
    target_link_libraries(preheat_${name} INTERFACE ${L_DEPS} ${L_PUBLIC_LIBS})
  endif()
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE preheat_${name} ${L_TEST_DEPS} GTest::gmock GTest::gtest_main)
    target_compile_options(${name}_test PRIVATE -Wall -Wextra ${PREHEAT_WERROR})
    preheat_source_dir(${tests})
    set_target_properties(${name}_test PROPERTIES CROSSCOMPILING_EMULATOR ${CMAKE_SOURCE_DIR}/cmake/in_own_folder.sh)
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}/" NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST
                         DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT 300)
  endif()
endfunction()

# preheat_headers(LAYER...): the current folder includes headers of these layers but does not link them: what they declare
# is found at run time, by dlopen. Read by deploy/check_layers.py; CMake has nothing to do.
function(preheat_headers)
endfunction()

# Defines PREHEAT_SOURCE_DIR, the root of the tree, for those of the given sources that use the word (configure again
# after a first use). Not for all: a path on the command line keeps ccache from serving one clone's results to another.
function(preheat_source_dir)
  foreach(source ${ARGN})
    file(STRINGS ${source} uses REGEX PREHEAT_SOURCE_DIR LIMIT_COUNT 1)
    if(uses)
      set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS PREHEAT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    endif()
  endforeach()
endfunction()

# preheat_program(NAME SOURCES ... DEPS ... [LIBS ...]): an executable in bin/.
function(preheat_program name)
  cmake_parse_arguments(P "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  list(TRANSFORM P_DEPS PREPEND preheat_)
  add_executable(${name} ${P_SOURCES})
  target_link_libraries(${name} PRIVATE ${P_DEPS} ${P_LIBS})
  target_compile_options(${name} PRIVATE -Wall -Wextra ${PREHEAT_WERROR})
endfunction()
