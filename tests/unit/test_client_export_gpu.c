/* test_client_export_gpu.c - what the export computes of devices: occupancy beside that of Kineto's own traces, tracks of
 * events that are sorted in memory and by SQLite, projections of ranges that cross, recordings of events. */
#include "client/export/chrome/devices.h"
#include "client/export/chrome/nesting.h"
#include "client/reader/occupancy.h"
#include "client/export/chrome/projections.h"
#include "client/reader/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>

#include "export_capture.h"

static const struct occupancy_device gp100 = {6, 0, 56, 32, 2048, 32, 65536, 65536, 49152};
static const struct occupancy_device v100 = {7, 0, 80, 32, 2048, 32, 65536, 98304, 49152};
static const struct occupancy_device a100 = {8, 0, 108, 32, 2048, 32, 65536, 167936, 49152};
static const struct occupancy_device h100 = {9, 0, 132, 32, 2048, 32, 65536, 233472, 49152};

/* "est. achieved occupancy %" as torch.profiler wrote it, in traces published with HolisticTraceAnalysis and TraceLens
 * (both MIT): device, blocks, threads, registers, shared memory. */
static void test_occupancy(void **state)
{
	(void)state;
	static const struct {
		const struct occupancy_device *device;
		struct occupancy_kernel kernel;
		int percent;
	} known[] = {
		{&gp100, {1, 128, 8, 0}, 0},	      {&v100, {424, 128, 30, 0}, 33},
		{&v100, {448, 256, 77, 6400}, 38},    {&v100, {512, 256, 120, 10496}, 25},
		{&v100, {1008, 256, 128, 32768}, 25}, {&v100, {1024, 64, 126, 8704}, 25},
		{&v100, {1024, 512, 40, 26768}, 75},  {&v100, {1568, 128, 128, 16384}, 25},
		{&v100, {3136, 128, 160, 16384}, 19}, {&v100, {14400, 64, 89, 3328}, 31},
		{&a100, {17, 384, 70, 31744}, 3},     {&a100, {24, 512, 96, 42024}, 6},
		{&a100, {32, 1024, 18, 0}, 15},	      {&a100, {64, 1024, 32, 16384}, 30},
		{&a100, {303, 512, 46, 0}, 50},	      {&a100, {976, 1024, 46, 0}, 50},
		{&a100, {1024, 128, 32, 16}, 59},     {&a100, {8192, 128, 39, 0}, 75},
		{&a100, {62464, 512, 38, 0}, 75},     {&h100, {11, 128, 17, 0}, 1},
		{&h100, {12, 128, 54, 5120}, 1},      {&h100, {24, 512, 32, 0}, 5},
		{&h100, {162, 128, 90, 33792}, 8},    {&h100, {192, 128, 158, 528}, 9},
		{&h100, {324, 512, 32, 16}, 61},      {&h100, {648, 128, 59, 2560}, 31},
		{&h100, {1056, 128, 32, 0}, 50},      {&h100, {5185, 128, 34, 24}, 75},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		double achieved = occupancy_achieved(known[i].device, &known[i].kernel);
		assert_int_equal((int)(achieved * 100 + 0.5), known[i].percent);
	}
	/* Kineto takes more shared memory than a block has by default for none at all, and says 0: such kernels ask for
	 * more, and run. A convolution of an A100, 96 KiB: one block of 256 threads at a time. */
	const struct occupancy_kernel large = {432, 256, 128, 98304};
	assert_int_equal(occupancy_blocks(&a100, &large), 1);
	assert_true(occupancy_achieved(&a100, &large) == 0.125);
	assert_int_equal(occupancy_shared_most(&gp100), 49152);
	assert_int_equal(occupancy_shared_most(&v100), 98304);
	assert_int_equal(occupancy_shared_most(&a100), 166912);
	assert_int_equal(occupancy_shared_most(&h100), 232448);
}

static void test_occupancy_of_what_is_not_known(void **state)
{
	(void)state;
	const struct occupancy_kernel kernel = {108, 256, 32, 0}, none = {0},
				      broken[] = {
					      {108, 0, 32, 0},	  {108, -1, 32, 0},   {108, 4096, 32, 0},
					      {108, 256, 300, 0}, {108, 256, 32, -1}, {108, 256, 32, INT64_MAX / 2},
				      };
	const struct occupancy_device nothing = {0};
	assert_true(occupancy_achieved(&nothing, &kernel) < 0);
	assert_true(occupancy_achieved(&a100, &none) < 0);
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
		assert_true(occupancy_achieved(&a100, &broken[i]) < 0);
	struct occupancy_device partly = a100;
	partly.registers = 0;
	assert_true(occupancy_achieved(&partly, &kernel) < 0);
	/* No registers told: not limited by them. */
	const struct occupancy_kernel bare = {108, 256, 0, 0};
	assert_int_equal(occupancy_blocks(&a100, &bare), 8);
}

