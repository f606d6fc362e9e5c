/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory that other processes may have, too: by lines of /proc/PID/maps, and by mappings of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/base/maps.h"

enum { PAGE = 1 << 16, LENGTH = 8 * PAGE }; /* pages of every machine */

static void lines(void **state)
{
	static const struct {
		const char *line;
		bool shared;
	} cases[] = {
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:01 1027   /dev/shm/heap\n", true },
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:01 15     /dev/zero (deleted)\n",
		  true },
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:01 32768  /SYSV00000000 (deleted)\n",
		  true },
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:0f 15     /dev/hugepages/x y\n",
		  true },
		{ "7f0000000000-7f0000001000 rw-s 00000000 08:01 77     /scratch/words\n", true },
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:06 461    /dev/nvidia0\n", false },
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:06 461    /dev/infiniband/uverbs0\n",
		  false },
		{ "7f0000000000-7f0000001000 rw-p 00000000 08:01 77     /usr/lib/libc.so.6\n",
		  false },
		{ "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n", false },
		{ "7f0000000000-7f0000001000 rw-s 00000000 00:00 0 \n", true },
		{ "no line\n", false },
	};
	struct sh_map map;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (sh_maps_line(cases[i].line, &map) != cases[i].shared)
			fail_msg("%s", cases[i].line);
	assert_true(sh_maps_line(cases[0].line, &map));
	assert_int_equal(map.start, 0x7f0000000000);
	assert_int_equal(map.end, 0x7f0000001000);
}

static bool is_shared(const void *addr, size_t length)
{
	struct sh_maps maps;
	bool shared;

	assert_int_equal(sh_maps_read(&maps), 0);
	shared = sh_maps_have(&maps, (uintptr_t)addr, length);
	sh_maps_free(&maps);
	return shared;
}

static void *mapped(int flags, int fd)
{
	void *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void each_kind(void **state)
{
	int file = memfd_create("words", MFD_CLOEXEC);
	int id = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600);
	char *own = mapped(MAP_PRIVATE | MAP_ANONYMOUS, -1), *heap = malloc(LENGTH);
	char *inherited = mapped(MAP_SHARED | MAP_ANONYMOUS, -1), *sysv, *of_file, *copy;

	assert_true(file >= 0 && id >= 0 && heap);
	assert_int_equal(ftruncate(file, LENGTH), 0);
	of_file = mapped(MAP_SHARED, file);
	copy = mapped(MAP_PRIVATE, file);
	sysv = shmat(id, NULL, 0);
	assert_ptr_not_equal(sysv, (void *)-1);
	assert_int_equal(shmctl(id, IPC_RMID, NULL), 0);

	assert_false(is_shared(own, LENGTH));
	assert_false(is_shared(heap, LENGTH));
	assert_false(is_shared(copy, LENGTH));
	assert_true(is_shared(inherited, LENGTH));
	assert_true(is_shared(of_file, LENGTH));
	assert_true(is_shared(sysv, LENGTH));
	assert_true(is_shared(of_file + PAGE, 8));
	assert_true(is_shared(of_file + LENGTH - 1, 1));
	assert_true(is_shared(NULL, SIZE_MAX)); /* implicit paging on demand */

	munmap(of_file, LENGTH);
	assert_false(is_shared(of_file, LENGTH));
	munmap(own, LENGTH);
	munmap(copy, LENGTH);
	munmap(inherited, LENGTH);
	shmdt(sysv);
	free(heap);
	close(file);
}

static void ranges(void **state)
{
	struct sh_map two[] = { { 100, 200 }, { 300, 400 } };
	const struct sh_maps maps = { two, 2, 2 };

	assert_false(sh_maps_have(&maps, 0, 100));
	assert_true(sh_maps_have(&maps, 0, 101));
	assert_true(sh_maps_have(&maps, 199, 1));
	assert_false(sh_maps_have(&maps, 200, 100));
	assert_true(sh_maps_have(&maps, 250, 500));
	assert_false(sh_maps_have(&maps, 400, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),
		cmocka_unit_test(each_kind),
		cmocka_unit_test(ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
