/* empty_capture.c - `empty_capture FILE` makes a capture file with all tables and no rows, for make_capture.py and
 * fake_daemon.py. */
#include "tests/empty_capture.h"

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: empty_capture FILE\n");
		return 2;
	}
	return empty_capture(argv[1]);
}
