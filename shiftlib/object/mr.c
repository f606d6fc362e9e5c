/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions, and the end of their shadows on the NICs of the paths. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "providers/engine.h"
#include "shiftlib/base/table.h"
#include "shiftlib/conn/detector.h"
#include "shiftlib/conn/unknown.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/nic/command.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"

/* What each NIC can; all else is up to the NIC that cannot be asked. */
#define PLACEHOLDER_ACCESS                                                                         \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_RELAXED_ORDERING)

static const char mr_no_descriptor[] = "no file descriptor was left for a dma-buf of it";

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
	if (sh_table_put(&sh_objects.by_mr, real, mr)) {
		free(mr);
		return NULL;
	}
	list_add_tail(&pd->mrs, &mr->link);
	sh_unknown_told(real->lkey);
	if (mr->alone)
		sh_alone_come(pd, mr->alone);
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (sh_pd_wanted(pd, path))
			sh_mr_replay(mr, path);
		else if (pd->ctx->replica[path])
			sh_pd_lose_path(pd, path); /* it makes place for the application */
		else
			pd->shadow[path].asked = 0; /* whoever wants it asks for all regions */
	return mr;
}

static enum sh_alone mr_alone(unsigned int access)
{
	return access & IBV_ACCESS_ON_DEMAND ? SH_ALONE_PAGED : SH_ALONE_NOT;
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
		sh_pd_unprotect(pd, "no memory to keep a record of a region of it");
	sh_setup_also();
	if (pd)
		sh_keys_wait(real->rkey);
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
		taken[n].mr = sh_mr_take_shadow(mr, path);
		n += taken[n].mr != NULL;
	}
	return n;
}

/* The lock is given up meanwhile. */
static void mr_drop_taken(struct sh_mr *mr, const struct taken_mr *taken, uint32_t n)
{
	uint32_t i;

	if (!n)
		return;
	sh_job_begin(&mr->busy); /* keeps it in its list */
	sh_job_begin(&sh_objects.deregs);
	pthread_mutex_unlock(&sh.lock);
	for (i = 0; i < n; i++)
		sh.real->dereg_mr(taken[i].mr);
	pthread_mutex_lock(&sh.lock);
	for (i = 0; i < n; i++)
		sh_nic_release(taken[i].nic, taken[i].incarnation);
	sh_job_end(&sh_objects.deregs);
	sh_job_end(&mr->busy);
}

static void mr_drop_shadows(struct sh_mr *mr)
{
	struct taken_mr taken[SC_MAX_PATHS];

	mr_drop_taken(mr, taken, mr_take_shadows(mr, taken));
}

uint32_t sh_mr_drop_shadow(struct sh_mr *mr, uint8_t path)
{
	struct taken_mr taken = { .nic = mr->pd->ctx->path[path],
				  .incarnation = mr->shadow[path].incarnation };

	taken.mr = sh_mr_take_shadow(mr, path);
	mr_drop_taken(mr, &taken, taken.mr != NULL);
	return taken.mr != NULL;
}

/* No job holds it any more, and none will. */
static void mr_leave(struct sh_mr *mr)
{
	mr->leaving = true;
	if (mr->alone)
		sh_alone_leave(mr->pd, mr->alone);
	sh_mr_replay_never(mr);
	sh_unknown_told(mr->mr->lkey);
	sh_table_remove(&sh_objects.by_mr, mr->mr);
	sh_wait_idle(&mr->busy);
}

void sh_mr_forget(struct sh_mr *mr)
{
	mr_leave(mr);
	mr_drop_shadows(mr);
	list_del(&mr->link);
	mr_free(mr);
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, const struct sh_mr *mr, bool iova2)
{
	if (iova2)
		return sh.real->reg_mr_iova2(pd, mr->addr, mr->length, mr->iova, mr->access);
	return sh.real->reg_mr(pd, mr->addr, mr->length, (int)mr->access);
}

/* ---- memory regions on a dead NIC ----------------------------------------------------------- */

