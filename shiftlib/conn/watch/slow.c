/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NICs that are slow, as their links say. The rules are those of core/slow.c; here the rates
 * are read, where conn/watch/gray.c reads counters. judged.c does something about it, if that
 * pays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/apart.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/conn/watch/gray.h"
#include "shiftlib/conn/watch/judged.h"
#include "shiftlib/conn/watch/slow.h"
#include "shiftlib/nic/rates.h"

#define SLOW_SYSFS  "/sys"
#define LIKE_LOOKS  128 /* looks at a NIC, between two at the NICs of its make */
#define MBPS_A_GBPS 1000.0

static struct slow_nic {
	struct sh_slow core;
	struct sh_slow_rates like; /* the most that others of its make have shown */
	uint32_t incarnation, looks;
	struct sh_judged judged;
	bool asking; /* a look at those of its make is under way */
	bool untold; /* no rate was known at the last look: the link may come up slower */
	bool pci;    /* it is its PCI link that is slower than the other */
} slow[SH_MAX_NICS];

static struct slow_nic *of(const struct sh_nic *nic)
{
	return &slow[nic->index];
}

/* ---- what is done --------------------------------------------------------------------------- */

static void slow_log(const struct sh_nic *nic, const char *what)
{
	double now = of(nic)->core.now / MBPS_A_GBPS, whole = of(nic)->core.whole / MBPS_A_GBPS;

	if (of(nic)->pci)
		sh_log(SH_LOG_WARN,
		       "%s: its PCI link carries %.5g of the %.5g Gb/s that the NIC could; %s",
		       nic->name, now, whole, what);
	else
		sh_log(SH_LOG_WARN,
		       "%s: the link of its port carries %.5g of the %.5g Gb/s that the NIC could; "
		       "%s",
		       nic->name, now, whole, what);
}

static void slow_log_whole(const struct sh_nic *nic)
{
	const struct sh_slow *core = &of(nic)->core;

	sh_log(SH_LOG_WARN, "%s: it carries %.5g Gb/s again, and did so for %llu s", nic->name,
	       core->now / MBPS_A_GBPS,
	       (unsigned long long)(sh_slow_hold_ns(core, &sh.config.gray.rules) / SH_NS_PER_S));
}

static uint32_t rate_of(const struct sh_nic *nic)
{
	return of(nic)->core.now ? of(nic)->core.now : nic->address.speed;
}

static bool pays(const struct sh_nic *nic) SH_LOCKED
{
	uint32_t choices = sh_gray_choices(nic), i;
	struct sh_slow_others others = { 0 };

	for (i = 0; i < sh_nics.n; i++) {
		const struct sh_nic *other = &sh_nics.nic[i];

		if (other == nic || !(choices >> i & 1) || other->drained || sh_slow_is(other))
			continue;
		others.can += rate_of(other);
		others.own += sh_conns_spare(other) ? 0 : rate_of(other);
	}
	return sh_slow_pays(&of(nic)->core, &others);
}

static const char *slow_stays(const struct sh_nic *nic) SH_LOCKED
{
	return sh_gray_drain_allowed(nic) && pays(nic) ? NULL
						       : "it is used on, as no other NIC is better";
}

static enum sh_event_cause slow_cause(const struct sh_nic *nic)
{
	return of(nic)->pci ? SH_CAUSE_SLOW_PCI : SH_CAUSE_SLOW;
}

static const struct sh_judge slow_judge = { .drain = SH_DRAIN_SLOW,
					    .cause = slow_cause,
					    .log = slow_log,
					    .log_well = slow_log_whole,
					    .stays = slow_stays };

static void act(struct sh_nic *nic, bool changed) SH_LOCKED
{
	if (changed)
		sh_degraded_changed(); /* connections that are away may have less left, or more */
	sh_judged_act(&slow_judge, &of(nic)->judged, nic, sh_slow_is(nic), changed);
}

/* ---- NICs of its make ----------------------------------------------------------------------- */

/*
 * A look at the NICs that may be of one NIC's make. A read of a rate waits for the NIC that is
 * asked, so these looks have a thread of their own: where one NIC hangs, the workers of the others
 * do not wait for it.
 */
struct like_job {
	struct sh_job job;
	const struct sh_nic *nic;
	uint32_t incarnation, n;
	int devices[SH_MAX_NICS]; /* descriptors of the others, or of a like one; negative: none */
	char name[SH_SLOW_NAME], others[SH_MAX_NICS][SH_SLOW_NAME];
	const struct sh_nic *nic_of[SH_MAX_NICS];
	struct sh_slow_rates like;
};

static struct sh_worker *like_worker; /* NULL: not needed yet */

