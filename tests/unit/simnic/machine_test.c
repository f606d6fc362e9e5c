/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A real device beside the software ones. The machine's /sys and /dev are made up, with /dev/zero for the
 * device's node; a program on a host of the fabric must come to them, as libibverbs does and by hand, and
 * what it does with the node must reach the kernel.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/machine.h"
#include "tests/lib/fork.h"

#define REAL_NODE  "/dev/infiniband/uverbs8" /* behind all that software NICs may have */
#define REAL_CLASS "/sys/class/infiniband_verbs/uverbs8"
#define GUID	   0x0200c0fffe123456ull

static struct sn_fabric *fabric;
static char root[64], fabric_name[32], self[PATH_MAX];

/* ---- the made-up machine -------------------------------------------------------------------- */

static void below_root(char path[PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, "%s/%s", root, name);
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
}

static void put(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	below_root(path, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "%s\n", text);
	fclose(file);
}

static void put_link(const char *name, const char *target)
{
	char path[PATH_MAX];

	below_root(path, name);
	assert_int_equal(symlink(target, path), 0);
}

/* As the kernel has a soft-RoCE device, which has no bus: its folders, the links to them, the node. */
static void put_device(const char *name, unsigned int minor)
{
	char path[128], text[128];

#define AT(...) (snprintf(path, sizeof(path), __VA_ARGS__), path)
	put(AT("sys/devices/virtual/infiniband/%s/node_type", name), "1: CA");
	put(AT("sys/devices/virtual/infiniband/%s/node_guid", name), "0200:c0ff:fe12:3456");
	put(AT("sys/devices/virtual/infiniband_verbs/uverbs%u/ibdev", minor), name);
	put(AT("sys/devices/virtual/infiniband_verbs/uverbs%u/dev", minor), "1:5");
	put(AT("sys/devices/virtual/infiniband_verbs/uverbs%u/abi_version", minor), "2");
	snprintf(text, sizeof(text), "../../devices/virtual/infiniband/%s", name);
	put_link(AT("sys/class/infiniband/%s", name), text);
	snprintf(text, sizeof(text), "../../devices/virtual/infiniband_verbs/uverbs%u", minor);
	put_link(AT("sys/class/infiniband_verbs/uverbs%u", minor), text);
	put_link(AT("dev/infiniband/uverbs%u", minor), "/dev/zero");
#undef AT
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static int start(void **state)
{
	struct sn_fabric_config config = {
		.n_hosts = 2, .n_nics = 2, .link_layer = SN_LINK_ETH, .seed = 1
	};

	snprintf(root, sizeof(root), "/tmp/simnic-machine-XXXXXX");
	snprintf(fabric_name, sizeof(fabric_name), "unit-machine-%d", getpid());
	setenv("SIMNIC_FABRIC", fabric_name, 1);
	if (!mkdtemp(root) || sn_fabric_create(fabric_name, &config))
		return -1;
	put_device("rxe0", 0);
	put_device("mlx5_1", 1);
	put("sys/devices/virtual/infiniband/mute/node_type", "1: CA");
	put_link("sys/class/infiniband/mute", "../../devices/virtual/infiniband/mute");
	return sn_fabric_attach(fabric_name, &fabric);
}

static int stop(void **state)
{
	sn_fabric_detach(fabric);
	sn_fabric_destroy(fabric_name);
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- what a program on the host finds ------------------------------------------------------- */

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void read_line(int dir, const char *name, char text[64])
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	must(fd >= 0);
	n = read(fd, text, 63);
	must(n > 0);
	text[n] = '\0';
	close(fd);
}

static void see_files(const char *machine)
{
	char text[64], path[PATH_MAX], want[PATH_MAX];
	DIR *dir = opendir("/sys/class/infiniband_verbs");
	FILE *file;

	must(dir);
	read_line(dirfd(dir), "uverbs8/ibdev", text);
	must(!strcmp(text, "rxe0\n"));
	read_line(dirfd(dir), "uverbs0/ibdev", text);
	must(!strcmp(text, "mlx5_0\n"));
	closedir(dir);
	file = fopen("/sys/class/infiniband/rxe0/node_type", "re");
	must(file && fgets(text, sizeof(text), file) && !strcmp(text, "1: CA\n"));
	fclose(file);
	/* The name leads out of the host's tree, and not into it again. */
	snprintf(want, sizeof(want), "%s/sys/devices/virtual/infiniband_verbs/uverbs0", machine);
	must(realpath(REAL_CLASS, path) && !strcmp(path, want));
}

/* By what only the kernel does: simnic's own descriptors know RDMA's ioctl, and its mappings. */
static void use_node(void)
{
	int fd = open(REAL_NODE, O_RDWR | O_CLOEXEC);
	uint8_t byte = 1, *mem;
	struct stat st;

	must(fd >= 0);
	must(!stat(REAL_NODE, &st) && st.st_rdev == makedev(1, 5));
	must(!fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 5));
	must(read(fd, &byte, 1) == 1 && !byte);
	must(write(fd, &byte, 1) == 1);
	must(!ioctl(fd, FIOCLEX));
	mem = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	must(mem != MAP_FAILED && !mem[65535]);
	munmap(mem, 65536);
	must(!close(fd));
	must(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
	fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
	must(fd >= 0 && !fstat(fd, &st) && st.st_rdev == makedev(231, 192));
	must(ioctl(fd, FIOCLEX) == -1 && errno == ENOTTY);
	close(fd);
}

/* Software NICs come first; each opens as before. */
static void see_devices(bool with_real)
{
	static const char *const names[] = { "mlx5_0", "mlx5_1", "rxe0" };
	struct ibv_context *ctx;
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	must(list && n == 2 + with_real);
	for (int i = 0; i < n; i++)
		must(!strcmp(ibv_get_device_name(list[i]), names[i]));
	if (with_real)
		must(be64toh(ibv_get_device_guid(list[2])) == GUID);
	ctx = ibv_open_device(list[1]);
	must(ctx);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
}

static int program(const char *machine)
{
	bool with_real = *machine;

	if (with_real) {
		see_files(machine);
		use_node();
	} else {
		must(access(REAL_NODE, F_OK) && access(REAL_CLASS, F_OK));
	}
	see_devices(with_real);
	return 0;
}

static int run_program(const char *host, const char *machine)
{
	pid_t child = test_fork();
	int status;

	if (!child) {
		execl(SIMNICCTL, SIMNICCTL, "run", "--host", host, "--", self, machine, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void one_host_has_it(void **state)
{
	assert_int_equal(sn_machine_add(fabric, 0, root, "rxe0"), 0);
	assert_int_equal(run_program("h0", root), 0);
	assert_int_equal(run_program("h1", ""), 0);
}

static void it_may_be_added_again(void **state)
{
	assert_int_equal(sn_machine_add(fabric, 0, root, "rxe0"), 0);
	assert_int_equal(run_program("h0", root), 0);
}

/* A NIC that is taken away and comes back is linked anew, and listed where it was. */
static void software_nics_come_and_go(void **state)
{
	assert_int_equal(system(SIMNICCTL " fault nic-disassociate h0/mlx5_0"), 0);
	assert_int_equal(sn_machine_add(fabric, 0, root, "rxe0"), 0);
	assert_int_equal(system(SIMNICCTL " reprobe h0/mlx5_0"), 0);
	assert_int_equal(run_program("h0", root), 0);
}

static void what_cannot_be_added(void **state)
{
	assert_int_equal(sn_machine_add(fabric, 1, root, "rxe7"), -ENODEV);
	assert_int_equal(sn_machine_add(fabric, 1, root, ""), -ENODEV);
	assert_int_equal(sn_machine_add(fabric, 1, root, "../infiniband/rxe0"), -ENODEV);
	assert_int_equal(sn_machine_add(fabric, 1, root, "mute"), -ENOENT);
	assert_int_equal(sn_machine_add(fabric, 1, root, "mlx5_1"), -EEXIST);
	assert_int_equal(run_program("h1", ""), 0);
}

static void the_command_says_why_not(void **state)
{
	char line[256] = "";
	FILE *said = popen(SIMNICCTL " real rxe-not-here 2>&1", "re");

	assert_non_null(said);
	assert_non_null(fgets(line, sizeof(line), said));
	assert_non_null(strstr(line, "no RDMA device 'rxe-not-here'"));
	assert_int_equal(WEXITSTATUS(pclose(said)), 1);
	assert_int_equal(WEXITSTATUS(system(SIMNICCTL " real 2>/dev/null")), 2);
	assert_int_equal(WEXITSTATUS(system(SIMNICCTL " real rxe0 --host h9 2>/dev/null")), 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_host_has_it),
		cmocka_unit_test(it_may_be_added_again),
		cmocka_unit_test(software_nics_come_and_go),
		cmocka_unit_test(what_cannot_be_added),
		cmocka_unit_test(the_command_says_why_not),
	};

	if (argc == 2)
		return program(argv[1]);
	if (!realpath("/proc/self/exe", self))
		return 1;
	return cmocka_run_group_tests(tests, start, stop);
}
