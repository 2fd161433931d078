/* places.c - see places.h. */
#include "places.h"
#include "daemon/core/server.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DIRECTORY_SYSTEM "/var/lib/profd"

static int say(char *sentence, int error, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, PLACES_SENTENCE_BYTES, format, arguments);
	va_end(arguments);
	return error;
}

/* Makes a folder and those above it. */
static int make_folders(const char *path, mode_t mode)
{
	char part[512];
	text_copy(part, sizeof part, path);
	for (char *p = part + 1;; p++) {
		if (*p != '/' && *p)
			continue;
		char end = *p;
		*p = 0;
		if (mkdir(part, mode) && errno != EEXIST)
			return -errno;
		*p = end;
		if (!end)
			return 0;
	}
}

/* 1 where a folder is ours and nobody else's; made where it is missing. */
static bool private_folder(const char *path)
{
	struct stat facts;
	if (mkdir(path, 0700) && errno != EEXIST)
		return false;
	return lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
	       (facts.st_mode & 0777) == 0700;
}

static int too_long(const char *path, int bytes, char *sentence)
{
	return say(sentence, -ENAMETOOLONG,
		   "the folder's path %.100s... is longer than %d bytes; name a shorter one with --dir", path,
		   bytes - 1);
}

static int user_directory(char *to, size_t to_bytes, char *sentence)
{
	char machine[64] = "machine";
	FILE *file = fopen("/etc/machine-id", "re");
	if (file) {
		if (fgets(machine, sizeof machine, file))
			machine[strcspn(machine, "\n")] = 0;
		fclose(file);
	}
	/* A machine without an id (a small container): its name tells homes of several machines apart well enough. */
	if (!file || !*machine)
		gethostname(machine, sizeof machine - 1);
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char base[512];
	int length;
	if (!home || *home != '/') {
		const struct passwd *entry = getpwuid(geteuid());
		home = entry ? entry->pw_dir : NULL;
	}
	if (state && *state == '/')
		length = snprintf(base, sizeof base, "%s", state);
	else if (home && *home == '/')
		length = snprintf(base, sizeof base, "%s/.local/state", home);
	else
		return say(sentence, -ENOENT,
			   "neither XDG_STATE_HOME nor HOME says where captures go; name a folder with --dir");
	if (length >= (int)sizeof base || snprintf(to, to_bytes, "%s/profd/%s", base, machine) >= (int)to_bytes)
		return too_long(base, (int)to_bytes, sentence);
	return 0;
}

/* The first folder that can hold a user's socket. */
static int user_socket(char *to, char *sentence)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char folders[3][256] = {"", "", ""};
	if (runtime && *runtime == '/')
		snprintf(folders[0], sizeof folders[0], "%s/profd", runtime);
	snprintf(folders[1], sizeof folders[1], "/run/user/%u/profd", (unsigned)geteuid());
	snprintf(folders[2], sizeof folders[2], "/tmp/profd-%u", (unsigned)geteuid());
	for (int i = 0; i < 3; i++) {
		if (!*folders[i] || strlen(folders[i]) + sizeof "/" SOCKET_NAME > SOCKET_PATH_BYTES ||
		    !private_folder(folders[i]))
			continue;
		snprintf(to, SOCKET_PATH_BYTES, "%.90s/" SOCKET_NAME, folders[i]);
		return 0;
	}
	return say(sentence, -EACCES,
		   "no folder for the socket: %s is not a folder of yours with mode 0700; remove it, or name a socket "
		   "with --socket",
		   folders[2]);
}

/* File systems on which SQLite's locks are not reliable, or on which a file may be damaged by a crash. */
static const char *network_file_system(const char *path)
{
	static const struct {
		unsigned long type;
		const char *name;
	} systems[] = {
		{0x6969, "NFS"},	{0xff534d42, "CIFS"},  {0xfe534d42, "SMB"},  {0x517b, "SMB"},
		{0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},  {0x65735546, "FUSE"}, {0x5346414f, "AFS"},
		{0x00c36400, "Ceph"},	{0x7461636f, "OCFS2"}, {0x01161970, "GFS2"}, {0x01021997, "9P"},
		{0x19830326, "BeeGFS"}, {0x73757245, "Coda"},
	};
	struct statfs facts;
	if (statfs(path, &facts))
		return NULL;
	for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
		if ((unsigned long)(uint32_t)facts.f_type == systems[i].type)
			return systems[i].name;
	return NULL;
}

static int choose_socket(struct server *server, const char *directory, const char *socket_path, char *sentence)
{
	char path[600] = "";
	const char *variable = getenv("PROFD_SOCKET");
	if (socket_path)
		text_copy(path, sizeof path, socket_path);
	else if (variable && *variable)
		text_copy(path, sizeof path, variable);
	else if (server->user)
		/* Where programs look, wherever captures go. */
		return user_socket(server->socket_path, sentence);
	else if (directory)
		snprintf(path, sizeof path, "%s/" SOCKET_NAME, server->directory);
	else
		text_copy(path, sizeof path, SOCKET_SYSTEM);
	if (strlen(path) >= SOCKET_PATH_BYTES)
		return say(sentence, -ENAMETOOLONG,
			   "the socket's path %.200s is longer than %d bytes; name a shorter one with --socket", path,
			   SOCKET_PATH_BYTES - 1);
	text_copy(server->socket_path, sizeof server->socket_path, path);
	char *slash = strrchr(path, '/');
	if (slash && slash != path) {
		*slash = 0;
		int error = make_folders(path, server->user ? 0700 : 0755);
		if (error)
			return say(sentence, error, "cannot make the socket's folder %.300s: %s", path,
				   strerror(-error));
	}
	return 0;
}

