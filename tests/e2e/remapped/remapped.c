// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * remapped: a region whose address gets other memory while it is registered. The NIC that has it keeps the old memory, as
 * it is pinned; another one, which comes back and registers by address, must not get the new memory under its key.
 *
 *   remapped -p PORT [-s]
 */
#include "tests/lib/pair.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LENGTH = 64 << 10 };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };

static struct nic nic;
static struct conn conn;

static void *memory_at(void *at, int flags, int fd)
{
	void *memory = mmap(at, LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);

	must(memory != MAP_FAILED, "mmap");
	memset(memory, 0, LENGTH);
	return memory;
}

static struct ibv_mr *reg(void *memory)
{
	struct ibv_mr *mr = ibv_reg_mr(nic.pd, memory, LENGTH,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	must(mr, "ibv_reg_mr");
	return mr;
}

/*
 * Until the NIC that came back has registered all that it can: both regions, or the one that is what it was. What it had as
 * a dead one may be counted, too, of both alike.
 */
static void await_on(const char *dev, const void *kept, const void *shared, bool both)
{
	double end = now_s() + 10;

	while (reachable_by(dev, kept, LENGTH) != reachable_by(dev, shared, LENGTH) + !both) {
		must(now_s() < end, "a NIC that reaches what was registered, and nothing else");
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	int fd = memfd_create("shared", MFD_CLOEXEC);
	void *shared, *kept;
	struct ibv_mr *mrs[2];

	options_seeded(argc, argv);
	must(fd >= 0 && !ftruncate(fd, LENGTH), "memfd_create");
	line_open();
	nic_open(&nic, opt.dev);
	shared = memory_at(NULL, MAP_SHARED, fd);
	mrs[0] = reg(shared);
	conn_make(&conn, &nic);
	kept = memory_at(NULL, MAP_SHARED | MAP_ANONYMOUS, -1);
	mrs[1] = reg(kept); /* behind the other one: it is registered later, also on another NIC */
	conn_connect(&conn);
	say("CONNECTED");
	conn_talk(&conn, 100);
	await_shadow(shared, LENGTH);
	await_shadow(kept, LENGTH);
	say("READY");
	hear("gone");
	if (opt.server)
		memory_at(shared, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1);
	say("REMAPPED");
	hear("back");
	await_on("mlx5_1", kept, shared, !opt.server);
	meet();
	conn_talk(&conn, 100);
	await_on("mlx5_1", kept, shared, !opt.server);
	say("CHECKED");
	hear("end");
	must_zero(ibv_dereg_mr(mrs[0]), "ibv_dereg_mr");
	must_zero(ibv_dereg_mr(mrs[1]), "ibv_dereg_mr");
	meet();
	say("FREED");
	hear("end");
	conn_talk(&conn, 100);
	conn_free(&conn);
	nic_close(&nic);
	return 0;
}
