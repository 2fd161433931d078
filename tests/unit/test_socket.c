/* test_socket.c - where a daemon is looked for, which one is obeyed, and packets with descriptors. */
#include "proto/limits.h"
#include "proto/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char path[SOCKET_PATH_BYTES];

static int listen_at(const char *where, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", where);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static int setup(void **state)
{
	(void)state;
	unsetenv("PROFD_SOCKET");
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(folder, sizeof folder, "/var/tmp/profd-test-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/%s", folder, SOCKET_NAME);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unsetenv("PROFD_SOCKET");
	chmod(folder, 0700);
	unlink(path);
	rmdir(folder);
	return 0;
}

static void candidates(void **state)
{
	(void)state;
	char expected[SOCKET_PATH_BYTES], found[SOCKET_PATH_BYTES];
	assert_int_equal(socket_candidate(0, found), 0);
	assert_string_equal(found, "/run/profd/profd.sock");
	assert_int_equal(socket_candidate(1, found), 0);
	snprintf(expected, sizeof expected, "/run/user/%u/profd/profd.sock", geteuid());
	assert_string_equal(found, expected);
	assert_int_equal(socket_candidate(2, found), 0);
	snprintf(expected, sizeof expected, "/tmp/profd-%u/profd.sock", geteuid());
	assert_string_equal(found, expected);
	assert_int_equal(socket_candidate(3, found), -ENOENT);
	assert_int_equal(socket_candidate(100, found), -ENOENT);

	setenv("XDG_RUNTIME_DIR", "/somewhere", 1);
	assert_int_equal(socket_candidate(1, found), 0);
	assert_string_equal(found, "/somewhere/profd/profd.sock");
	assert_int_equal(socket_candidate(3, found), 0);
	assert_string_equal(found, expected);
	assert_int_equal(socket_candidate(4, found), -ENOENT);
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	assert_int_equal(socket_candidate(3, found), -ENOENT);
	char longer[300];
	memset(longer, 'x', sizeof longer);
	longer[0] = '/';
	longer[299] = 0;
	setenv("XDG_RUNTIME_DIR", longer, 1);
	assert_int_equal(socket_candidate(1, found), -ENAMETOOLONG);
	assert_string_equal(found, "");
	assert_int_equal(socket_candidate(3, found), 0);
	/* The longest that fits, and one more. */
	longer[SOCKET_PATH_BYTES - 1 - strlen("/profd/profd.sock")] = 0;
	setenv("XDG_RUNTIME_DIR", longer, 1);
	assert_int_equal(socket_candidate(1, found), 0);
	assert_int_equal(strlen(found), SOCKET_PATH_BYTES - 1);
	longer[strlen(longer)] = 'x';
	setenv("XDG_RUNTIME_DIR", longer, 1);
	assert_int_equal(socket_candidate(1, found), -ENAMETOOLONG);

	setenv("PROFD_SOCKET", "/elsewhere/s", 1);
	assert_int_equal(socket_candidate(0, found), 0);
	assert_string_equal(found, "/elsewhere/s");
	assert_int_equal(socket_candidate(1, found), -ENOENT);
	setenv("PROFD_SOCKET", "", 1);
	assert_int_equal(socket_candidate(0, found), 0);
	assert_string_equal(found, SOCKET_SYSTEM);
}

static void trust(void **state)
{
	(void)state;
	assert_int_equal(socket_trusted(path), -ENOENT);
	assert_int_equal(socket_trusted("/nowhere/at/all"), -ENOENT);
	assert_int_equal(socket_trusted(""), -ENOENT);
	int fd = listen_at(path, 1);
	assert_int_equal(socket_trusted(path), 0);
	static const mode_t open_to_others[] = {0777, 0770, 0707, 0722, 01777};
	for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0]; i++) {
		assert_int_equal(chmod(folder, open_to_others[i]), 0);
		assert_int_equal(socket_trusted(path), -EPERM);
	}
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(socket_trusted(path), 0);
	/* Others may talk to it: the folder is what counts. */
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(socket_trusted(path), 0);
	close(fd);
	unlink(path);

	int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(socket_trusted(path), -EPERM);
	close(file);
	unlink(path);
	assert_int_equal(symlink("/run", path), 0);
	assert_int_equal(socket_trusted(path), -EPERM);
}

/* Owners: only root can make the files. */
static void trust_of_owners(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can give files away\n");
		skip();
	}
	int fd = listen_at(path, 1);
	static const struct {
		uid_t folder, socket;
		int answer, answer_chosen;
	} cases[] = {
		{0, 0, 0, 0},
		{0, 4242, -EPERM, 0},	      /* a stranger's, unless the user has named it */
		{4242, 4242, -EPERM, 0},      /* likewise */
		{4242, 0, -EPERM, -EPERM},    /* the folder's owner could have moved it there */
		{4243, 4242, -EPERM, -EPERM}, /* two owners */
		{65534, 65534, -EPERM, 0},    /* nobody is somebody where all users are mapped */
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(chown(folder, cases[i].folder, 0), 0);
		assert_int_equal(chown(path, cases[i].socket, 0), 0);
		unsetenv("PROFD_SOCKET");
		assert_int_equal(socket_trusted(path), cases[i].answer);
		setenv("PROFD_SOCKET", path, 1);
		assert_int_equal(socket_trusted(path), cases[i].answer_chosen);
		setenv("PROFD_SOCKET", "/another", 1);
		assert_int_equal(socket_trusted(path), cases[i].answer);
	}
	assert_int_equal(chown(folder, 0, 0), 0);
	close(fd);
}

