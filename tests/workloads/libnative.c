/* libnative.c - native functions for Python programs, which wait or run: what `profd stack --native` is to find. */
#include <poll.h>
#include <sys/syscall.h>

#define SHOWN __attribute__((visibility("default"), noinline))

SHOWN long native_wait(int fd);
SHOWN long native_deep(int fd, long depth);
SHOWN long native_call(long (*back)(long), long argument);
SHOWN long native_needs_registers(int fd);
SHOWN long native_spin(volatile int *until);

/* Waits until there is something to read. */
long native_wait(int fd)
{
	struct pollfd readable = {fd, POLLIN, 0};

	return poll(&readable, 1, -1);
}

/* The same, so deep in calls. */
long native_deep(int fd, long depth)
{
	long result = depth ? native_deep(fd, depth - 1) : native_wait(fd);

	__asm__ volatile("" : "+r"(result)); /* no loop in its place */
	return result;
}

/* Calls back, into Python. */
long native_call(long (*back)(long), long argument)
{
	return back(argument) + 1;
}

/* Its place on the stack is known by a register alone (rbp), which nothing that it calls saves. */
long native_needs_registers(int fd)
{
	struct pollfd readable = {fd, POLLIN, 0};
	_Alignas(256) volatile char room[256] = {1}; /* more than a stack is aligned to */
	long result;

#if defined(__x86_64__)
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_poll), "D"(&readable), "S"(1), "d"(-1)
			 : "rcx", "r11", "memory");
#else
	result = poll(&readable, 1, -1);
#endif
	return result + room[0];
}

long native_spin(volatile int *until)
{
	long n = 0;

	while (!*until)
		n++;
	return n;
}
