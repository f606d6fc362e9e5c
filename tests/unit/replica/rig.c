/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/reach.h"
#include "shiftlib/replica/young.h"
#include "tests/unit/replica/rig.h"

#define RIG_END_NS (60 * SH_NS_PER_S) /* only a hang takes so long */

struct holder {
	struct sh_job job;
	sem_t begun, go, over;
};

struct sh_ctx rig_ctx;
struct sh_pd rig_pds[RIG_PDS];
atomic_uint rig_made[RIG_PATHS], rig_gone[RIG_PATHS];
atomic_int rig_error;
enum ibv_fork_status rig_fork;
static struct holder holders[RIG_PATHS];
static struct ibv_pd real_pds[RIG_PDS][RIG_PATHS];

static void rig_inside(void)
{
}

static struct ibv_mr *rig_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct rig_mr *mr = rig_mr_new((uint8_t)pd->handle);

	(void)access;
	mr->mr.pd = pd;
	mr->mr.addr = addr;
	mr->mr.length = length;
	return &mr->mr;
}

static int rig_dereg_mr(struct ibv_mr *real)
{
	struct rig_mr *mr = (struct rig_mr *)real;

	atomic_fetch_add(&mr->gone, 1);
	atomic_fetch_add(&rig_gone[mr->path], 1);
	return atomic_load(&rig_error);
}

static enum ibv_fork_status rig_is_fork_initialized(void)
{
	return rig_fork;
}

struct shift_real rig_real;

struct rig_mr *rig_mr_new(uint8_t path)
{
	static atomic_uint keys;
	struct rig_mr *mr = calloc(1, sizeof(*mr));

	assert_non_null(mr);
	mr->path = path;
	mr->mr.lkey = mr->mr.rkey = 0x100 * (1 + atomic_fetch_add(&keys, 1));
	atomic_fetch_add(&rig_made[path], 1);
	return mr;
}

static void rig_nic_init(uint8_t path)
{
	struct sh_nic *nic = &sh_nics.nic[path];

	*nic = (struct sh_nic){ .index = path, .incarnation = 1, .holds = 1 };
	nic->worker = sh_worker_start("test");
	assert_non_null(nic->worker);
	rig_ctx.path[path] = nic;
	rig_ctx.replica[path] = path > 0;
	sh_keymap_init(&rig_ctx.lkeys[path]);
}

static void rig_pd_init(uint32_t i)
{
	struct sh_pd *pd = &rig_pds[i];
	uint8_t path;

	*pd = (struct sh_pd){ .ctx = &rig_ctx };
	list_init(&pd->mrs);
	for (path = 0; path < SC_MAX_PATHS; path++)
		list_init(&pd->shadow[path].mrs);
	for (path = 1; path < RIG_PATHS; path++) {
		real_pds[i][path].handle = path;
		pd->shadow[path].pd = &real_pds[i][path];
		pd->shadow[path].state = SH_SHADOW_MADE;
		pd->shadow[path].incarnation = 1;
	}
	list_add_tail(&rig_ctx.pds, &pd->link);
}

int rig_setup(void **state)
{
	uint32_t i;

	(void)state;
	rig_real = (struct shift_real){ .thread_inside = rig_inside,
					.reg_mr = rig_reg_mr,
					.dereg_mr = rig_dereg_mr,
					.is_fork_initialized = rig_is_fork_initialized };
	sh.real = &rig_real;
	sh_objects_module.reset();
	sh_peers_module.reset();
	sh_reach_module.reset();
	sh_late_module.reset();
	sh_young_module.reset();
	rig_fork = IBV_FORK_UNNEEDED;
	atomic_store(&rig_error, 0);
	rig_ctx = (struct sh_ctx){ .nic = &sh_nics.nic[0], .n_paths = RIG_PATHS };
	list_init(&rig_ctx.pds);
	list_init(&rig_ctx.cqs);
	list_init(&rig_ctx.srqs);
	list_add_tail(&sh_objects.ctxs, &rig_ctx.link);
	for (i = 0; i < RIG_PATHS; i++) {
		atomic_store(&rig_made[i], 0);
		atomic_store(&rig_gone[i], 0);
		rig_nic_init((uint8_t)i);
	}
	for (i = 0; i < RIG_PDS; i++)
		rig_pd_init(i);
	return 0;
}

int rig_teardown(void **state)
{
	uint8_t path;

	(void)state;
	for (path = 0; path < RIG_PATHS; path++) {
		assert_int_equal(sh_worker_stop(sh_nics.nic[path].worker, RIG_END_NS), 0);
		sh_keymap_uninit(&rig_ctx.lkeys[path]);
	}
	free(sh_peers.keys.entries); /* a process keeps them to its end */
	sh_peers.keys.entries = NULL;
	sh_peers.keys.capacity = 0;
	return 0;
}

/* ---- a worker that is busy ------------------------------------------------------------------ */

static void holder_run(struct sh_job *job)
{
	struct holder *holder = (struct holder *)job;

	sem_post(&holder->begun);
	while (sem_wait(&holder->go))
		;
}

static void holder_done(struct sh_job *job)
{
	sem_post(&((struct holder *)job)->over);
}

void rig_worker_hold(uint8_t path)
{
	struct holder *holder = &holders[path];

	*holder = (struct holder){ .job = { .fn = holder_run, .done = holder_done } };
	sem_init(&holder->begun, 0, 0);
	sem_init(&holder->go, 0, 0);
	sem_init(&holder->over, 0, 0);
	assert_int_equal(sh_worker_submit(rig_ctx.path[path]->worker, &holder->job), 0);
	while (sem_wait(&holder->begun))
		;
}

void rig_worker_let_go(uint8_t path)
{
	sem_post(&holders[path].go);
	while (sem_wait(&holders[path].over))
		;
}
