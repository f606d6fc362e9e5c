/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains and memory regions, and their shadows on the NICs of the paths. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "shiftlib/shell.h"

/* What each NIC can; all else is up to the NIC that cannot be asked. */
#define MADE_UP_ACCESS                                                                             \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_RELAXED_ORDERING)

#define REPLAY_BATCH 8 /* regions that a job registers between two looks at who waits for one */

struct memory_job {
	struct sh_job job;
	struct sh_pd *pd;
	struct sh_mr *mr; /* NULL: the PD itself */
	uint8_t path;
	struct ibv_pd *stale_pd, *made_pd;
	struct ibv_mr *stale_mr, *made_mr;
	uint32_t incarnation, stale_incarnation;
	int error;
};

struct sh_pd *sh_pd_find(struct ibv_pd *pd)
{
	struct sh_pd *found = sh_table_get(&sh.by_pd, pd);
	const struct sh_parent *parent = found ? NULL : sh_table_get(&sh.by_parent, pd);

	return parent ? parent->pd : found;
}

/* What uses this PD cannot go to that path: standbys there are lost. */
static void pd_lose_path(struct sh_pd *pd, uint8_t path)
{
	struct sh_qp *qp;

	pd->shadow[path].mr_failed = pd->shadow[path].doubtful = true;
	list_for_each (&sh.qps, qp, struct sh_qp, link) {
		if (qp->pd != pd || !qp->conn_id)
			continue;
		if (qp->standby && qp->standby->path == path)
			sh_conn_about(qp, SC_EV_STANDBY_LOST, SC_REASON_RESOURCE,
				      qp->standby->epoch);
		if (qp->core.config.lazy) /* it is wary now */
			sh_paths_changed(qp);
	}
}

/* What uses this PD cannot be moved any more: its connections lose their protection. */
static void pd_unprotect(struct sh_pd *pd, const char *why)
{
	struct sh_qp *qp;
	uint8_t path;

	if (!pd->unprotected)
		pd->why = why;
	pd->unprotected = true;
	for (path = 0; path < SC_MAX_PATHS; path++)
		pd_lose_path(pd, path);
	list_for_each (&sh.qps, qp, struct sh_qp, link)
		if (qp->pd == pd && qp->conn_id && qp->level == SH_DRIVEN)
			sh_conn_level(qp, SH_DRIVEN, why);
}

bool sh_pd_refuses(const struct sh_pd *pd, uint8_t path)
{
	return pd->unprotected || pd->shadow[path].doubtful;
}