static int absolute(const char *path, char *to, size_t to_bytes, char *sentence)
{
	char *real = realpath(path, NULL);
	if (!real || strlen(real) >= to_bytes) {
		int error = real ? ENAMETOOLONG : errno;
		free(real);
		return say(sentence, -error, "cannot use the folder %.300s: %s; name another with --dir", path,
			   strerror(error));
	}
	text_copy(to, to_bytes, real);
	free(real);
	return 0;
}

/* A user who can write to the folder can replace what is in it, and its owner can change it at any time. A user may open
 * their own folder to a group. */
static int check_owner(const struct server *server, char *sentence)
{
	struct stat facts;
	if (stat(server->directory, &facts))
		return say(sentence, -errno, "cannot use the folder %s: %s", server->directory, strerror(errno));
	if (facts.st_uid != geteuid() && facts.st_uid != 0)
		return say(sentence, -EPERM,
			   "%s belongs to another user (%u), and the daemon runs as %u; name another folder with --dir",
			   server->directory, facts.st_uid, geteuid());
	if (facts.st_mode & (server->user ? S_IWOTH : S_IWGRP | S_IWOTH))
		return say(
			sentence, -EPERM,
			"others can write to %s; take that from them (chmod go-w), or name another folder with --dir",
			server->directory);
	return 0;
}

int places_take(struct server *server, const char *directory, const char *socket_path, char *sentence)
{
	char wanted[sizeof server->directory];
	int error = 0;
	if (directory && strlen(directory) >= sizeof wanted)
		return too_long(directory, sizeof wanted, sentence);
	if (directory)
		text_copy(wanted, sizeof wanted, directory);
	else if (server->user)
		error = user_directory(wanted, sizeof wanted, sentence);
	else
		text_copy(wanted, sizeof wanted, DIRECTORY_SYSTEM);
	if (error)
		return error;
	error = make_folders(wanted, server->user ? 0700 : 0750);
	if (error)
		return say(sentence, error, "cannot make the folder %.300s: %s; %s", wanted, strerror(-error),
			   server->user ? "name another with --dir"
					: "run it as root or by systemd, or run your own with `profd daemon --user`");
	error = absolute(wanted, server->directory, sizeof server->directory, sentence);
	if (error)
		return error;
	error = check_owner(server, sentence);
	if (error)
		return error;
	const char *network = network_file_system(server->directory);
	if (network)
		return say(sentence, -EOPNOTSUPP,
			   "%s lies on a network file system (%s), where captures could be damaged; name a folder on "
			   "a local disk with --dir",
			   server->directory, network);
	error = choose_socket(server, directory, socket_path, sentence);
	if (error)
		return error;
	char lock_path[512];
	snprintf(lock_path, sizeof lock_path, "%s/lock", server->directory);
	int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0)
		return say(sentence, -errno, "cannot open %s: %s", lock_path, strerror(errno));
	if (flock(lock, LOCK_EX | LOCK_NB)) {
		error = -errno;
		close(lock);
		return say(sentence, error, "another daemon uses %s already; `profd status` shows it",
			   server->directory);
	}
	snprintf(server->folder_path, sizeof server->folder_path, "%s/captures", server->directory);
	if (mkdir(server->folder_path, server->user ? 0700 : 0750) && errno != EEXIST)
		error = -errno;
	server->folder = error ? -1 : open(server->folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (server->folder < 0) {
		error = -errno;
		close(lock);
		return say(sentence, error, "cannot open %s: %s", server->folder_path, strerror(-error));
	}
	return lock;
}

int places_listen(const struct server *server, char *sentence)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	text_copy(address.sun_path, sizeof address.sun_path, server->socket_path);
	int probe = socket_connect(server->socket_path);
	if (probe >= 0) {
		close(probe);
		return say(
			sentence, -EADDRINUSE,
			"another daemon listens on %s already; `profd status` shows it; for a second one name a socket "
			"with --socket, and give programs the same as PROFD_SOCKET",
			server->socket_path);
	}
	struct stat facts;
	if (lstat(server->socket_path, &facts) == 0) {
		if (!S_ISSOCK(facts.st_mode))
			return say(sentence, -EEXIST,
				   "%s is there and is no socket; remove it, or name another with --socket",
				   server->socket_path);
		unlink(server->socket_path);
	}
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return say(sentence, -errno, "no socket: %s", strerror(errno));
	mode_t before = umask(server->user ? 0177 : 0111);
	int error = bind(fd, (const struct sockaddr *)&address, sizeof address) ? -errno : 0;
	umask(before);
	if (!error && listen(fd, 4096))
		error = -errno;
	if (error) {
		close(fd);
		return say(sentence, error, "cannot listen on %s: %s", server->socket_path, strerror(-error));
	}
	return fd;
}
