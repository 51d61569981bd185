# farpage_test(NAME [SERIAL] SOURCES ... LINKS ...): one test program a folder, farpage_test_NAME, every case of which is a test of ctest,
# with the label NAME.

include(GoogleTest)

function(farpage_test name)
  cmake_parse_arguments(ARG "SERIAL" "" "SOURCES;LINKS" ${ARGN})
  add_executable(farpage_test_${name} ${ARG_SOURCES})
  target_include_directories(farpage_test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  # With sanitizers the compiler takes longer to optimize what GoogleTest's macros make than the tests gain by it.
  target_compile_options(farpage_test_${name} PRIVATE $<$<CONFIG:Debug>:-O0>)
  target_link_libraries(farpage_test_${name} PRIVATE ${ARG_LINKS} GTest::gmock GTest::gtest_main rapidcheck_gtest)
  # SERIAL: it measures time against real processes, and nothing else may run beside it.
  if(ARG_SERIAL)
    set(serial RUN_SERIAL TRUE)
  endif()
  # It is there against what hangs, and sanitizers slow simulations down as much.
  set(limit_s 120)
  if(FARPAGE_SANITIZE)
    set(limit_s 480)
  endif()
  gtest_discover_tests(farpage_test_${name}
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${limit_s} LABELS ${name} ${serial} SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()