static bool mr_may_be_placeholder(const struct sh_pd *pd, const struct sh_mr *request, bool gone)
{
	return pd && !pd->unprotected && request->length &&
	       !(request->access & ~PLACEHOLDER_ACCESS) && (gone || pd->ctx->death_masked) &&
	       sh_ctx_masked(pd->ctx);
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

	request->placeholder = true;
	pthread_mutex_lock(&sh.lock);
	pd = sh_pd_find(real_pd);
	if (mr_may_be_placeholder(pd, request, gone))
		mr = sh_mr_placeholder(real_pd, request);
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
static void mr_unshadowed(struct ibv_pd *real, const char *why)
{
	struct sh_pd *pd;

	pthread_mutex_lock(&sh.lock);
	pd = sh_pd_find(real);
	if (pd)
		sh_pd_unprotect(pd, why);
	pthread_mutex_unlock(&sh.lock);
}

struct ibv_mr *shift_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			    unsigned int access, bool iova2)
{
	struct sh_mr request = { .addr = addr,
				 .length = length,
				 .iova = iova,
				 .access = access,
				 .plain = !iova2,
				 .alone = mr_alone(access) };
	struct sh_yield yield = { pd->context, SH_YIELD_NIC };
	struct ibv_mr *real;

	do
		real = mr_register(pd, &request, iova2);
	while (!real && sh_yield(&yield));
	if (real)
		mr_record(pd, real, &request);
	else if (sh_dead_device_error(errno))
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
	struct sh_yield yield = { pd->context, SH_YIELD_NIC };
	struct ibv_mr *real;

