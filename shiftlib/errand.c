/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands on other NICs that the application's verb has to wait for: each is given by the worker of
 * its NIC while the application's thread gives its own. But one that is over sooner than the worker
 * would wake up is the caller's to give; and so is one that the worker has not come to by then, as it
 * may be at something that takes long.
 */
#include "shiftlib/errand.h"

#define ERRAND_SHORT_NS (10 * SH_NS_PER_US)

void sh_errand_here(struct sh_errand *errand)
{
	uint64_t since = sh_now_ns();

	errand->run(errand);
	atomic_store_explicit(&errand->nic->errand_ns, sh_now_ns() - since, memory_order_relaxed);
}

static void errand_run(struct sh_job *job)
{
	sh.real->thread_inside();
	sh_errand_here((struct sh_errand *)job);
}

static void errand_done(struct sh_job *job)
{
	struct sh_errand *errand = (struct sh_errand *)job;

	if (job->canceled)
		errand_run(job);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(errand->waiting);
	pthread_mutex_unlock(&sh.lock);
}

bool sh_errand_send(struct sh_errand *errand, struct sh_busy *waiting)
{
	struct sh_worker *worker = errand->nic->worker;
	uint64_t ns = atomic_load_explicit(&errand->nic->errand_ns, memory_order_relaxed);

	errand->sent = false;
	if (ns && ns < ERRAND_SHORT_NS)
		return false;
	errand->job = (struct sh_job){ .fn = errand_run, .done = errand_done, .urgent = true };
	errand->waiting = waiting;
	sh_job_begin(waiting);
	errand->sent = !sh_worker_submit(worker, &errand->job);
	if (!errand->sent)
		sh_job_end(waiting);
	return errand->sent;
}

void sh_errand_back(struct sh_errand *errand)
{
	if (!errand->sent || !sh_worker_withdraw(errand->nic->worker, &errand->job))
		return;
	sh_errand_here(errand);
	pthread_mutex_lock(&sh.lock);
	sh_job_end(errand->waiting);
	pthread_mutex_unlock(&sh.lock);
}
