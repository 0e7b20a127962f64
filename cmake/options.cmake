set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# -O2 without -g: debug information of gRPC and LibTorch headers costs more than the code.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

option(PREHEAT_WITH_TORCH "Build what needs LibTorch: reference numerics, extern handler" ON)
set(PREHEAT_SANITIZER "" CACHE STRING "address,undefined or thread")
if(PREHEAT_SANITIZER)
  # A finding of undefined behaviour ends the program, so that a test sees it.
  add_compile_options(-fsanitize=${PREHEAT_SANITIZER} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PREHEAT_SANITIZER})
endif()

# Held to g++'s warnings. clang, which only fuzzes, has others.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(PREHEAT_WERROR -Werror)
endif()

option(PREHEAT_FUZZ "Instrument for libFuzzer and build tests/fuzz with it: clang only" OFF)
if(PREHEAT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # base_dir: clones and build folders at different paths share results.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()
