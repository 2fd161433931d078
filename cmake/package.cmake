# The Debian package, made by CPack: `./dev package` configures with -DPROFD_PACKAGE=ON and an install prefix of /usr. All that
# the package says about itself stands here.
#
#   -DPROFD_MAINTAINER="Name <mail>"   who answers for the package that you build
#   -DPROFD_RELEASE=N                  which package of this version it is
#   -DPROFD_HOMEPAGE=URL
set(PROFD_MAINTAINER "The maintainers of profd <maintainers@example.org>" CACHE STRING "of the package: Name <mail>")
set(PROFD_RELEASE 1 CACHE STRING "of the package")
set(PROFD_HOMEPAGE "" CACHE STRING "of the package")
set(package ${CMAKE_CURRENT_LIST_DIR}/package)
set(made ${CMAKE_BINARY_DIR}/package)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME profd)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${PROFD_MAINTAINER})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${PROFD_RELEASE})
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE ${PROFD_HOMEPAGE})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "says where the next steps of a running training job go")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "profd records the next few steps of a training job that runs already, without
a restart, a change of its code or harm to it, and says on the terminal where
their time went: kernels, copies and calls of CUDA (through CUPTI), NVTX
ranges, operators of PyTorch, steps. While nothing is recorded it costs
nothing.

This package has the command line (profd), the daemon of a shared machine,
which starts when it is first asked, and the agent that lies in the jobs.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# useradd, and the helpers of the maintainer scripts.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "init-system-helpers (>= 1.54~), passwd")
# libdw: loaded where it is there, by `profd stack --native`.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "systemd, libdw1")
set(CPACK_STRIP_FILES ON)
# Settings lie in /etc, outside the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})

file(MAKE_DIRECTORY ${made})
file(WRITE ${made}/conffiles "/etc/profd/profd.conf\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${package}/postinst ${package}/prerm ${package}/postrm ${made}/conffiles)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# The settings, all of them at their defaults and commented, as the daemon itself prints them.
add_custom_command(OUTPUT ${made}/profd.conf VERBATIM
	COMMAND sh ${package}/conf.sh $<TARGET_FILE:profd-daemon> ${made}/profd.conf
	DEPENDS profd-daemon ${package}/conf.sh)
add_custom_command(OUTPUT ${made}/changelog.Debian.gz ${made}/changelog.gz VERBATIM
	COMMAND sh ${package}/changelog.sh ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${PROJECT_VERSION}-${PROFD_RELEASE}
		${PROFD_MAINTAINER} ${made}
	DEPENDS ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${package}/changelog.sh)
add_custom_target(package_files ALL DEPENDS ${made}/profd.conf ${made}/changelog.Debian.gz)
install(FILES ${made}/profd.conf DESTINATION /etc/profd)
install(DIRECTORY DESTINATION /etc/profd/conf.d)
set(documents ${CMAKE_INSTALL_DATADIR}/doc/profd)
install(FILES ${package}/copyright ${CMAKE_SOURCE_DIR}/README.md ${made}/changelog.Debian.gz ${made}/changelog.gz
	DESTINATION ${documents})
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
install(FILES ${pages} DESTINATION ${documents}/docs)
# Manuals are kept compressed, without the time at which that was done.
install(CODE "
	file(GLOB pages \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man*/*.[0-9]\")
	foreach(page \${pages})
		execute_process(COMMAND gzip -9nf \${page} COMMAND_ERROR_IS_FATAL ANY)
	endforeach()")
include(CPack)
