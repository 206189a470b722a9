# What `cmake --install` lays down: the library, every public header, the program, and the package files that
# find_package(megaflux) reads.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/megaflux)

install(TARGETS megaflux EXPORT megaflux-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/megaflux/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/megaflux
  FILES_MATCHING PATTERN "*.h")
if(MEGAFLUX_CUDA)
  # In an export of its own: who does not ask for it needs no CUDA toolkit.
  install(TARGETS megaflux_cuda EXPORT megaflux-cuda-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT megaflux-cuda-targets NAMESPACE megaflux:: DESTINATION ${package_dir})
  # For kernels of one's own.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/megaflux/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/megaflux
    FILES_MATCHING PATTERN "*.cuh")
endif()
install(EXPORT megaflux-targets NAMESPACE megaflux:: DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET megaflux_cli)
  install(TARGETS megaflux_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

if(BUILD_SHARED_LIBS)
  set(MEGAFLUX_IS_STATIC OFF)
else()
  set(MEGAFLUX_IS_STATIC ON)
endif()
configure_package_config_file(cmake/megaflux-config.cmake.in ${PROJECT_BINARY_DIR}/megaflux-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/megaflux-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/megaflux-config.cmake
              ${PROJECT_BINARY_DIR}/megaflux-config-version.cmake
  DESTINATION ${package_dir})