static void open_capture(struct reader *r)
{
	char why[256];
	assert_int_equal(reader_open(r, open(database, O_RDONLY | O_CLOEXEC), why, sizeof why), 0);
}

/* Everything on a few tracks, at random: many cross. */
static void fill(sqlite3 *db)
{
	static const char *const host[] = {"ranges", "operators", "api_calls"};
	static const char *const device[] = {"kernel_records", "copy_records", "set_records", "graph_records"};
	unsigned seed = 1;
	for (int i = 0; i < 3000; i++) {
		seed = seed * 1103515245 + 12345;
		unsigned start = seed >> 8 & 0xffff, length = seed >> 20 & 0xff, track = seed >> 5 & 3;
		run_format(db, "INSERT INTO %s (flags, start, duration, thread%s) VALUES (0, %u, %u, %u%s)",
			   host[i % 3], i % 3 ? "" : ", source, id", start, length, 100 + track, i % 3 ? "" : ", 1, 1");
		run_format(db, "INSERT INTO %s (flags, start, duration, device, stream) VALUES (0, %u, %u, %u, %u)",
			   device[i % 4], start, length * 4, track & 1, track);
		if (i % 10 == 0)
			run_format(db,
				   "INSERT INTO syncs (flags, start, duration, context, stream) VALUES (0, %u, %u, %u, "
				   "4294967295)",
				   start, length, track);
		if (i % 20 == 0)
			run_format(db, "INSERT INTO overheads (flags, start, duration) VALUES (0, %d, %u)",
				   (int)start - 5000, length);
		if (i % 50 == 0)
			run_format(db, "INSERT INTO kernel_records (flags, device, stream) VALUES (8, 0, 0)");
	}
	run(db, "INSERT INTO context_records (flags, id, device) VALUES (0, 1, 1), (0, 2, 0)");
	run(db, "INSERT INTO steps (flags, start, duration, number, thread) VALUES (0, 0, 30000, 1, 100), (0, 30000, "
		"30000, 2, 100)");
}

static void test_tracks_in_memory_and_sorted(void **state)
{
	(void)state;
	sqlite3 *db = begin_capture();
	fill(db);
	end_capture(db);
	struct reader r;
	open_capture(&r);
	struct devices devices;
	assert_int_equal(devices_load(&devices, &r, CAPTURE_SCHEMA_VERSION), 0);
	assert_int_equal(devices_register(&devices, &r), 0);
	const struct nesting_slice slices[] = {
		{nesting_device_track(0, 0), 0, 70000},
		{nesting_device_track(0, 0), 100, 60000},
		{nesting_device_track(1, 9), 50, 60},
		{nesting_device_track(0, 0), 200, 65000},
	};
	/* One that crosses steps and ranges, and two that lie in it, both with the same times. */
	const struct nesting_slice functions[] = {{100, 25000, 40000}, {100, 31000, 32000}, {100, 31000, 32000}};
	struct nesting found[2];
	for (size_t i = 0; i < 2; i++) {
		const struct nesting_options options = {
			.schema = CAPTURE_SCHEMA_VERSION,
			.functions = {functions, 3},
			.projections = {slices, 4},
			.rows_in_memory = i,
		};
		assert_int_equal(nesting_find(&found[i], &r, 1, &options), 0);
	}
	assert_true(found[0].move_count[NESTING_FUNCTIONS] > 0);
	/* Four threads, streams 0 and 2 of device 0, 1, 3 and 9 of device 1, waits of both, overheads. */
	assert_int_equal(found[0].track_count, 4 + 5 + 2 + 1);
	assert_int_equal(found[1].track_count, found[0].track_count);
	assert_true(found[0].earliest < 0 && found[0].earliest == found[1].earliest);
	for (size_t i = 0; i < found[0].track_count; i++) {
		assert_true(found[0].tracks[i].track == found[1].tracks[i].track);
		assert_int_equal(found[0].tracks[i].lanes, found[1].tracks[i].lanes);
	}
	for (int table = 0; table < NESTING_TABLES; table++) {
		assert_int_equal(found[0].move_count[table], found[1].move_count[table]);
		for (size_t i = 0; i < found[0].move_count[table]; i++) {
			assert_true(found[0].moves[table][i].row == found[1].moves[table][i].row);
			assert_int_equal(found[0].moves[table][i].lane, found[1].moves[table][i].lane);
		}
	}
	assert_true(found[0].move_count[NESTING_KERNELS] > 0 && found[0].move_count[NESTING_SYNCS] > 0);
	for (size_t i = 0; i < 2; i++)
		nesting_deinit(&found[i]);
	devices_deinit(&devices);
	reader_close(&r);
}