bool sh_pd_shadowed(const struct sh_pd *pd, uint8_t path)
{
	const struct sh_shadow_pd *shadow = &pd->shadow[path];

	return !pd->unprotected && shadow->pd && !shadow->mr_failed &&
	       shadow->incarnation == pd->ctx->path[path]->incarnation;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* What was made on an earlier incarnation is dead: that it is taken away frees libibverbs' part. */
static void memory_pd_run(struct sh_job *job)
{
	struct memory_job *task = (struct memory_job *)job;
	struct sh_shadow_pd *shadow = &task->pd->shadow[task->path];
	struct sh_nic *nic = task->pd->ctx->path[task->path];

	sh.real->thread_inside();
	if (task->stale_pd)
		sh.real->dealloc_pd(task->stale_pd);
	task->error = ENODEV;
	if (!nic->ctx)
		return;
	task->made_pd = sh.real->alloc_pd(nic->ctx);
	task->error = task->made_pd ? 0 : errno;
	shadow->pd = task->made_pd; /* read by later jobs of this worker only */
	shadow->incarnation = nic->incarnation;
}

static void memory_pd_done(struct sh_job *job)
{
	struct memory_job *task = (struct memory_job *)job;
	struct sh_pd *pd = task->pd;

	pthread_mutex_lock(&sh.lock);
	pd->shadow[task->path].state = task->made_pd ? SH_SHADOW_MADE : SH_SHADOW_FAILED;
	if (task->made_pd)
		sh_nic_hold(pd->ctx->path[task->path], pd->shadow[task->path].incarnation);
	if (task->stale_pd)
		sh_nic_release(pd->ctx->path[task->path], task->stale_incarnation);
	if (!task->made_pd && !job->canceled) {
		sh_warn_once("%s: no protection domain there (%s): not protected by it",
			     pd->ctx->path[task->path]->name, strerror(task->error));
		pd_lose_path(pd, task->path);
	}
	sh_job_end(&pd->busy);
	pthread_mutex_unlock(&sh.lock);
	free(task);
}

static struct ibv_mr *memory_mr_make(struct sh_mr *mr, struct ibv_pd *pd)
{
	if (mr->dmabuf)
		return sh.real->reg_dmabuf_mr(pd, mr->offset, mr->length, mr->iova, mr->fd,
					      (int)mr->access);
	if (mr->plain)
		return sh.real->reg_mr(pd, mr->addr, mr->length, (int)mr->access);
	return sh.real->reg_mr_iova2(pd, mr->addr, mr->length, mr->iova, mr->access);
}

static void memory_mr_run(struct sh_job *job)
{
	struct memory_job *task = (struct memory_job *)job;
	struct sh_shadow_pd *pd = &task->pd->shadow[task->path];

	sh.real->thread_inside();
	if (task->stale_mr)
		sh.real->dereg_mr(task->stale_mr);
	task->error = ENODEV;
	task->incarnation = pd->incarnation;
	if (!pd->pd)
		return;
	task->made_mr = memory_mr_make(task->mr, pd->pd);
	task->error = task->made_mr ? 0 : errno;
}

static void memory_mr_made(const struct memory_job *task)
{
	struct sh_mr *mr = task->mr;

	mr->shadow[task->path].state = SH_SHADOW_MADE;
	mr->shadow[task->path].incarnation = task->incarnation;
	mr->shadow[task->path].mr = task->made_mr;
	sh_nic_hold(mr->pd->ctx->path[task->path], task->incarnation);
	if (sh_keymap_put(&mr->pd->ctx->lkeys[task->path], mr->mr->lkey, task->made_mr->lkey))
		pd_lose_path(mr->pd, task->path);
	sh_key_add(mr, task->path);
	sh_srq_keys_came(mr->pd->ctx);
}

static void memory_mr_failed(const struct memory_job *task)
{
	struct sh_mr *mr = task->mr;

	mr->shadow[task->path].state = SH_SHADOW_FAILED;
	if (!task->job.canceled && mr->pd->shadow[task->path].pd)
		sh_warn_once("%s: cannot register %zu bytes of the job's memory there (%s): "
			     "connections that use it are not protected by it; raise the limit on "
			     "locked memory, or name another backup NIC",
			     mr->pd->ctx->path[task->path]->name, mr->length,
			     strerror(task->error));
	pd_lose_path(mr->pd, task->path);
}

static void memory_mr_finish(struct memory_job *task)
{
	if (task->made_mr)
		memory_mr_made(task);
	else
		memory_mr_failed(task);
	if (task->stale_mr)
		sh_nic_release(task->pd->ctx->path[task->path], task->stale_incarnation);
	sh_job_end(&task->mr->busy);
}

static void memory_mr_done(struct sh_job *job)
{
	pthread_mutex_lock(&sh.lock);
	memory_mr_finish((struct memory_job *)job);
	pthread_mutex_unlock(&sh.lock);
	free(job);
}

static int memory_submit(struct memory_job *task)
{
	struct sh_busy *busy = task->mr ? &task->mr->busy : &task->pd->busy;
	struct memory_job *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *task;
	copy->job.fn = task->mr ? memory_mr_run : memory_pd_run;
	copy->job.done = task->mr ? memory_mr_done : memory_pd_done;
	sh_job_begin(busy);
	if (!sh_worker_submit(task->pd->ctx->path[task->path]->worker, &copy->job))
		return 0;
	sh_job_end(busy);
	free(copy);
	return -EAGAIN;
}

/* ---- replicas ------------------------------------------------------------------------------- */

static struct ibv_mr *mr_take_shadow(struct sh_mr *mr, uint8_t path)
{
	struct ibv_mr *shadow = mr->shadow[path].mr;

	if (!shadow)
		return NULL;
	sh_key_remove(mr, path);
	sh_keymap_remove(&mr->pd->ctx->lkeys[path], mr->mr->lkey);
	shift_provider_mlx5.keys_changed();
	mr->shadow[path].mr = NULL;
	mr->shadow[path].state = SH_SHADOW_FAILED;
	return shadow;
}

/*
 * New regions stand in line at their PD, and one job registers all that are there: the application's
 * thread, which may register thousands, pays for a place in a list.
 */
struct replay_job {
	struct sh_job job;
	struct sh_pd *pd;
	uint8_t path;
};

static uint32_t replay_take(const struct replay_job *replay, struct memory_job *tasks)
{
	struct list_node *line = &replay->pd->shadow[replay->path].mrs;
	uint32_t n;

	for (n = 0; n < REPLAY_BATCH && !list_empty(line); n++) {
		struct list_node *first = line->next;
		struct sh_shadow_mr *shadow = list_entry(first, struct sh_shadow_mr, link);
		struct sh_mr *mr = (struct sh_mr *)((char *)(shadow - replay->path) -
						    offsetof(struct sh_mr, shadow));

		list_del(first);
		list_init(first);
		sh_job_begin(&mr->busy);
		tasks[n] = (struct memory_job){ .pd = replay->pd, .mr = mr, .path = replay->path };
	}
	return n;
}

static void replay_run(struct sh_job *job)
{
	struct replay_job *replay = (struct replay_job *)job;
	struct memory_job tasks[REPLAY_BATCH];
	uint32_t n, i;

	sh_job_lock();
	while ((n = replay_take(replay, tasks))) {
		sh_job_unlock();
		for (i = 0; i < n; i++)
			memory_mr_run(&tasks[i].job);
		sh_job_lock();
		for (i = 0; i < n; i++)
			memory_mr_finish(&tasks[i]);
	}
	replay->pd->shadow[replay->path].replaying = false;
	sh_job_unlock();
}

/* Those that nobody will register. */
static void replay_give_up(struct sh_pd *pd, uint8_t path)
{
	struct list_node *line = &pd->shadow[path].mrs;

	while (!list_empty(line)) {
		struct list_node *first = line->next;

		list_entry(first, struct sh_shadow_mr, link)->state = SH_SHADOW_FAILED;
		list_del(first);
		list_init(first);
	}
	pd->shadow[path].replaying = false;
	pd_lose_path(pd, path);
}

static void replay_done(struct sh_job *job)
{
	struct replay_job *replay = (struct replay_job *)job;

	pthread_mutex_lock(&sh.lock);
	if (job->canceled)
		replay_give_up(replay->pd, replay->path);
	sh_job_end(&replay->pd->busy);
	pthread_mutex_unlock(&sh.lock);
	free(replay);
}

static void replay_start(struct sh_pd *pd, uint8_t path)
{
	struct replay_job *replay;

	if (pd->shadow[path].replaying)
		return;
	replay = malloc(sizeof(*replay));
	if (!replay) {
		replay_give_up(pd, path);
		return;
	}
	*replay = (struct replay_job){ .job = { .fn = replay_run, .done = replay_done },
				       .pd = pd,
				       .path = path };
	pd->shadow[path].replaying = true;
	sh_job_begin(&pd->busy);
	if (!sh_worker_submit(pd->ctx->path[path]->worker, &replay->job))
		return;
	sh_job_end(&pd->busy);
	free(replay);
	replay_give_up(pd, path);
}

static void mr_replay_stale(struct sh_mr *mr, uint8_t path)
{
	struct memory_job task = { .pd = mr->pd, .mr = mr, .path = path };

	task.stale_incarnation = mr->shadow[path].incarnation;
	task.stale_mr = mr_take_shadow(mr, path);
	mr->shadow[path].state = memory_submit(&task) ? SH_SHADOW_FAILED : SH_SHADOW_QUEUED;
	if (mr->shadow[path].state == SH_SHADOW_FAILED)
		pd_lose_path(mr->pd, path);
}

static void mr_replay(struct sh_mr *mr, uint8_t path)
{
	struct sh_shadow_mr *shadow = &mr->shadow[path];

	if (shadow->state == SH_SHADOW_QUEUED || mr->leaving)
		return;
	if (shadow->state == SH_SHADOW_MADE) {
		if (shadow->incarnation != mr->pd->ctx->path[path]->incarnation)
			mr_replay_stale(mr, path);
		return;
	}
	shadow->state = SH_SHADOW_QUEUED;
	list_add_tail(&mr->pd->shadow[path].mrs, &shadow->link);
	replay_start(mr->pd, path);
}

/* Out of the lines that nobody has taken it from yet. */
static void mr_replay_never(struct sh_mr *mr)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++) {
		struct sh_shadow_mr *shadow = &mr->shadow[path];

		if (list_empty(&shadow->link))
			continue;
		list_del(&shadow->link);
		list_init(&shadow->link);
		shadow->state = SH_SHADOW_NONE;
	}
}

