# Toolchain file of `./dev static`: zig's C compiler, which links against the symbols that a given glibc had, for x86-64 and
# aarch64 alike. PROFD_ZIG is the folder of its tools (cc, ar, ranlib), which know their target.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PROFD_ZIG PROFD_MACHINE)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${PROFD_MACHINE})
set(CMAKE_C_COMPILER ${PROFD_ZIG}/cc)
set(CMAKE_AR ${PROFD_ZIG}/ar)
set(CMAKE_RANLIB ${PROFD_ZIG}/ranlib)
# Hardened as distributions do it.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-pie -Wl,-z,relro,-z,now")
# Nothing of the machine that builds: neither its headers nor its libraries.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
