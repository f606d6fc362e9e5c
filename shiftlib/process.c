/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The life of the process: start, fork and end; and the parts that the background thread serves. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "kvclient/kv.h"
#include "shiftlib/admin/admin.h"
#include "shiftlib/base/apart.h"
#include "shiftlib/base/crash.h"
#include "shiftlib/base/mapped.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/cm/module.h"
#include "shiftlib/conn/act.h"
#include "shiftlib/conn/atomics/home.h"
#include "shiftlib/conn/atomics/words.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/fence.h"
#include "shiftlib/conn/give_way.h"
#include "shiftlib/conn/meet/intro.h"
#include "shiftlib/conn/meet/unknown.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/ending.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/exact.h"
#include "shiftlib/conn/parts/inquiry.h"
#include "shiftlib/conn/parts/loopback.h"
#include "shiftlib/conn/parts/pool.h"
#include "shiftlib/conn/parts/push.h"
#include "shiftlib/conn/parts/rights.h"
#include "shiftlib/conn/parts/room.h"
#include "shiftlib/conn/parts/spread.h"
#include "shiftlib/conn/parts/srq.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/conn/told/incident.h"
#include "shiftlib/conn/told/stats.h"
#include "shiftlib/conn/turn.h"
#include "shiftlib/conn/asleep.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/conn/watch/blame.h"
#include "shiftlib/conn/watch/detector.h"
#include "shiftlib/conn/watch/stall.h"
#include "shiftlib/conn/watch/gray.h"
#include "shiftlib/conn/watch/holdup.h"
#include "shiftlib/conn/watch/look.h"
#include "shiftlib/conn/wqelog/wqe_log.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/object.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/hold.h"
#include "shiftlib/replica/late.h"
#include "shiftlib/replica/reach.h"
#include "shiftlib/replica/young.h"
#include "shiftlib/report/event.h"
#include "shiftlib/report/metrics.h"
#include "shiftlib/report/on_event.h"

#define PROCESS_END_WAIT_NS SH_NS_PER_S

/*
 * Modules in the order of their runs and resets. clang-format would indent a list of this length by
 * three tabs.
 */
/* clang-format off */
static const struct sh_module *const process_modules[] = {
	&sh_reach_module,
	&sh_objects_module,  /* no event can name a closed context any more */
	&sh_young_module,    /* regions that are not young any more */
	&sh_late_module,     /* regions that are gone */
	&sh_conns_module,
	&sh_asleep_module,   /* posts that end the sleep of the looks */
	&sh_looks_module,    /* errors that nobody polls */
	&sh_mailbox_module,  /* reports of the data path */
	&sh_quiesces_module, /* work that the workers have finished */
	&sh_setup_module,    /* waiting work begins */
	&sh_nics_module,
	&sh_detector_module,
	&sh_blame_module,
	&sh_stalls_module,
	&sh_holdups_module,
	&sh_hold_module, /* NICs that were just found to hang */
	&sh_gray_module,
	&sh_turns_module,
	&sh_srqs_module,
	&sh_clock_module, /* timers of connections */
	&sh_homes_module, /* after the steps of connections */
	&sh_intros_module,
	&sh_peers_module,
	&sh_ctx_events_module, /* events for the application, after all that ran because of them */
	&sh_stats_module,
	&sh_incidents_module,
	&sh_degraded_module,
	&sh_events_module,
	&sh_metrics_module,
	&sh_cm_module, /* news of ends, after the others have heard of them */
	&sh_admin_module,
	&sh_give_way_module, /* checks whether anything is withheld still */
};

/*
 * Parts of each connection (conn/part.h), in the order in which they are told and asked. The
 * order matters where a comment says so.
 */
static const struct sh_conn_part *const process_parts[] = {
	&sh_incident_part, /* sees when the first error was, which the figures of the move take */
	&sh_stats_part,
	&sh_quiesce_part, /* answers that end a wait come before the waits that were too long */
	&sh_publish_part,
	&sh_fence_part,
	&sh_pool_part, /* gives back its QP before the next one may give up the lock */
	&sh_loopback_part, /* READs that may run do so before `ending` fails them */
	&sh_ending_part,
	&sh_core_part, /* the core is told what the parts above have found */
	&sh_home_part,
	&sh_home_group_part,
	&sh_spread_part,
	&sh_exact_part, /* what a PSN tells is not asked of the log */
	&sh_wqe_log_part, /* while the log is asked, words are not looked at */
	&sh_words_part,
	&sh_intro_part,
	&sh_push_part,
	&sh_inquiry_part,
	&sh_room_part, /* room is checked before keys */
	&sh_unknown_part,
	&sh_rights_part,
	&sh_detector_part,
	&sh_stall_part,
	&sh_srq_part, /* its last event comes behind the errors that the gate let through */
	NULL
};
/* clang-format on */

