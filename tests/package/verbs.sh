# shellcheck shell=bash
# verbs.sh - `./dev static`, `./dev package` and `./dev test aarch64`; read by dev, whose functions they use.

PACKAGES_FOLDER=build-packages # what is to be handed out

# ---- the build for any machine: zig's compiler, libraries from their sources

# zig_tools MACHINE: prints a folder with cc, ar and ranlib that build for MACHINE (x86_64, aarch64) and the agent's glibc.
zig_tools() {
	local machine=$1 folder zig tool
	folder=$(venv "ziglang-$ZIG_VERSION" "ziglang==$ZIG_VERSION") || die "ziglang $ZIG_VERSION could not be fetched from PyPI"
	zig=$(find "$folder" -path '*/ziglang/zig' -print -quit)
	[ -x "$zig" ] || die "ziglang $ZIG_VERSION carries no compiler"
	mkdir -p "$folder/$machine"
	for tool in cc ar ranlib; do
		{
			printf '#!/bin/sh\n'
			# shellcheck disable=SC2016 # the script expands it
			printf 'export ZIG_GLOBAL_CACHE_DIR=%q ZIG_LOCAL_CACHE_DIR=%q\nexec %q %s "$@"\n' "$folder/cache" "$folder/cache" \
				"$zig" "$tool$([ $tool != cc ] || printf ' -target %s-linux-gnu.%s' "$machine" "$STATIC_GLIBC")"
		} >"$folder/$machine/$tool.$$"
		chmod +x "$folder/$machine/$tool.$$"
		mv -f "$folder/$machine/$tool.$$" "$folder/$machine/$tool"
	done
	printf '%s\n' "$folder/$machine"
}

# The sources of the libraries, as PROFD_SOURCES and tests/gpu/pack.py take them: NAME=FOLDER, a line each.
library_sources() {
	local folder
	folder=$(debian_source cjson cJSON.c) && printf 'cjson=%s\n' "$folder" &&
		folder=$(debian_source libuv1 uv-common.c) && printf 'uv=%s\n' "${folder%/src}" &&
		folder=$(sqlite_amalgamation) && printf 'sqlite=%s\n' "$folder" &&
		folder=$(debian_source zlib inflate.c) && printf 'zlib=%s\n' "$folder" &&
		folder=$(debian_source yajl yajl_parser.c) && printf 'yajl=%s\n' "${folder%/src}" &&
		folder=$(debian_source libiberty cp-demangle.c) && printf 'iberty=%s\n' "${folder%/libiberty}"
}

# build_static MACHINE FOLDER TARGETS [CMAKE-ARGUMENT...]: FOLDER with programs that ask for libc alone, an old one.
build_static() {
	local machine=$1 folder=$2 targets=$3 tools sources
	shift 3
	# shellcheck disable=SC2086
	need $BUILD_PACKAGES python3 python3-venv
	tools=$(zig_tools "$machine") || return 1
	sources=$(library_sources) || return 1
	if [ -n "${WITH_CMOCKA:-}" ]; then
		sources+=$'\n'cmocka=$(debian_source cmocka cmocka.c) || return 1
		sources=${sources%/src}
	fi
	# shellcheck disable=SC2153 # dev's
	configure "$folder" "-DCMAKE_TOOLCHAIN_FILE=$ROOT/cmake/zig.cmake" "-DPROFD_ZIG=$tools" "-DPROFD_MACHINE=$machine" \
		-DPROFD_STATIC=ON "-DPROFD_SOURCES=${sources//$'\n'/;}" "$@"
	# shellcheck disable=SC2086
	compile "$folder" $targets
}

static_folder() { [ "$1" = x86_64 ] && printf 'build-static\n' || printf 'build-static-%s\n' "$1"; }

release_version() { sed -n 's/#define PROFD_VERSION "\(.*\)"/\1/p' proto/version.h; }
# When what is packed was made: the last commit, so that the same commit makes the same bytes.
release_time() { git log -1 --format=%ct 2>/dev/null || date +%s; }

