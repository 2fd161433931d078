#!/usr/bin/env bash
# boot.sh FOLDER - becomes systemd as PID 1 of a machine that shares nothing with this one but its packages: / is this
# machine's below a tmpfs, or comes from a tarball; /run, /tmp and /dev are new. machine.py runs it in fresh mount, pid,
# cgroup, ipc, uts and network namespaces. FOLDER has: tarball (of /, where one is used), stage/ (copied over /), binds (lines
# SOURCE TARGET, read-only), console (systemd's output).
set -eu
folder=$1
root=$folder/root

mount --make-rprivate /
mount -t tmpfs -o "size=${PROFD_MACHINE_BYTES:-2g},mode=755" machine "$folder/disk"
if [ -e "$folder/tarball" ]; then
	mount --bind "$folder/disk" "$root"
	tar -C "$root" -xf "$folder/tarball" --exclude='./dev/*'
else
	mkdir "$folder/disk/upper" "$folder/disk/work"
	mount -t overlay -o "lowerdir=/,upperdir=$folder/disk/upper,workdir=$folder/disk/work" overlay "$root"
fi

# What a kernel of its own would give; this machine's settings must not be touched by a systemd that takes them for its own.
mount -t proc proc "$root/proc"
for path in sys sysrq-trigger; do
	[ -e "$root/proc/$path" ] || continue
	mount --bind "$root/proc/$path" "$root/proc/$path"
	mount -o remount,bind,ro "$root/proc/$path"
done
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"

mount -t tmpfs -o mode=755 dev "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
for name in null zero full random urandom tty; do
	: >"$root/dev/$name"
	mount --bind "/dev/$name" "$root/dev/$name"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
: >"$root/dev/console"
mount --bind "$folder/console" "$root/dev/console"

mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
while read -r source target; do
	mkdir -p "$root$target"
	mount --bind "$source" "$root$target"
	mount -o remount,bind,ro "$root$target"
done <"$folder/binds"

# Nothing of this machine's own services, users' settings or profd may take part.
: >"$root/etc/machine-id"
: >"$root/etc/fstab"
rm -rf "$root/etc/profd" "$root/var/lib/profd" "$root/etc/resolv.conf"
mkdir -p "$root/etc/systemd/system"
for target in multi-user timers sockets graphical; do
	rm -rf "$root/etc/systemd/system/$target.target.wants"
done
for unit in systemd-sysctl.service systemd-modules-load.service systemd-udevd.service systemd-udevd-kernel.socket \
	systemd-udevd-control.socket systemd-timesyncd.service systemd-resolved.service systemd-networkd.service \
	systemd-networkd.socket systemd-logind.service systemd-oomd.service systemd-journald-audit.socket getty.target \
	sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount \
	dev-hugepages.mount; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# Many short commands follow each other: the journal is to keep what all of them say.
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\nForwardToConsole=no\n' >"$root/etc/systemd/journald.conf.d/test.conf"
cp -a "$folder/stage/." "$root/"

cd "$root"
mkdir -p run/old
pivot_root . run/old
umount -l /run/old
rmdir /run/old
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=profd-test TERM=dumb \
	/lib/systemd/systemd --system --unit=multi-user.target --show-status=no >/dev/console 2>&1 </dev/null