/* In a user namespace without a map all owners look like nobody, and so does one's own uid. */
static void trust_of_nobody(void **state)
{
	(void)state;
	char shared[] = "/tmp/profd-test-XXXXXX", elsewhere[SOCKET_PATH_BYTES];
	assert_non_null(mkdtemp(shared));
	snprintf(elsewhere, sizeof elsewhere, "%s/%s", shared, SOCKET_NAME);
	int one = listen_at(path, 1), other = listen_at(elsewhere, 1);
	pid_t child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWUSER) || geteuid() != 65534)
			_exit(77);
		/* Only where strangers can make folders is a folder of nobody's a stranger's. */
		_exit(socket_trusted(path) == 0 && socket_trusted(elsewhere) == -EPERM ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	close(one);
	close(other);
	unlink(elsewhere);
	rmdir(shared);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("skipped: no user namespace can be made here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void packets(void **state)
{
	(void)state;
	assert_int_equal(socket_connect(path), -ENOENT);
	assert_int_equal(socket_connect(""), -ENOENT);
	int listening = listen_at(path, 1);
	int client = socket_connect(path);
	assert_true(client >= 0);
	assert_int_equal(fcntl(client, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(fcntl(client, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	/* A full backlog answers at once. */
	int others[8], connected = 0, answer = 0;
	while (connected < 8 && (answer = socket_connect(path)) >= 0)
		others[connected++] = answer;
	assert_int_equal(answer, -EAGAIN);
	while (connected > 0)
		close(others[--connected]);
	int server = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(server >= 0);

	char packet[64];
	assert_int_equal(socket_receive(server, packet, sizeof packet, NULL, NULL, MSG_DONTWAIT), -EAGAIN);
	int pipes[2], fds[LIMIT_PACKET_FDS + 1];
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	int sent[LIMIT_PACKET_FDS] = {pipes[1], pipes[1], pipes[1], pipes[1]};
	assert_int_equal(socket_send(client, "hello", 5, sent, LIMIT_PACKET_FDS), 0);
	assert_int_equal(socket_send(client, "again", 5, sent, LIMIT_PACKET_FDS), 0);
	assert_int_equal(socket_send(client, "third", 5, sent, 2), 0);
	assert_int_equal(socket_send(client, "much too long for them", 22, sent, 1), 0);
	assert_int_equal(socket_send(client, "last", 4, NULL, 0), 0);
	close(pipes[1]);

	unsigned n = LIMIT_PACKET_FDS;
	assert_int_equal(socket_receive(server, packet, sizeof packet, fds, &n, 0), 5);
	assert_memory_equal(packet, "hello", 5);
	assert_int_equal(n, LIMIT_PACKET_FDS);
	assert_int_equal(write(fds[0], "x", 1), 1);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		close(fds[i]);
	}
	/* More than the caller has room for, or wants at all: closed. */
	n = 1;
	assert_int_equal(socket_receive(server, packet, sizeof packet, fds, &n, 0), 5);
	assert_int_equal(n, 1);
	close(fds[0]);
	assert_int_equal(socket_receive(server, packet, sizeof packet, NULL, NULL, 0), 5);
	n = LIMIT_PACKET_FDS;
	assert_int_equal(socket_receive(server, packet, 8, fds, &n, 0), -EMSGSIZE);
	/* What came with a packet that is lost is the caller's all the same. */
	assert_int_equal(n, 1);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	n = LIMIT_PACKET_FDS;
	assert_int_equal(socket_receive(server, packet, sizeof packet, fds, &n, 0), 4);
	assert_int_equal(n, 0);
	/* No copy of the pipe's end is left anywhere: its reader sees the end. */
	assert_int_equal(read(pipes[0], packet, sizeof packet), 1);
	assert_int_equal(read(pipes[0], packet, sizeof packet), 0);
	close(pipes[0]);

	assert_int_equal(socket_send(client, "x", LIMIT_PACKET_BYTES + 1, NULL, 0), -EMSGSIZE);
	assert_int_equal(socket_send(client, "x", 0, NULL, 0), -EINVAL);
	assert_int_equal(socket_send(client, "x", 1, sent, LIMIT_PACKET_FDS + 1), -EINVAL);
	/* The largest fits into an empty queue, and a peer that does not read is told of, not waited for. */
	static char largest[LIMIT_PACKET_BYTES];
	assert_int_equal(socket_send(client, largest, sizeof largest, NULL, 0), 0);
	int full;
	while ((full = socket_send(client, largest, sizeof largest, NULL, 0)) == 0)
		;
	assert_int_equal(full, -EAGAIN);
	assert_int_equal(socket_receive(server, largest, sizeof largest, NULL, NULL, 0), sizeof largest);
	close(server);
	/* The first error tells that it closed with packets unread. */
	assert_int_equal(socket_send(client, "x", 1, NULL, 0), -ECONNRESET);
	assert_int_equal(socket_send(client, "x", 1, NULL, 0), -EPIPE);
	assert_true(socket_receive(client, packet, sizeof packet, NULL, NULL, 0) <= 0);
	close(client);
	close(listening);
	assert_int_equal(socket_connect(path), -ECONNREFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(candidates, setup, teardown),
		cmocka_unit_test_setup_teardown(trust, setup, teardown),
		cmocka_unit_test_setup_teardown(trust_of_owners, setup, teardown),
		cmocka_unit_test_setup_teardown(trust_of_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(packets, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
