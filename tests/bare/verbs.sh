# shellcheck shell=bash
# verbs.sh - `./dev test bare`: README's first commands in a bare root file system, where nothing of this machine is seen. Read by
# dev, whose functions it uses.

BARE_PACKAGES="mmdebstrap util-linux ca-certificates"

# bare_system: prints a tarball of this release's smallest root file system with git in it, as a new machine would have it.
bare_system() {
	local release sources tarball
	# shellcheck disable=SC1091
	release=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
	tarball=$CACHE/minbase-$release-$(dpkg --print-architecture).tar
	for sources in /etc/apt/sources.list.d/{debian,ubuntu}.sources /etc/apt/sources.list; do
		[ ! -e "$sources" ] || break
	done
	mkdir -p "$CACHE"
	(
		flock 9
		[ -e "$tarball" ] && exit 0
		say "making a bare root file system of $release"
		retry as_root mmdebstrap -q --format=tar --variant=minbase --include=ca-certificates,git "$release" "$tarball.part" "$sources" &&
			mv -f "$tarball.part" "$tarball"
	) 9>"$tarball.lock" >&2 || die "a bare root file system could not be made"
	printf '%s\n' "$tarball"
}

# How this machine reaches its package registries; a bare one there would be told the same.
bare_registries() {
	local root=$1 file
	for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e "$file" ] || install -D -m 644 "$file" "$root$file"
	done
	for file in /etc/apt/apt.conf.d/*proxy* /etc/apt/auth.conf; do
		[ ! -e "$file" ] || install -D -m 644 "$file" "$root$file"
	done
	[ ! -e "$HOME/.config/pip/pip.conf" ] || install -D -m 644 "$HOME/.config/pip/pip.conf" "$root/root/.config/pip/pip.conf"
}

# bare_run COMMAND: in a clone of the last commit in /root of the bare system. Only caches of packages outlast it: apt's, pip's,
# and what ./dev there keeps in its own.
bare_run() {
	local command=$1 tarball root caches status=0 variables=()
	tarball=$(bare_system) || return 1
	root=$(mktemp -d "${TMPDIR:-/tmp}/profd-bare.XXXXXX")
	caches=$CACHE/bare
	mkdir -p "$caches/profd" "$caches/archives/partial" "$HOME/.cache/pip"
	as_root tar -C "$root" -xf "$tarball" --exclude='./dev/*'
	bare_registries "$root"
	git clone -q --no-hardlinks . "$root/root/profd"
	while IFS= read -r variable; do
		variables+=("$variable")
	done < <(env | grep -E '^(PIP_|[a-z]+_proxy=|[A-Z]+_PROXY=|SSL_CERT_FILE=|CI=)')
	# pivot_root, not chroot: in a chroot the kernel makes no user namespaces.
	# shellcheck disable=SC2016 # the inner shell expands it
	as_root unshare --mount --pid --fork --kill-child --uts bash -c '
		set -e
		root=$1 caches=$2 pip=$3 command=$4
		shift 4
		mount --make-rprivate /
		mount --bind "$root" "$root"
		mkdir -p "$root/root/.cache/profd" "$root/root/.cache/pip" "$root/var/cache/apt/archives"
		mount --bind "$caches/profd" "$root/root/.cache/profd"
		mount --bind "$caches/archives" "$root/var/cache/apt/archives"
		mount --bind "$pip" "$root/root/.cache/pip"
		mount -t proc proc "$root/proc"
		mount -t sysfs sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
		[ ! -e /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup" 2>/dev/null || true
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmp "$root/dev/shm"
		hostname bare
		cd "$root"
		mkdir -p run/old
		pivot_root . run/old
		umount -l /run/old
		rmdir /run/old
		# The packages that were fetched stay for the next time.
		rm -f /etc/apt/apt.conf.d/docker-clean
		printf "Binary::apt-get::APT::Keep-Downloaded-Packages \"true\";\nAPT::Keep-Downloaded-Packages \"true\";\n" >/etc/apt/apt.conf.d/keep
		exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb "$@" \
			bash -c "cd /root/profd && $command"
	' bare "$root" "$caches" "$HOME/.cache/pip" "$command" "${variables[@]}" </dev/null || status=1
	as_root rm -rf "$root"
	return $status
}

# README's commands, one after the other: the demo; the tests in their short form, or all of them.
test_bare() {
	local part status=0
	# shellcheck disable=SC2086
	need $BARE_PACKAGES
	if ! as_root unshare --mount --pid --fork true 2>/dev/null; then
		say "namespaces with mounts of their own cannot be made here"
		printf 'bare: 0 passed, 0 failed, 1 skipped\n'
		# Where CI runs nobody would notice that README's first commands are not tried.
		[ -z "${CI:-}" ]
		return
	fi
	for part in "${@:-demo short}"; do
		case $part in
		demo) bare_run "./dev demo" || status=1 ;;
		short) bare_run "./dev test short" || status=1 ;;
		"demo short") bare_run "./dev demo && ./dev test short" || status=1 ;;
		all) bare_run "./dev demo && ./dev test" || status=1 ;;
		*) die "./dev test bare [demo|short|all]" ;;
		esac
	done
	[ $status = 0 ] && printf 'bare: 1 passed, 0 failed\n' || printf 'bare: 0 passed, 1 failed\n'
	return $status
}
