/* cores.c - see cores.h. No locks. */
#include "cores.h"

#include "store/breakdown/names.h"

#include <stdbool.h>
#include <string.h>

int64_t cores_major(sqlite3 *db, int64_t device)
{
	sqlite3_stmt *row = NULL;
	int64_t major = 0;
	if (sqlite3_prepare_v2(db, "SELECT capability_major FROM devices WHERE id = ?1", -1, &row, NULL) == SQLITE_OK) {
		sqlite3_bind_int64(row, 1, device);
		if (sqlite3_step(row) == SQLITE_ROW)
			major = sqlite3_column_int64(row, 0);
	}
	sqlite3_finalize(row);
	return major;
}

double cores_win(int64_t major)
{
	/* The peak of half precision is so many times that of FP32: V100 8 times, A100 16, H100 15, B200 30. */
	double times = major <= 7 ? 8 : major <= 9 ? 16 : 32;
	return 1 - 1 / times;
}

static bool is_convolution(const char *kernel)
{
	return strstr(kernel, "cudnn") || strstr(kernel, "fprop") || strstr(kernel, "dgrad") || strstr(kernel, "wgrad");
}

const char *cores_advice(int64_t major, const char *kernel)
{
	if (names_half_precision(kernel))
		return "It is half precision already: tensor cores take sizes that are multiples of 8 (pad what is not).";
	if (major <= 7)
		return "Use torch.autocast with float16: tensor cores of this generation compute only in half precision. Sizes should be "
		       "multiples of 8.";
	if (is_convolution(kernel))
		return "Allow TF32 for convolutions (torch.backends.cudnn.allow_tf32 = True) or use torch.autocast; channels that are "
		       "multiples of 8.";
	return "Allow TF32 (torch.set_float32_matmul_precision(\"high\")) or use torch.autocast; sizes that are multiples of 8.";
}