bool sh_pd_queued(const struct sh_pd *pd, uint8_t path)
{
	const struct sh_shadow_pd *shadow = &pd->shadow[path];

	return shadow->state == SH_SHADOW_QUEUED ||
	       (shadow->state == SH_SHADOW_MADE &&
		shadow->incarnation == pd->ctx->path[path]->incarnation);
}

static void pd_replay_itself(struct sh_pd *pd, uint8_t path)
{
	struct sh_shadow_pd *shadow = &pd->shadow[path];
	struct memory_job task = { .pd = pd, .path = path };

	if (sh_pd_queued(pd, path))
		return;
	task.stale_pd = shadow->pd;
	task.stale_incarnation = shadow->incarnation;
	shadow->pd = NULL;
	shadow->state = memory_submit(&task) ? SH_SHADOW_FAILED : SH_SHADOW_QUEUED;
}

static bool pd_wanted(const struct sh_pd *pd, uint8_t path)
{
	const struct sh_ctx *ctx = pd->ctx;

	return path < ctx->n_paths && ctx->replica[path] && ctx->path[path]->worker &&
	       !pd->unprotected;
}

/* What failed, or is of an incarnation that died, is tried anew. */
static void pd_replay(struct sh_pd *pd, uint8_t path)
{
	struct sh_mr *mr;

	if (!pd_wanted(pd, path))
		return;
	pd->shadow[path].mr_failed = false;
	pd_replay_itself(pd, path);
	list_for_each (&pd->mrs, mr, struct sh_mr, link)
		mr_replay(mr, path);
}