# static_tarball MACHINE: prints its path.
static_tarball() {
	local machine=$1 folder name stage tarball sources
	folder=$(static_folder "$machine")
	name=profd-$(release_version)-linux-$machine
	stage=$folder/stage/$name
	tarball=$PACKAGES_FOLDER/$name.tar.gz
	build_static "$machine" "$folder" "" -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=/usr/local >&2 || return 1
	sources=$(library_sources) || return 1
	rm -rf "$folder/stage"
	# Units name programs: those of /usr/local, where the folder can be copied to.
	DESTDIR=$ROOT/$folder/stage cmake --install "$folder" >"$folder/install.log" 2>&1 || {
		cat "$folder/install.log" >&2
		die "what was built for $machine could not be installed"
	}
	mv "$folder/stage/usr/local" "$stage"
	rmdir "$folder/stage/usr"
	cp LICENSE "$stage/LICENSE"
	cp CHANGELOG.md README.md "$stage/"
	mkdir "$stage/docs"
	cp docs/*.md "$stage/docs/"
	sed "s/@NAME@/$name/g" cmake/package/README.tarball >"$stage/README"
	# shellcheck disable=SC2086
	python3 cmake/package/notices.py $sources >"$stage/THIRD-PARTY"
	mkdir -p "$PACKAGES_FOLDER"
	tar --sort=name --mtime="@$(release_time)" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		-C "$folder/stage" -cf - "$name" | gzip -9n >"$tarball"
	printf '%s\n' "$tarball"
}

# A job for the tests that needs libc alone. Prints its path.
static_steps() {
	local machine=$1 tools
	tools=$(zig_tools "$machine") || return 1
	"$tools/cc" -std=gnu17 -O2 -D_GNU_SOURCE= -I. -o "$(static_folder "$machine")/steps" tests/workloads/steps.c -lpthread -ldl -lm ||
		return 1
	printf '%s/steps\n' "$(static_folder "$machine")"
}

# bare_root [PACKAGE...]: prints a tarball with a bare root file system of this machine's release: systemd, and in apt's
# cache these packages and what they need, so that apt finds them without a network.
bare_root() {
	local tarball release sources
	# shellcheck disable=SC1091
	release=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
	tarball=$CACHE/bare-$release-$(dpkg --print-architecture)-$(printf '%s\n' "$@" | LC_ALL=C sort | sha256sum | cut -c1-8).tar
	for sources in /etc/apt/sources.list.d/{debian,ubuntu}.sources /etc/apt/sources.list; do
		[ ! -e "$sources" ] || break
	done
	mkdir -p "$CACHE"
	(
		flock 9
		[ -e "$tarball" ] && exit 0
		say "making a bare root file system of $release"
		# shellcheck disable=SC2016 # mmdebstrap's shell expands it
		retry as_root mmdebstrap -q --format=tar --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates --skip=cleanup/apt \
			'--aptopt=APT::Install-Recommends "false"' --customize-hook='rm -f "$1"/var/cache/apt/archives/*.deb' \
			--customize-hook="APT_CONFIG=\"\$MMDEBSTRAP_APT_CONFIG\" apt-get -qq --yes --download-only install $*" \
			"$release" "$tarball.part" "$sources" && mv -f "$tarball.part" "$tarball"
	) 9>"$tarball.lock" >&2 || die "a bare root file system could not be made"
	printf '%s\n' "$tarball"
}

# package_tests FILE NAME=VALUE...: the tests of what was packed, as root.
package_tests() {
	local file=$1
	shift
	as_root env PYTHONDONTWRITEBYTECODE=1 "$@" /usr/bin/python3 -m pytest -ra -p no:cacheprovider "$file"
}

verb_static() {
	local machine=${1:-x86_64} tarball root steps
	case $machine in
	x86_64 | aarch64) ;;
	*) die "--static is for x86_64 and aarch64, not $machine" ;;
	esac
	# shellcheck disable=SC2086
	need $PACKAGE_PACKAGES
	# shellcheck disable=SC2086
	[ "$machine" = "$(uname -m)" ] || need ${AARCH64_PACKAGES//aarch64/$machine}
	tarball=$(static_tarball "$machine") || exit 1
	steps=$(static_steps "$machine") || exit 1
	root=$(bare_root libuv1 libsqlite3-0 libcjson1) || exit 1
	package_tests tests/package/test_tarball.py "PROFD_TARBALL=$ROOT/$tarball" "PROFD_STEPS=$ROOT/$steps" "PROFD_BARE_ROOT=$root"
	say "made $tarball, $(stat -c %s "$tarball" | numfmt --to=iec)"
}

# The unit tests of another machine, and the rules of its agent.
test_aarch64() {
	local nvtx
	# shellcheck disable=SC2086
	need $BUILD_PACKAGES $AARCH64_PACKAGES
	say "unit and compat tests of an aarch64 build, emulated"
	nvtx=$(nvtx_include) || return 1
	WITH_CMOCKA=1 build_static aarch64 build-aarch64 "" "-DPROFD_NVTX_INCLUDE=$nvtx" \
		"-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/usr/aarch64-linux-gnu" || return 1
	python3 tests/lint/lint.py --agent build-aarch64/lib/libprofd_agent.so || return 1
	ctest --test-dir build-aarch64 -j "$(nproc)" --output-on-failure --no-tests=error
}

verb_package() {
	local deb next root steps unit_folder names
	# shellcheck disable=SC2086
	need $BUILD_PACKAGES $PACKAGE_PACKAGES
	unit_folder=$(pkg-config --variable=systemdsystemunitdir systemd 2>/dev/null) || unit_folder=
	SOURCE_DATE_EPOCH=$(release_time)
	export SOURCE_DATE_EPOCH
	CFLAGS="$(dpkg-buildflags --get CFLAGS) $(dpkg-buildflags --get CPPFLAGS)" configure build-deb -DPROFD_PACKAGE=ON \
		-DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=/usr "-DPROFD_UNIT_FOLDER=${unit_folder:-lib/systemd/system}" \
		"-DCMAKE_EXE_LINKER_FLAGS=$(dpkg-buildflags --get LDFLAGS) -Wl,-z,now"
	compile build-deb
	mkdir -p "$PACKAGES_FOLDER" build-deb/next
	rm -f build-deb/*.deb build-deb/next/*.deb
	{
		cpack --config build-deb/CPackConfig.cmake -B build-deb &&
			cpack --config build-deb/CPackConfig.cmake -B build-deb/next -D CPACK_DEBIAN_PACKAGE_RELEASE=2
	} >build-deb/cpack.log 2>&1 || {
		cat build-deb/cpack.log >&2
		die "cpack failed"
	}
	deb=$(ls build-deb/profd_*.deb)
	next=$(ls build-deb/next/profd_*.deb)
	say "lintian"
	lintian --fail-on error --tag-display-limit 0 "$deb" || die "lintian found errors in $deb"
	# What it needs, by name: the bare root file system has it in apt's cache.
	names=$(dpkg-deb -f "$deb" Depends | tr ',|' '\n' | sed 's/(.*//; s/[[:space:]]//g')
	# shellcheck disable=SC2086
	root=$(bare_root $names) || exit 1
	steps=build-deb/steps
	cc -std=gnu17 -O2 -D_GNU_SOURCE= -I. -o "$steps" tests/workloads/steps.c -lpthread -ldl -lm
	package_tests tests/package/test_deb.py "PROFD_DEB=$ROOT/$deb" "PROFD_DEB_NEXT=$ROOT/$next" "PROFD_STEPS=$ROOT/$steps" \
		"PROFD_BARE_ROOT=$root"
	cp "$deb" "$PACKAGES_FOLDER/"
	say "made $PACKAGES_FOLDER/${deb##*/}, $(stat -c %s "$deb" | numfmt --to=iec)"
}
