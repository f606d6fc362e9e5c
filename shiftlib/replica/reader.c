/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdlib.h>
#include "providers/engine.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/control/address.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/reader.h"

#define READER_TIMEOUT 14

struct reader_job {
	struct sh_job job;
	struct sh_reader *reader;
	const struct sh_reader_kind *kind;
	struct sh_reader_place place;
	struct sh_nic *nic;
	struct sh_address address;
	struct ibv_pd *own_pd; /* the application's PD where it may be used; or NULL */
	struct sh_reader made, gone;
};

/*
 * Returns the PD for a reader: the replica's, whose keys name the application's memory, the
 * application's own where its NIC lives, or one of the reader's own.
 */
static struct ibv_pd *reader_pd(struct reader_job *task)
{
	const struct sh_pd *pd = task->place.pd;
	struct sh_reader *made = &task->made;

	if (sh_pd_shadowed(pd, task->place.path)) {
		made->incarnation = pd->shadow[task->place.path].incarnation;
		return pd->shadow[task->place.path].pd;
	}
	made->own = task->own_pd != NULL;
	if (made->own || !task->kind->alone || !task->nic->ctx)
		return task->own_pd;
	made->incarnation = task->nic->incarnation;
	made->looped.pd = sh.real->alloc_pd(task->nic->ctx);
	return made->looped.pd;
}

static void reader_make(struct reader_job *task)
{
	const struct sh_limits *max = &task->nic->max;
	uint8_t reads =
		sh_fit_reads(sh_fit_reads(task->kind->reads, max->reads_out), max->reads_in);
	struct ibv_qp_attr limits = { .timeout = READER_TIMEOUT,
				      .retry_cnt = 1,
				      .max_rd_atomic = reads,
				      .max_dest_rd_atomic = reads,
				      .qp_access_flags = (unsigned int)task->kind->access };
	struct ibv_pd *pd = reader_pd(task);

	if (pd && sh_looped_make(&task->made.looped, pd, task->kind->bytes, task->kind->batch,
				 &task->address, &limits)) {
		task->made.state = SH_READER_READY;
		return;
	}
	sh_looped_destroy(&task->made.looped);
	task->made = (struct sh_reader){ .state = SH_READER_NONE };
}

static void reader_run(struct sh_job *job)
{
	struct reader_job *task = (struct reader_job *)job;

	sh.real->thread_inside();
	sh_looped_destroy(&task->gone.looped);
	if (task->made.state == SH_READER_MAKING)
		reader_make(task);
}

static void reader_took(struct reader_job *task) SH_LOCKED
{
	const struct sh_ctx *ctx = task->place.pd->ctx;
	struct sh_reader *reader = task->reader;
	struct sp_dev *dev =
		task->made.own ? ctx->dev : sh_nic_dev(task->nic, sh_nic_engine(ctx->nic));

	*reader = task->made;
	if (task->kind->made)
		task->kind->made(task->place.owner, task->place.path);
	if (reader->state != SH_READER_READY)
		return;
	if (!reader->own)
		sh_nic_hold(task->nic, reader->incarnation);
	if (dev)
		sp_qp_foreign(dev, reader->looped.qp);
	sh_kick();
}

static void reader_done(struct sh_job *job)
{
	struct reader_job *task = (struct reader_job *)job;

	sh_lock();
	if (task->gone.looped.qp && !task->gone.own)
		sh_nic_release(task->nic, task->gone.incarnation);
	if (job->canceled)
		task->made = (struct sh_reader){ .state = SH_READER_NONE };
	if (task->reader->state == SH_READER_MAKING)
		reader_took(task);
	task->kind->hold(task->place.owner, task->place.path, false);
	sh_unlock();
	free(task);
}

bool sh_reader_renew(struct sh_reader *reader, const struct sh_reader_kind *kind,
		     const struct sh_reader_place *place, bool make)
{
	struct sh_nic *nic = place->pd->ctx->path[place->path];
	struct reader_job *task = calloc(1, sizeof(*task));

	if (!task)
		return false;
	*task = (struct reader_job){ .job = { .fn = reader_run, .done = reader_done },
				     .reader = reader,
				     .kind = kind,
				     .place = *place,
				     .nic = nic,
				     .address = nic->address,
				     .gone = *reader };
	if (!place->path && !place->pd->ctx->dead)
		task->own_pd = place->pd->pd;
	if (make)
		task->made.state = SH_READER_MAKING;
	kind->hold(place->owner, place->path, true);
	if (nic->worker && !sh_worker_submit(nic->worker, &task->job)) {
		*reader = (struct sh_reader){ .state = make ? SH_READER_MAKING : SH_READER_NONE };
		return true;
	}
	kind->hold(place->owner, place->path, false);
	free(task);
	return false;
}

bool sh_reader_stale(const struct sh_reader *reader, const struct sh_pd *pd, uint8_t path)
{
	if (reader->own)
		return pd->ctx->dead;
	return reader->incarnation != pd->ctx->path[path]->incarnation;
}

void sh_reader_drop(struct sh_reader *reader, const struct sh_reader_kind *kind,
		    const struct sh_reader_place *place)
{
	struct sh_reader gone = *reader;

	*reader = (struct sh_reader){ .state = SH_READER_NONE };
	if (gone.state != SH_READER_READY)
		return;
	kind->hold(place->owner, place->path, true);
	sh_unlock();
	sh_looped_destroy(&gone.looped);
	sh_lock();
	if (!gone.own)
		sh_nic_release(place->pd->ctx->path[place->path], gone.incarnation);
	kind->hold(place->owner, place->path, false);
}