/* The worker is first come first served: the NIC is opened before its PDs, these before their MRs,
 * and these before the standby that needs them. */
void sh_replica_want(struct sh_ctx *ctx, uint8_t path)
{
	struct sh_pd *pd;

	ctx->replica[path] = true;
	list_for_each (&ctx->pds, pd, struct sh_pd, link)
		pd_replay(pd, path);
}

/* ---- protection domains --------------------------------------------------------------------- */

struct ibv_pd *shift_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *real = sh.real->alloc_pd(context);
	struct sh_pd *pd;
	uint8_t path;

	if (!real)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return real; /* unknown to us: what is made in it stays foreign */
	pthread_mutex_lock(&sh.lock);
	pd->pd = real;
	pd->ctx = sh_ctx_find(context);
	list_init(&pd->mrs);
	for (path = 0; path < SC_MAX_PATHS; path++)
		list_init(&pd->shadow[path].mrs);
	list_init(&pd->parents);
	if (!pd->ctx || !pd->ctx->dev || sh_table_put(&sh.by_pd, real, pd)) {
		free(pd);
	} else {
		list_add_tail(&pd->ctx->pds, &pd->link);
		for (path = 0; path < SC_MAX_PATHS; path++)
			pd_replay(pd, path);
	}
	pthread_mutex_unlock(&sh.lock);
	return real;
}

/* ---- the end of both ------------------------------------------------------------------------ */

