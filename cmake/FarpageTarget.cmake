# One target a folder: farpage_target(NAME SOURCES ... LINKS ...) makes farpage_NAME, with the alias
# farpage::NAME.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(FARPAGE_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")

find_program(FARPAGE_CCACHE ccache)
if(FARPAGE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # One build folder's objects serve another whose flags are the same: dev's and minimal's, mostly.
  # The sloppiness is what precompiled headers need.
  # A build with sanitizers shares with no other, so the preprocessor need not run for the search.
  set(depend)
  if(FARPAGE_SANITIZE)
    set(depend CCACHE_DEPEND=true)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${depend} ${FARPAGE_CCACHE})
endif()

find_program(FARPAGE_MOLD mold)
find_program(FARPAGE_LLD ld.lld)
if(FARPAGE_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(FARPAGE_LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(FARPAGE_SANITIZE)
  add_compile_options(-fsanitize=${FARPAGE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FARPAGE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers, g++ 12 takes variables of Boost.Histogram for uninitialized.
    add_compile_options(-Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
endif()

# g++ collects its garbage less often: up to a tenth less time for up to a fifth more memory.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()

# Headers that cost the most, and nothing else, so that what is precompiled hides no missing include
# but theirs; scripts/lint goes without it. ccache keeps what is so compiled only with these
# options.
option(FARPAGE_PCH "Precompile GoogleTest's headers for tests, and CLI11's for programs" ON)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(farpage_pch_options -fpch-preprocess)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(farpage_pch_options "SHELL:-Xclang -fno-pch-timestamp")
endif()

# Another compiler, or other flags, may warn of more: that does not stop a build.
option(FARPAGE_WARNINGS_ARE_ERRORS "Of the compiler; every preset sets it" OFF)
add_compile_options(-Wall -Wextra $<$<BOOL:${FARPAGE_WARNINGS_ARE_ERRORS}>:-Werror>)

# farpage_NAME is a part of libfarpage.so, and is installed for those who link farpage::client.
function(farpage_library_part name)
  set_target_properties(farpage_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  # Functions of a library are inlined in it all the same.
  target_compile_options(farpage_${name} PRIVATE -fno-semantic-interposition)
  install(TARGETS farpage_${name} EXPORT farpage-client ARCHIVE DESTINATION lib COMPONENT dev)
endfunction()

find_program(FARPAGE_OBJCOPY objcopy REQUIRED)

# Debuggers and profilers find the debug information of a release beside the file.
function(farpage_strip target)
  if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    set(file $<TARGET_FILE:${target}>)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${FARPAGE_OBJCOPY} --only-keep-debug ${file} ${file}.debug
      COMMAND ${FARPAGE_OBJCOPY} --strip-unneeded --add-gnu-debuglink=${file}.debug ${file}
      VERBATIM)
  endif()
endfunction()

function(farpage_target name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  foreach(link ${ARG_LINKS} ${ARG_PRIVATE_LINKS})
    if(link MATCHES "^farpage::" AND NOT TARGET ${link})
      message(FATAL_ERROR "${name} links ${link}, which stands below it in the layers' order (CMakeLists.txt)")
    endif()
  endforeach()
  add_library(farpage_${name} STATIC ${ARG_SOURCES})
  add_library(farpage::${name} ALIAS farpage_${name})
  target_include_directories(farpage_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/farpage>)
  target_compile_features(farpage_${name} PUBLIC cxx_std_20)  # for those who link it from elsewhere
  target_link_libraries(farpage_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(FARPAGE_IN_LIBRARY)
    farpage_library_part(${name})
  endif()
endfunction()
