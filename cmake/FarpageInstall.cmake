# find_package(farpage) and pkg-config: farpage::farpage is libfarpage.so with its header in C;
# farpage::client, with COMPONENTS client, is the library in C++, whose interface changes with each
# version.
include(CMakePackageConfigHelpers)

set(config lib/cmake/farpage)
configure_package_config_file(cmake/farpageConfig.cmake.in farpageConfig.cmake INSTALL_DESTINATION ${config})
write_basic_package_version_file(farpageConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/farpage.pc.in farpage.pc @ONLY)

install(EXPORT farpage NAMESPACE farpage:: FILE farpageTargets.cmake DESTINATION ${config} COMPONENT dev)
install(EXPORT farpage-client NAMESPACE farpage:: FILE farpageClientTargets.cmake DESTINATION ${config} COMPONENT dev)
install(FILES ${PROJECT_BINARY_DIR}/farpageConfig.cmake ${PROJECT_BINARY_DIR}/farpageConfigVersion.cmake
  cmake/FarpageDependencies.cmake DESTINATION ${config} COMPONENT dev)
install(FILES ${PROJECT_BINARY_DIR}/farpage.pc DESTINATION lib/pkgconfig COMPONENT dev)

install(FILES include/farpage/farpage.h include/farpage/fence.h DESTINATION include/farpage COMPONENT dev)
# In C++ #include "client/farpage.h".
install(DIRECTORY base net metrics integrity transport pagetable etcd prefetch control tier node doctor backends client
  DESTINATION include/farpage COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN client/c EXCLUDE)