static void pd_drop(struct sh_pd *pd)
{
	struct sh_shadow_pd shadow[SC_MAX_PATHS];
	struct sh_ctx *ctx = pd->ctx;
	uint8_t path;

	sh_wait_idle(&pd->busy);
	sh_parents_forget(pd);
	memcpy(shadow, pd->shadow, sizeof(shadow));
	list_del(&pd->link);
	free(pd);
	pthread_mutex_unlock(&sh.lock);
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (shadow[path].pd)
			sh.real->dealloc_pd(shadow[path].pd);
	pthread_mutex_lock(&sh.lock);
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (shadow[path].pd)
			sh_nic_release(ctx->path[path], shadow[path].incarnation);
}

/* The real one goes first, as it knows whether something still lives in it; but its address may then
 * be another's at once, so it leaves the table before. */
static int pd_destroy(struct sh_pd *pd)
{
	struct ibv_context *context = pd->pd->context;
	int ret;

	pthread_mutex_unlock(&sh.lock);
	ret = sh.real->dealloc_pd(pd->pd);
	if (ret)
		ret = sh_ctx_destroy_result(context, ret);
	pthread_mutex_lock(&sh.lock);
	if (!ret && !list_empty(&pd->mrs)) /* a dead NIC does not say it */
		ret = EBUSY;
	if (ret) {
		if (sh_table_put(&sh.by_pd, pd->pd, pd))
			sh_error_once("no memory: a protection domain is not known any more");
		return ret;
	}
	pd_drop(pd);
	return 0;
}

int shift_dealloc_pd(struct ibv_pd *real)
{
	struct sh_pd *pd;
	bool known;
	int ret = 0;

	pthread_mutex_lock(&sh.lock);
	pd = sh_table_remove(&sh.by_pd, real);
	known = pd != NULL;
	if (known)
		ret = pd_destroy(pd);
	pthread_mutex_unlock(&sh.lock);
	return known ? ret : sh_parent_destroy(real);
}

/* ---- memory regions ------------------------------------------------------------------------- */