/* Ranges that end in another order than they began: a launch is in those that are open when it begins. */
static void test_projections(void **state)
{
	(void)state;
	sqlite3 *db = begin_capture();
	run(db, "INSERT INTO ranges (flags, start, duration, id, name, thread, source, parent) VALUES "
		"(0, 0, 100, 1, 8, 100, 1, NULL), (0, 50, 100, 2, 9, 100, 1, 1), (0, 0, 1000, 3, 10, 101, 1, NULL), "
		"(0, 0, 1000, 4, 11, 100, 2, NULL), (0, 40, 5, 5, 12, 100, 1, 1), (0, 500, 100, 6, 13, 100, 1, NULL)");
	run(db, "INSERT INTO range_devices SELECT id, 0, 0, 1, 0, 0 FROM ranges WHERE id <> 6");
	run(db, "INSERT INTO launches (correlation, api, thread, start, duration, device_time, operations) VALUES "
		"(1, 1, 100, 20, 1, 0, 1), (2, 2, 100, 60, 1, 0, 1), (3, 3, 100, 120, 1, 0, 1), (4, 4, 100, 100, 1, 0, "
		"1), (5, 5, 101, 20, 1, 0, 1), (6, 6, 100, 42, 1, 0, 1)");
	run(db, "INSERT INTO kernel_records (flags, start, duration, correlation, device, stream) VALUES "
		"(0, 1000, 10, 1, 0, 7), (0, 2000, 10, 2, 0, 7), (0, 3000, 10, 3, 0, 7), (0, 4000, 10, 4, 0, 7), "
		"(0, 5000, 10, 5, 1, 7), (0, 900, 10, 6, 0, 9), (8, NULL, 0, 5, 0, 7), (0, 6000, 10, 99, 0, 7)");
	run(db, "INSERT INTO steps (step, flags, start, duration, number, thread) VALUES (1, 0, 0, 10, 41, 100)");
	run(db, "INSERT INTO step_devices (step, device, stream, busy, kernel_busy, gap, first, last, kernels, copies, "
		"sets, graphs) VALUES (1, 0, -1, 0, 0, 0, 100, 200, 0, 0, 0, 0), (1, 0, 7, 0, 0, 0, 110, 200, 0, 0, 0, "
		"0)");
	end_capture(db);
	struct reader r;
	struct projections p;
	open_capture(&r);
	assert_int_equal(projections_find(&p, &r, CAPTURE_SCHEMA_VERSION, true), 0);
	static const struct {
		int64_t id, start, end;
		uint32_t device, stream;
	} wanted[] = {
		{0, 110, 200, 0, 7},   {1, 1000, 2010, 0, 7}, {1, 900, 910, 0, 9},
		{2, 2000, 4010, 0, 7}, {3, 5000, 5010, 1, 7}, {5, 900, 910, 0, 9},
	};
	assert_int_equal(p.count, sizeof wanted / sizeof *wanted);
	for (size_t i = 0; i < p.count; i++) {
		size_t at = 0;
		while (at < p.count && (p.all[at].id != wanted[i].id ||
					p.slices[at].track != nesting_device_track(wanted[i].device, wanted[i].stream)))
			at++;
		assert_true(at < p.count);
		assert_true(p.slices[at].start == wanted[i].start && p.slices[at].end == wanted[i].end);
	}
	assert_true(projections_range(&p, 2)->parent == 1 && !projections_range(&p, 4) && !projections_range(&p, 6));
	projections_deinit(&p);
	reader_close(&r);
}

static void test_events(void **state)
{
	(void)state;
	sqlite3 *db = begin_capture();
	run(db, "INSERT INTO cuda_events (flags, context, event, correlation, stream) VALUES (0, 1, 5, 100, 7), (0, 1, "
		"5, 50, 8), (0, 1, 6, 60, 9), (0, 2, 5, 70, 10)");
	run(db, "INSERT INTO context_records (flags, id, device) VALUES (0, 1, 3), (0, 2, 0), (0, 1, 4)");
	end_capture(db);
	struct reader r;
	struct devices d;
	open_capture(&r);
	assert_int_equal(devices_load(&d, &r, CAPTURE_SCHEMA_VERSION), 0);
	assert_null(devices_event(&d, 1, 5, 49));
	assert_int_equal(devices_event(&d, 1, 5, 99)->stream, 8);
	assert_int_equal(devices_event(&d, 1, 5, 101)->stream, 7);
	assert_int_equal(devices_event(&d, 2, 5, 1000)->stream, 10);
	assert_null(devices_event(&d, 1, 4, 1000));
	assert_null(devices_event(&d, 3, 5, 1000));
	assert_int_equal(devices_of_context(&d, 1), 4);
	assert_int_equal(devices_of_context(&d, 9), 0);
	devices_deinit(&d);
	reader_close(&r);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(database, sizeof database, "%s/c.db", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(database);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_occupancy),
		cmocka_unit_test(test_occupancy_of_what_is_not_known),
		cmocka_unit_test(test_tracks_in_memory_and_sorted),
		cmocka_unit_test(test_projections),
		cmocka_unit_test(test_events),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