	if (!sh.real->reg_dmabuf_mr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	do
		real = sh.real->reg_dmabuf_mr(pd, offset, length, iova, fd, access);
	while (!real && sh_yield(&yield));
	if (!real)
		return NULL;
	request.fd = mr_fd_keep(fd);
	if (request.fd < 0)
		mr_unshadowed(pd, mr_no_descriptor);
	else
		mr_record(pd, real, &request);
	return real;
}

/* With what flags the provider registered it; the other NIC has to have them too. */
static void mr_direct(struct ibv_pd *real, struct sh_mr *request, const void *driver)
{
	struct sh_pd *pd;
	bool driven;

	pthread_mutex_lock(&sh.lock);
	pd = sh_pd_find(real);
	driven = pd && pd->ctx->dev;
	pthread_mutex_unlock(&sh.lock);
	if (driven && sp_dmabuf_flags(real->context, driver, &request->direct))
		request->alone = SH_ALONE_BUFFER;
}

void shift_mr_made(struct ibv_pd *pd, struct ibv_mr *real, const struct shift_region *region)
{
	struct sh_mr request = { .addr = region->addr,
				 .length = region->length,
				 .iova = region->iova,
				 .access = region->access,
				 .alone = mr_alone(region->access),
				 .dmabuf = region->kind == SHIFT_REGION_DMABUF,
				 .offset = region->offset };

	if (request.dmabuf) {
		request.fd = mr_fd_keep(region->fd);
		mr_direct(pd, &request, region->driver);
	}
	if (region->kind == SHIFT_REGION_DEVICE)
		request.alone = SH_ALONE_DEVICE;
	if (region->kind == SHIFT_REGION_IMPORTED)
		mr_unshadowed(pd, "it has memory that another process registered (ibv_import_mr)");
	else if (request.dmabuf && request.fd < 0)
		mr_unshadowed(pd, mr_no_descriptor);
	else
		mr_record(pd, real, &request);
}

/* What it was registered with, to be recorded anew. */
static struct sh_mr mr_request(const struct sh_mr *mr)
{
	return (struct sh_mr){ .addr = mr->addr,
			       .length = mr->length,
			       .iova = mr->iova,
			       .access = mr->access,
			       .plain = mr->plain,
			       .placeholder = mr->placeholder,
			       .alone = mr->alone,
			       .dmabuf = mr->dmabuf,
			       .fd = mr->dmabuf ? mr_fd_keep(mr->fd) : -1,
			       .offset = mr->offset,
			       .direct = mr->direct };
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
	mr = sh_table_get(&sh_objects.by_mr, real);
	known = mr != NULL; /* a freed pointer says nothing */
	if (known) {
		*request = mr_request(mr);
		sh_mr_forget(mr);
	}
	pthread_mutex_unlock(&sh.lock);
	return known;
}

/* As on stock, where the NIC does not answer. */
static int mr_rereg_placeholder(struct ibv_mr *real, const struct sh_mr *request)
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
	if (known && request.placeholder)
		return mr_rereg_placeholder(real, &request);
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
	if (request.alone <= SH_ALONE_PAGED || flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		request.alone = mr_alone(request.access);
	mr_record(real->pd, real, &request);
	return 0;
}

struct dereg_command {
	struct sh_command command;
	struct taken_mr taken;
};

static void dereg_run(struct sh_command *command)
{
	sh.real->dereg_mr(((struct dereg_command *)command)->taken.mr);
}

/* Returns when region and shadows are gone: what the application frees then, nobody can write to. */
static int mr_dereg_known(struct sh_mr *mr)
{
	struct dereg_command commands[SC_MAX_PATHS];
	struct taken_mr taken[SC_MAX_PATHS];
	struct ibv_mr *real = mr->mr;
	struct sh_busy waiting = { 0 };
	uint32_t n, i;
	int ret;

	mr_leave(mr);
	n = mr_take_shadows(mr, taken);
	list_del(&mr->link);
	mr_free(mr);
	sh_job_begin(&sh_objects.deregs);
	for (i = 0; i < n; i++) {
		commands[i] = (struct dereg_command){
			.command = { .nic = taken[i].nic, .run = dereg_run }, .taken = taken[i]
		};
		(void)sh_command_send(&commands[i].command, &waiting);
	}
	pthread_mutex_unlock(&sh.lock);
	for (i = 0; i < n; i++)
		if (!commands[i].command.sent)
			sh_command_here(&commands[i].command);
	ret = sh.real->dereg_mr(real);
	for (i = 0; i < n; i++)
		sh_command_back(&commands[i].command);
	pthread_mutex_lock(&sh.lock);
	sh_wait_idle(&waiting);
	for (i = 0; i < n; i++)
		sh_nic_release(taken[i].nic, taken[i].incarnation);
	sh_job_end(&sh_objects.deregs);
	return ret;
}

static int mr_dereg(void *object)
{
	struct ibv_mr *real = object;
	struct ibv_context *context = real->context;
	struct sh_mr request = { 0 };
	struct sh_mr *mr;
	int ret = 0;

	pthread_mutex_lock(&sh.lock);
	mr = sh_table_get(&sh_objects.by_mr, real);
	if (mr) {
		request = mr_request(mr);
		if (mr->placeholder)
			sh_mr_forget(mr);
		else
			ret = mr_dereg_known(mr);
	}
	pthread_mutex_unlock(&sh.lock);
	if (request.placeholder) {
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

/* ---- while a NIC may not obey --------------------------------------------------------------- */

/* On a NIC that does, as far as is known: what is being registered there, will be; and it is free to deregister. */
static bool mr_awaited(const struct sh_mr *mr)
{
	const struct sh_ctx *ctx = mr->pd->ctx;
	uint32_t k;

	for (k = 0; k < ctx->n_paths; k++)
		if (sh_nic_up(ctx->path[k]) && (mr->shadow[k].state == SH_SHADOW_QUEUED ||
						(mr->shadow[k].mr && !sh_nic_prompt(ctx->path[k]))))
			return true;
	return false;
}

static void mr_await(struct sh_mr *mr)
{
	sh_mr_replay_never(mr);
	while (mr_awaited(mr)) {
		sh_wait_some(SH_NS_PER_S);
		sh_detector_nics();
	}
}

/*
 * The application may free the memory when this returns: by then no NIC that obeys can reach it. One that
 * hangs has had the packet lifetime to write what it had taken before its connections left; the kernel
 * keeps the pages until it has deregistered them.
 */
static void mr_unreach(struct sh_mr *mr)
{
	struct sh_ctx *ctx = mr->pd->ctx;
	uint8_t path;

	mr->leaving = true;
	sh_job_begin(&mr->busy); /* keeps it */
	mr_await(mr);
	for (path = 0; path < ctx->n_paths; path++)
		if (sh_nic_up(ctx->path[path]))
			sh_mr_drop_shadow(mr, path);
	sh_job_end(&mr->busy);
}

/* Is anything of it on a NIC that may not obey? */
static bool mr_owes(const struct sh_mr *mr)
{
	const struct sh_ctx *ctx = mr->pd->ctx;
	uint32_t k;

	for (k = 0; k < ctx->n_paths; k++)
		if (!sh_nic_prompt(ctx->path[k]) && (!k || mr->shadow[k].mr || mr->busy.jobs))
			return true;
	return false;
}

int shift_dereg_mr(struct ibv_mr *real)
{
	struct sh_ctx *ctx;
	struct sh_mr *mr;
	bool later;
	int ret = 0;

	pthread_mutex_lock(&sh.lock);
	ctx = sh_ctx_find(real->context);
	later = sh_debts_kept(ctx);
	mr = later ? sh_table_get(&sh_objects.by_mr, real) : NULL;
	later = later && (!mr || mr_owes(mr));
	if (mr && later)
		mr_unreach(mr);
	if (later)
		ret = sh_debt_leave(ctx, mr_dereg, real, false);
	pthread_mutex_unlock(&sh.lock);
	return later ? ret : mr_dereg(real);
}