/* The application may close its own descriptor as soon as the region is registered. */
static int mr_fd_keep(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void mr_fd_close(const struct sh_mr *mr)
{
	if (mr->dmabuf && mr->fd >= 0)
		close(mr->fd);
}

static void mr_free(struct sh_mr *mr)
{
	mr_fd_close(mr);
	free(mr);
}

static struct sh_mr *mr_add(struct sh_pd *pd, struct ibv_mr *real, const struct sh_mr *request)
{
	struct sh_mr *mr = malloc(sizeof(*mr));
	uint8_t path;

	if (!mr)
		return NULL;
	*mr = *request;
	mr->mr = real;
	mr->pd = pd;
	for (path = 0; path < SC_MAX_PATHS; path++)
		list_init(&mr->shadow[path].link);
	if (sh_table_put(&sh.by_mr, real, mr)) {
		free(mr);
		return NULL;
	}
	list_add_tail(&pd->mrs, &mr->link);
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (pd_wanted(pd, path))
			mr_replay(mr, path);
	return mr;
}

/* What is recorded keeps the request's descriptor. */
static void mr_record(struct ibv_pd *real_pd, struct ibv_mr *real, const struct sh_mr *request)
{
	struct sh_pd *pd;
	struct sh_mr *mr;

	pthread_mutex_lock(&sh.lock);
	pd = sh_pd_find(real_pd);
	mr = pd ? mr_add(pd, real, request) : NULL;
	if (!mr)
		mr_fd_close(request);
	if (pd && !mr)
		pd_unprotect(pd, "no memory to keep a record of a region of it");
	if (pd)
		sh_key_wait(real->rkey);
	pthread_mutex_unlock(&sh.lock);
}

struct taken_mr {
	struct ibv_mr *mr;
	struct sh_nic *nic;
	uint32_t incarnation;
};

static uint32_t mr_take_shadows(struct sh_mr *mr, struct taken_mr taken[SC_MAX_PATHS])
{
	uint32_t n = 0;
	uint8_t path;

	for (path = 0; path < mr->pd->ctx->n_paths; path++) {
		taken[n] = (struct taken_mr){ .nic = mr->pd->ctx->path[path],
					      .incarnation = mr->shadow[path].incarnation };
		taken[n].mr = mr_take_shadow(mr, path);
		n += taken[n].mr != NULL;
	}
	return n;
}

/* Takes the shadows away; the lock is given up meanwhile. True: there were some. */
static bool mr_drop_shadows(struct sh_mr *mr)
{
	struct taken_mr taken[SC_MAX_PATHS];
	uint32_t n = mr_take_shadows(mr, taken), i;

	if (!n)
		return false;
	sh_job_begin(&mr->busy); /* keeps it in its list */
	pthread_mutex_unlock(&sh.lock);
	for (i = 0; i < n; i++)
		sh.real->dereg_mr(taken[i].mr);
	pthread_mutex_lock(&sh.lock);
	for (i = 0; i < n; i++)
		sh_nic_release(taken[i].nic, taken[i].incarnation);
	sh_job_end(&mr->busy);
	return true;
}

/* No job holds it any more, and none will. */
static void mr_leave(struct sh_mr *mr)
{
	mr->leaving = true;
	mr_replay_never(mr);
	sh_table_remove(&sh.by_mr, mr->mr);
	sh_wait_idle(&mr->busy);
}

static void mr_forget(struct sh_mr *mr)
{
	mr_leave(mr);
	mr_drop_shadows(mr);
	list_del(&mr->link);
	mr_free(mr);
}

/* Its context is closed while it lives. */
void sh_pd_forget(struct sh_pd *pd)
{
	sh_table_remove(&sh.by_pd, pd->pd);
	while (!list_empty(&pd->mrs))
		mr_forget(list_entry(pd->mrs.next, struct sh_mr, link));
	pd_drop(pd);
}

/* One that another thread waits for is that thread's. */
static bool pd_yield(struct sh_pd *pd)
{
	struct list_node *at;
	bool any = false;

	pd_unprotect(pd, "its memory on the NIC of the standby was given back to the job");
	for (at = pd->mrs.next; at != &pd->mrs; at = at->next) {
		struct sh_mr *mr = list_entry(at, struct sh_mr, link);

		any |= !mr->busy.jobs && mr_drop_shadows(mr);
	}
	return any;
}

/*
 * The application's own registration ran into a limit that shadows share: they yield, all of them,
 * and what they protected is unprotected from now on. True: something was given back. The lock is
 * given up on the way: whoever is held on to with a job stays in its list.
 */
static bool memory_yield(void)
{
	struct list_node *at, *ctx;
	bool any = false;

	for (ctx = sh.ctxs.next; ctx != &sh.ctxs; ctx = ctx->next) {
		struct list_node *pds = &list_entry(ctx, struct sh_ctx, link)->pds;

		for (at = pds->next; at != pds; at = at->next) {
			struct sh_pd *pd = list_entry(at, struct sh_pd, link);

			sh_job_begin(&pd->busy);
			any |= pd_yield(pd);
			sh_job_end(&pd->busy);
		}
	}
	return any;
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, const struct sh_mr *mr, bool iova2)
{
	if (iova2)
		return sh.real->reg_mr_iova2(pd, mr->addr, mr->length, mr->iova, mr->access);
	return sh.real->reg_mr(pd, mr->addr, mr->length, (int)mr->access);
}

/* ---- memory regions on a dead NIC ----------------------------------------------------------- */

static bool mr_can_be_made_up(const struct sh_pd *pd, const struct sh_mr *request, bool gone)
{
	return pd && !pd->unprotected && request->length && !(request->access & ~MADE_UP_ACCESS) &&
	       (gone || pd->ctx->death_masked) && sh_ctx_masked(pd->ctx);
}

/*
 * Programs register memory whenever they like, UCX for each large message. While the death of their
 * NIC is kept from them they get a region that is real on the other paths, where their connections
 * are, and that the NIC has never heard of.
 */
static struct ibv_mr *mr_register_without_nic(struct ibv_pd *real_pd, struct sh_mr *request)
{
	bool gone = sh_device_gone(real_pd->context); /* before its event is read */
	struct ibv_mr *mr = NULL;
	struct sh_pd *pd;

	request->made_up = true;
	pthread_mutex_lock(&sh.lock);
	pd = sh_pd_find(real_pd);
	if (mr_can_be_made_up(pd, request, gone))
		mr = sh_mr_make_up(real_pd, request);
	if (mr && !mr_add(pd, mr, request)) {
		free(mr);
		mr = NULL;
	}
	pthread_mutex_unlock(&sh.lock);
	if (!mr)
		errno = EIO;
	return mr;
}

/* ---- the verbs for memory regions ----------------------------------------------------------- */

/* A region that no other NIC can have: all that may use it is not protected. */
static void memory_unshadowed(struct ibv_pd *real, const char *why)
{
	struct sh_pd *pd;

	pthread_mutex_lock(&sh.lock);
	pd = sh_pd_find(real);
	if (pd) {
		sh_warn_once("connections of a protection domain are not protected: %s", why);
		pd_unprotect(pd, why);
	}
	pthread_mutex_unlock(&sh.lock);
}

struct ibv_mr *shift_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			    unsigned int access, bool iova2)
{
	struct sh_mr request = {
		.addr = addr, .length = length, .iova = iova, .access = access, .plain = !iova2
	};
	struct ibv_mr *real = mr_register(pd, &request, iova2);
	bool yielded;

