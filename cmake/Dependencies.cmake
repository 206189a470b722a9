# Every package the build draws on, found once and visible in all directories. cmake/setup.sh lists the
# distribution packages that bring them.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
if(MEGAFLUX_LIBZIP)
  find_package(PkgConfig REQUIRED)
  # Debian's libzip-config.cmake wants the zip tools installed; pkg-config does not.
  pkg_check_modules(libzip REQUIRED IMPORTED_TARGET GLOBAL libzip)
endif()
if(MEGAFLUX_ONEDNN)
  # Its configuration looks for OpenCL, which the GPU half of the distribution's build was linked with.
  find_package(dnnl REQUIRED)
  # For omp_set_num_threads alone: the GEMMs of a rank stay on its own thread.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