static uint32_t more(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* True unless the NIC is known not to answer. One that is not open may. */
static bool like_answers(const struct sh_nic *nic)
{
	bool answers;

	sh_job_lock();
	answers = nic->state != SH_NIC_OPEN || sh_nic_up(nic);
	sh_job_unlock();
	return answers;
}

struct like_read {
	const char *name;
	struct sh_slow_rates rates;
};

static void like_command(void *arg)
{
	struct like_read *read = arg;

	sh_rates_read(SLOW_SYSFS, read->name, &read->rates);
}

static void like_run(struct sh_job *job)
{
	struct like_job *task = (struct like_job *)job;
	uint32_t i;

	for (i = 0; i < task->n && !sh.stopping; i++) {
		struct like_read read = { .name = task->others[i] };

		if (!like_answers(task->nic_of[i]) ||
		    !sh_rates_alike(SLOW_SYSFS, task->name, task->others[i]))
			continue;
		sh_apart(task->devices[i], like_command, &read);
		task->like.port = more(task->like.port, read.rates.port);
		task->like.bus = more(task->like.bus, read.rates.bus);
	}
}

static void like_learn(struct slow_nic *own, const struct sh_slow_rates *like)
{
	own->like.port = more(own->like.port, like->port);
	own->like.bus = more(own->like.bus, like->bus);
}

static void like_done(struct sh_job *job)
{
	struct like_job *task = (struct like_job *)job;
	struct slow_nic *own = of(task->nic);

	sh_job_lock();
	own->asking = false;
	if (!job->canceled && task->incarnation == task->nic->incarnation)
		like_learn(own, &task->like);
	sh_job_unlock();
	free(task);
}

/* What is read needs no descriptor, but one tells that the kernel has these devices. */
static int device_of(const struct sh_nic *other, const struct sh_nic *own)
{
	const struct ibv_context *ctx = other->ctx ? other->ctx : own->ctx;

	return ctx ? ctx->cmd_fd : -1;
}

static void like_others(struct like_job *task)
{
	uint32_t i;

	for (i = 0; i < sh_nics.n; i++) {
		if (&sh_nics.nic[i] == task->nic)
			continue;
		task->nic_of[task->n] = &sh_nics.nic[i];
		task->devices[task->n] = device_of(&sh_nics.nic[i], task->nic);
		snprintf(task->others[task->n++], SH_SLOW_NAME, "%s", sh_nics.nic[i].name);
	}
}

static void like_ask(const struct sh_nic *nic) SH_LOCKED
{
	struct like_job *task = of(nic)->asking ? NULL : calloc(1, sizeof(*task));

	if (!task)
		return;
	task->job = (struct sh_job){ .fn = like_run, .done = like_done, .patient = true };
	task->nic = nic;
	task->incarnation = nic->incarnation;
	snprintf(task->name, sizeof(task->name), "%s", nic->name);
	like_others(task);
	if (!like_worker)
		like_worker = sh_worker_start("shift-rates");
	of(nic)->asking = like_worker && !sh_worker_submit(like_worker, &task->job);
	if (!of(nic)->asking)
		free(task);
}

/* ---- looks ---------------------------------------------------------------------------------- */

/* What another incarnation has shown is another device's. */
static void slow_follow(const struct sh_nic *nic)
{
	struct slow_nic *own = of(nic);

	if (own->incarnation == nic->incarnation)
		return;
	sh_slow_forget(&own->core);
	memset(&own->like, 0, sizeof(own->like));
	own->incarnation = nic->incarnation;
	own->looks = 0;
}

void sh_slow_ask(const struct sh_nic *nic, struct sh_slow_update *look)
{
	slow_follow(nic);
	snprintf(look->name, sizeof(look->name), "%s", nic->name);
}

void sh_slow_read(struct sh_slow_update *look)
{
	sh_rates_read(SLOW_SYSFS, look->name, &look->rates);
}

void sh_slow_told(struct sh_nic *nic, const struct sh_slow_update *look)
{
	static const struct sh_slow_rates unknown; /* a dead one's name may be another's by now */
	const struct sh_slow_rates *rates = sh_nic_up(nic) ? &look->rates : &unknown;
	struct slow_nic *own = of(nic);

	slow_follow(nic);
	/* from here, the NIC's worker, as a thread is begun: the program's stack may be small */
	if (own->looks++ % LIKE_LOOKS == 0)
		like_ask(nic);
	own->untold = !rates->port;
	/* which link it is stays known until it is whole */
	if (rates->port && own->core.state == SH_SLOW_WHOLE)
		own->pci = rates->bus && rates->bus < rates->port;
	act(nic, sh_slow_update(&own->core, &sh.config.gray.rules, rates, &own->like, sh_now_ns()));
	if (rates->port)
		/* used for orders of paths, and for the bandwidth that is left */
		nic->address.speed = own->core.now;
}

/* ---- told ----------------------------------------------------------------------------------- */

bool sh_slow_is(const struct sh_nic *nic)
{
	return of(nic)->core.state == SH_SLOW_SLOW;
}

bool sh_slow_is_pci(const struct sh_nic *nic)
{
	return sh_slow_is(nic) && of(nic)->pci;
}

bool sh_slow_in_doubt(const struct sh_nic *nic)
{
	return of(nic)->core.looks || of(nic)->untold;
}

void sh_slow_figures(const struct sh_nic *nic, uint32_t *now, uint32_t *whole)
{
	*now = of(nic)->core.now;
	*whole = of(nic)->core.whole;
}

void sh_slow_use(struct sh_nic *nic)
{
	if (!sh_slow_is(nic))
		return;
	sh_slow_accept(&of(nic)->core, sh_now_ns());
	sh_judged_use(&slow_judge, &of(nic)->judged, nic);
}

void sh_slow_reset(void)
{
	memset(slow, 0, sizeof(slow));
	like_worker = NULL;
}
