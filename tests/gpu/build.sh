#!/bin/sh
# build.sh FOLDER - builds what ./dev gpu --pack has packed from its sources, with a C compiler alone: FOLDER/bin, FOLDER/lib and
# FOLDER/workloads. For machines on which the packed programs do not start (an older glibc). The sources lie beside this file:
# profd/ (the repository's) and third/ (cJSON, libuv, SQLite, zlib, yajl, libiberty's demangler).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?"build.sh FOLDER"}
mkdir -p "$out/bin" "$out/lib" "$out/workloads" "$out/objects"
out=$(cd "$out" && pwd)
compiler=${CC:-}
for candidate in cc gcc clang; do
	[ -n "$compiler" ] || ! command -v $candidate >/dev/null 2>&1 || compiler=$candidate
done
[ -n "$compiler" ] || {
	echo "build.sh: no C compiler was found (CC names one)" >&2
	exit 1
}
processors=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
profd=$here/profd third=$here/third
standard=-std=gnu17
"$compiler" $standard -E -x c /dev/null >/dev/null 2>&1 || standard=-std=gnu11

ours="$standard -O2 -fPIC -fvisibility=hidden -D_GNU_SOURCE= -I$profd -I$third/include"
# As CMakeLists.txt: what runs inside a job.
agent="$ours -ftls-model=initial-exec -U_FORTIFY_SOURCE -fno-stack-protector -include $profd/agent/glibc_compat.h"
theirs="-O1 -fPIC -w -D_GNU_SOURCE -I$third/include"
jobs=$out/objects/jobs
: >"$jobs"

# compile GROUP OPTIONS FILE...: puts them on the list; GROUP tells objects of one name apart.
compile() {
	group=$1 options=$2
	shift 2
	for file in "$@"; do
		object=$out/objects/$group-$(echo "${file#"$here"/}" | tr / -).o
		printf '%s\n' "$compiler $options -c $file -o $object" >>"$jobs"
	done
}
objects() {
	for group in "$@"; do
		ls "$out/objects/$group"-*.o
	done
}

compile sqlite "$theirs -DSQLITE_THREADSAFE=1 -DSQLITE_USE_URI=1 -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_MAX_VARIABLE_NUMBER=250000" "$third"/sqlite/*.c
compile proto "$agent" "$profd"/proto/*.c
compile python "$agent" "$profd"/proto/python/*.c
compile agent "$agent" "$profd"/agent/*.c "$profd"/agent/*/*.c
compile base "$ours -include $profd/cmake/old_glibc.h" "$profd"/proto/base/*.c
compile store "$ours -include $profd/cmake/old_glibc.h" "$profd"/store/*.c "$profd"/store/*/*.c
# As daemon/CMakeLists.txt: what clients may ask for.
mkdir -p "$out/generated"
for op in "$profd"/daemon/ops/op/*.c; do
	echo "OP($(basename "$op" .c))"
done >"$out/generated/ops.def"
compile daemon "$ours -I$out/generated -include $profd/cmake/old_glibc.h" "$profd"/daemon/*.c "$profd"/daemon/*/*.c "$profd"/daemon/*/*/*.c
compile client "$ours -include $profd/cmake/old_glibc.h" "$profd"/client/*.c "$profd"/client/*/*.c "$profd"/client/*/*/*.c
compile uv "$theirs -I$third/uv -I$third/uv/src -D_FILE_OFFSET_BITS=64 -D_LARGEFILE_SOURCE" "$third"/uv/src/*.c "$third"/uv/src/unix/*.c
compile cjson "$theirs -I$third/include/cjson" "$third"/cjson/*.c
compile zlib "$theirs -DHAVE_UNISTD_H" "$third"/zlib/*.c
compile yajl "$theirs -I$third/yajl" "$third"/yajl/*.c
compile iberty "$theirs -I$third/include/libiberty -DHAVE_STDLIB_H -DHAVE_STRING_H -DHAVE_LIMITS_H" "$third"/iberty/*.c
xargs -P "$processors" -I '{}' sh -c '{}' <"$jobs"

# shellcheck disable=SC2046 # the names of the objects have no blanks
{
	"$compiler" -o "$out/bin/profd-daemon" $(objects daemon store base proto uv sqlite cjson iberty) -lpthread -ldl -lrt -lm
	"$compiler" -o "$out/bin/profd" $(objects client store base python proto sqlite cjson zlib yajl iberty) -lpthread -ldl -lm
	"$compiler" -shared -o "$out/lib/libprofd_agent.so" $(objects agent python proto) -static-libgcc \
		"-Wl,--version-script=$profd/agent/agent.map" -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,-z,defs
}
for source in "$profd"/tests/workloads/*.c; do
	name=$(basename "$source" .c)
	shared=
	case $name in
	lib*)
		shared=-shared
		name=$name.so
		;;
	esac
	# shellcheck disable=SC2086 # options
	"$compiler" $standard -O2 -fPIC -D_GNU_SOURCE= "-I$profd" $shared -o "$out/workloads/$name" "$source" -lpthread -ldl -lm
done
rm -rf "$out/objects"
