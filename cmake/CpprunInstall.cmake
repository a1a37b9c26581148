# SPDX-License-Identifier: BSD-3-Clause
include(CMakePackageConfigHelpers)

install(TARGETS cpprun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS cpprun_api EXPORT cpprunTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/cpprun DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT cpprunTargets NAMESPACE cpprun:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cpprun)
configure_package_config_file(cmake/cpprunConfig.cmake.in ${PROJECT_BINARY_DIR}/cpprunConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cpprun)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cpprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cpprunConfig.cmake ${PROJECT_BINARY_DIR}/cpprunConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cpprun)
install(FILES docs/cpprun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_CONTACT "the cpprun authors")
set(CPACK_STRIP_FILES ON)
include(CPack)