	if (!real && errno == ENOMEM) {
		pthread_mutex_lock(&sh.lock);
		yielded = memory_yield();
		pthread_mutex_unlock(&sh.lock);
		if (yielded) {
			sh_warn_once(
				"no memory left to register for the job: the shadows on the "
				"backup NICs were given back, its connections are unprotected");
			real = mr_register(pd, &request, iova2);
		} else {
			errno = ENOMEM;
		}
	}
	if (real && access & IBV_ACCESS_ON_DEMAND)
		memory_unshadowed(pd, "it has memory that is paged on demand (ODP)");
	else if (real)
		mr_record(pd, real, &request);
	else if (errno == EIO)
		real = mr_register_without_nic(pd, &request);
	return real;
}

/* Memory of another device is registered on the backup NIC by the same buffer. */
struct ibv_mr *shift_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				   int fd, int access)
{
	struct sh_mr request = { .length = length,
				 .iova = iova,
				 .access = (unsigned int)access,
				 .dmabuf = true,
				 .offset = offset };
	struct ibv_mr *real;

	if (!sh.real->reg_dmabuf_mr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	real = sh.real->reg_dmabuf_mr(pd, offset, length, iova, fd, access);
	if (!real)
		return NULL;
	request.fd = mr_fd_keep(fd);
	if (request.fd < 0)
		memory_unshadowed(pd, "no descriptor was left to keep a dma-buf of it");
	else
		mr_record(pd, real, &request);
	return real;
}

/* What it was registered with, to be recorded anew. */
static struct sh_mr mr_request(const struct sh_mr *mr)
{
	return (struct sh_mr){ .addr = mr->addr,
			       .length = mr->length,
			       .iova = mr->iova,
			       .access = mr->access,
			       .plain = mr->plain,
			       .made_up = mr->made_up,
			       .dmabuf = mr->dmabuf,
			       .fd = mr->dmabuf ? mr_fd_keep(mr->fd) : -1,
			       .offset = mr->offset };
}

/*
 * Before the real region changes or goes: its shadow and its keys must not stay usable. Known: request
 * is what to record if it stays after all.
 */
static bool mr_take(struct ibv_mr *real, struct sh_mr *request)
{
	struct sh_mr *mr;
	bool known;

	pthread_mutex_lock(&sh.lock);
	mr = sh_table_get(&sh.by_mr, real);
	known = mr != NULL; /* a freed pointer says nothing */
	if (known) {
		*request = mr_request(mr);
		mr_forget(mr);
	}
	pthread_mutex_unlock(&sh.lock);
	return known;
}

/* As on stock, where the NIC does not answer. */
static int mr_rereg_made_up(struct ibv_mr *real, const struct sh_mr *request)
{
	mr_record(real->pd, real, request);
	errno = EIO;
	return IBV_REREG_MR_ERR_CMD;
}

int shift_rereg_mr(struct ibv_mr *real, int flags, struct ibv_pd *pd, void *addr, size_t length,
		   int access)
{
	struct sh_mr request;
	bool known;
	int ret;

	known = mr_take(real, &request);
	if (known && request.made_up)
		return mr_rereg_made_up(real, &request);
	ret = sh.real->rereg_mr(real, flags, pd, addr, length, access);
	if (!known)
		return ret;
	if (ret) { /* the old region may be valid still */
		mr_record(real->pd, real, &request);
		return ret;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		request.addr = addr;
		request.length = length;
		request.plain = true;
		mr_fd_close(&request);
		request.dmabuf = false;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		request.access = (unsigned int)access;
	mr_record(real->pd, real, &request);
	return 0;
}

/* Shadows of a region that goes: each on the worker of its NIC, while the NIC of the region itself
 * does its own. */
struct dereg_job {
	struct sh_job job;
	struct sh_busy *waiting;
	struct taken_mr taken;
};

static void dereg_run(struct sh_job *job)
{
	sh.real->thread_inside();
	sh.real->dereg_mr(((struct dereg_job *)job)->taken.mr);
}

static void dereg_done(struct sh_job *job)
{
	struct dereg_job *task = (struct dereg_job *)job;

	if (job->canceled)
		dereg_run(job);
	pthread_mutex_lock(&sh.lock);
	sh_nic_release(task->taken.nic, task->taken.incarnation);
	sh_job_end(task->waiting);
	pthread_mutex_unlock(&sh.lock);
}

/* Lock held, given up where the NIC's worker is busy, or takes no more work: not in line behind it. */
static void dereg_submit(struct dereg_job *task, struct sh_busy *waiting)
{
	struct sh_worker *worker = task->taken.nic->worker;

	task->job = (struct sh_job){ .fn = dereg_run, .done = dereg_done, .urgent = true };
	task->waiting = waiting;
	sh_job_begin(waiting);
	if (!sh_worker_busy_since_ns(worker) && !sh_worker_submit(worker, &task->job))
		return;
	pthread_mutex_unlock(&sh.lock);
	dereg_run(&task->job);
	dereg_done(&task->job);
	pthread_mutex_lock(&sh.lock);
}

/* Returns when region and shadows are gone: what the application frees then, nobody can write to. */
static int mr_dereg_known(struct sh_mr *mr)
{
	struct dereg_job tasks[SC_MAX_PATHS];
	struct taken_mr taken[SC_MAX_PATHS];
	struct ibv_mr *real = mr->mr;
	struct sh_busy waiting = { 0 };
	uint32_t n, i;
	int ret;

	mr_leave(mr);
	n = mr_take_shadows(mr, taken);
	list_del(&mr->link);
	mr_free(mr);
	for (i = 0; i < n; i++) {
		tasks[i].taken = taken[i];
		dereg_submit(&tasks[i], &waiting);
	}
	pthread_mutex_unlock(&sh.lock);
	ret = sh.real->dereg_mr(real);
	pthread_mutex_lock(&sh.lock);
	sh_wait_idle(&waiting);
	return ret;
}

int shift_dereg_mr(struct ibv_mr *real)
{
	struct ibv_context *context = real->context;
	struct sh_mr request = { 0 };
	struct sh_mr *mr;
	int ret = 0;

	pthread_mutex_lock(&sh.lock);
	mr = sh_table_get(&sh.by_mr, real);
	if (mr) {
		request = mr_request(mr);
		if (mr->made_up)
			mr_forget(mr);
		else
			ret = mr_dereg_known(mr);
	}
	pthread_mutex_unlock(&sh.lock);
	if (request.made_up) {
		free(real);
		return 0;
	}
	if (!mr)
		ret = sh.real->dereg_mr(real);
	if (ret)
		ret = sh_ctx_destroy_result(context, ret);
	if (ret && mr) /* a memory window is bound to it: it lives on */
		mr_record(real->pd, real, &request);
	else
		mr_fd_close(&request);
	return ret;
}