/*
 * Locks that a fork waits for, in their order: the data that they guard is whole in the child.
 * Every other lock of the process is made anew there; tests/style/check_forks.py knows them all.
 * `not_held`: the forking thread has the lock already, as a signal handler forks in the middle of a
 * verb; or its owner waits for that handler, and the wait has an end.
 */
static struct process_lock {
	pthread_mutex_t *lock;
	bool not_held;
} process_locks[] = { { .lock = &sh_lock_mutex }, { .lock = &sh.devices_lock } };

#define PROCESS_LOCKS	    (sizeof(process_locks) / sizeof(process_locks[0]))
#define PROCESS_FORK_WAIT_S 5

static _Thread_local uint32_t
	process_forking; /* depth: a child of shift_init() has these handlers twice */

static void process_before_fork(void)
{
	struct timespec until;

	if (process_forking++)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PROCESS_FORK_WAIT_S;
	for (size_t i = 0; i < PROCESS_LOCKS; i++)
		process_locks[i].not_held =
			pthread_mutex_clocklock(process_locks[i].lock, CLOCK_MONOTONIC, &until);
	kv_fork_before();
}

static void process_after_fork_parent(void)
{
	if (--process_forking)
		return;
	kv_fork_after();
	for (size_t i = PROCESS_LOCKS; i-- > 0;)
		if (!process_locks[i].not_held)
			pthread_mutex_unlock(process_locks[i].lock);
}

/*
 * Starts anew in the child of a fork, which has none of our threads, and no use for the parent's
 * verbs objects: so fork-then-open works. Memory of the parent's objects stays as it is.
 */
static void process_after_fork(void)
{
	static const pthread_mutex_t anew = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	for (size_t i = 0; i < PROCESS_LOCKS; i++)
		*process_locks[i].lock = anew;
	sh_lock_forget();
	process_forking = 0;
	sh_cond_init(&sh.idle);
	sh_comp_channel_after_fork();
	sh_on_event_after_fork();
	sh_crash_after_fork();
	sh_mapped_forget();
	if (!sh.enabled)
		return;
	sh.stopping = false;
	sh.instance = sh_random_u64();
	sh_loop_reset();
}

/*
 * Registers one handler at load: one that is registered while another thread forks is not called
 * for that child. Handlers that wait are registered as late as possible (shift_init()), since a
 * fork calls the last one first: an allocator's handlers take locks, too, and the owner of the
 * shell's lock may allocate.
 */
static void __attribute__((constructor)) process_mind_forks(void)
{
	pthread_atfork(NULL, NULL, process_after_fork);
}

static void process_settings_complain(void)
{
	const char *line, *end;
	bool was_read;

	sh_settings_file(&was_read, &line);
	for (; *line; line = end + 1) {
		end = strchr(line, '\n');
		sh_log(SH_LOG_WARN, "%.*s", (int)(end - line), line);
	}
}

bool shift_wanted(void)
{
	return sh_settings_wanted();
}

void shift_init(const struct shift_real *real)
{
	process_settings_complain();
	sh.real = real;
	sh_comp_channel_setup(real);
	sh_async_setup(real);
	sh_config_read(&sh.config);
	sh_on_event_setup(&sh.config.on_event);
	if (!sh.config.hold_hung)
		sh_apart_off();
	sh.enabled = true;
	sh.instance = sh_random_u64();
	sh_parts_register(process_parts);
	sh_loop_register(process_modules, sizeof(process_modules) / sizeof(process_modules[0]));
	sh_loop_reset();
	pthread_atfork(process_before_fork, process_after_fork_parent, NULL);
}

/*
 * Ends at exit. The application's threads may run on while the process ends, and use what is left:
 * only the background thread and the KV's worker go. Somebody may hold the lock for ever at exit: a
 * program that exits from a signal handler, in the middle of a verb. Such a process ends all the
 * same, without figures.
 */
void shift_uninit(void)
{
	struct sh_worker *kv_worker;

	if (!sh.enabled || !sh_lock_try_for(PROCESS_END_WAIT_NS))
		return;
	kv_worker = sh_intros_take_worker();
	sh.stopping = true; /* nothing is given to the KV's worker any more */
	sh_hold_end();
	sh_incidents_end();
	sh_stats_write();
	sh_admin_stop();
	sh_unlock();
	sh_on_event_end(PROCESS_END_WAIT_NS);
	sh_loop_end(PROCESS_END_WAIT_NS);
	/* entries that were not withdrawn yet end with their leases if the KV does not answer */
	if (kv_worker)
		sh_worker_stop(kv_worker, 500 * SH_NS_PER_MS);
}

void shift_note_unknown_verb(const char *name)
{
	sh_log(SH_LOG_WARN,
	       "the installed libibverbs has %s, which this SHIFT does not know: objects "
	       "from there are not protected",
	       name);
}
