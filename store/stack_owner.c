/* stack_owner.c - see stack_owner.h. */
#include "stack_owner.h"

#include <stdbool.h>
#include <string.h>

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static enum stack_owner without_file(const char *name)
{
	if (starts(name, "<stdin>") || starts(name, "<ipython"))
		return OWNER_USER;
	if (starts(name, "<string>"))
		return OWNER_TEXT;
	/* Graphs of torch.fx, and code from torch.package. */
	if (starts(name, "<eval_with_key>") || starts(name, "<torch_package"))
		return OWNER_TORCH;
	return OWNER_PYTHON;
}

/* "/usr/lib/python3.11/json/decoder.py" */
static bool is_standard(const char *path)
{
	const char *at = strstr(path, "/lib/python3");
	return at && strchr(at + 1, '/') && strstr(at + 5, "/");
}

/* Is the beginning of the path one of the names? Each name has a blank before and after it. */
static bool is_among(const char *path, size_t n, const char *names)
{
	for (const char *at = names + 1; n && (at = memmem(at, strlen(at), path, n)); at++)
		if (at[-1] == ' ' && at[n] == ' ')
			return true;
	return false;
}

/* torch.profiler leaves out the folders of sys.path, so that only names are left: "torch/nn/modules/linear.py",
 * "threading.py". An unknown package's name looks like a user's own. */
static enum stack_owner without_folder(const char *path)
{
	static const char standard[] =
		" abc argparse ast asyncio bdb bisect cProfile codecs codeop collections concurrent contextlib contextvars "
		"copy copyreg csv ctypes dataclasses datetime decimal dis email encodings enum fnmatch fractions functools "
		"genericpath getpass glob gzip hashlib heapq hmac html http importlib inspect io json keyword linecache locale "
		"logging lzma multiprocessing ntpath numbers opcode operator optparse os pathlib pdb pickle pkgutil platform "
		"posixpath pprint profile pstats queue random re reprlib runpy sched secrets selectors shelve shlex shutil signal "
		"site socket socketserver sre_compile sre_parse ssl stat statistics string struct subprocess sysconfig tarfile "
		"tempfile textwrap threading timeit token tokenize traceback tracemalloc types typing unittest urllib uuid warnings "
		"weakref xml xmlrpc zipfile _collections_abc _weakrefset ";
	static const char packages[] =
		" accelerate apex av bitsandbytes cv2 datasets deepspeed diffusers einops evaluate fairseq fastai filelock flash_attn fsspec "
		"h5py huggingface_hub hydra ignite joblib keras lightning lightning_fabric lightning_utilities matplotlib megatron mmcv "
		"mmengine monai networkx numba numpy omegaconf pandas peft PIL pyarrow pydantic pytorch_lightning requests safetensors scipy "
		"sentence_transformers sklearn sympy tensorboard tensorflow timm tokenizers torch_geometric torchaudio torchdata torchmetrics "
		"torchtext torchvision tqdm transformer_engine transformers triton trl typing_extensions vllm wandb webdataset xformers yaml ";
	size_t n = strcspn(path, "/");
	bool is_folder = path[n] == '/';
	if (is_folder && is_among(path, n, " torch functorch torch_xla "))
		return OWNER_TORCH;
	n = is_folder || n < 3 || strcmp(path + n - 3, ".py") != 0 ? n : n - 3;
	return is_among(path, n, packages) ? OWNER_PACKAGE : is_among(path, n, standard) ? OWNER_PYTHON : OWNER_USER;
}

/* Has torch.compile's Inductor written the file? Its usual folder has a known name, but TORCHINDUCTOR_CACHE_DIR may
 * name another one. The file's name is its key, a c and 51 digits of base 32. The name of its folder is the second
 * and third letter of the key: "ta/cta2tuj(46 more).py". */
static bool is_inductor(const char *path)
{
	enum { KEY = 52, FOLDER = 2 };
	if (strstr(path, "/torchinductor_"))
		return true;
	size_t n = strlen(path), whole = FOLDER + 1 + KEY + strlen(".py");
	if (n < whole || (n > whole && path[n - whole - 1] != '/'))
		return false;
	const char *folder = path + n - whole, *key = folder + FOLDER + 1;
	return key[-1] == '/' && key[0] == 'c' && memcmp(folder, key + 1, FOLDER) == 0 &&
	       strspn(key, "abcdefghijklmnopqrstuvwxyz234567") == KEY && strcmp(key + KEY, ".py") == 0;
}

enum stack_owner stack_owner(const char *file)
{
	const char *package = strstr(file, "/site-packages/");
	if (!*file)
		return OWNER_PYTHON;
	if (*file == '<')
		return without_file(file);
	/* CPython puts this frame around the `__init__` of a class, from 3.12 on. */
	if (strcmp(file, "__init__") == 0)
		return OWNER_PYTHON;
	package = package ? package + strlen("/site-packages/") : strstr(file, "/dist-packages/");
	if (package) {
		package += *package == '/' ? strlen("/dist-packages/") : 0;
		return starts(package, "torch/") || starts(package, "functorch/") ? OWNER_TORCH : OWNER_PACKAGE;
	}
	if (is_inductor(file))
		return OWNER_TORCH;
	if (*file != '/')
		return without_folder(file);
	return is_standard(file) ? OWNER_PYTHON : OWNER_USER;
}
