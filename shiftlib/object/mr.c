/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions: made, changed, recorded. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "providers/engine.h"
#include "shiftlib/base/aside.h"
#include "shiftlib/base/mapped.h"
#include "shiftlib/base/table.h"
#include "shiftlib/conn/atomics/home.h"
#include "shiftlib/conn/meet/unknown.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/loop/setup.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/mr.h"
#include "shiftlib/object/object.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/push.h"
#include "shiftlib/replica/young.h"

/* The rights that each NIC can give; all else is up to the NIC that cannot be asked. */
#define PLACEHOLDER_ACCESS                                                                         \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_RELAXED_ORDERING)

static const char mr_no_descriptor[] = "no file descriptor was left for a dma-buf of it";

/* The application may close its own descriptor as soon as the region is registered. */
static int mr_fd_keep(int fd)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	sh_aside_one(&kept);
	return kept;
}

void sh_mr_fd_close(const struct sh_mr *mr)
{
	if (mr->dmabuf && mr->fd >= 0)
		close(mr->fd);
}

void sh_mr_free(struct sh_mr *mr)
{
	sh_mr_fd_close(mr);
	free(mr);
}

static struct sh_mr *mr_add(struct sh_pd *pd, struct ibv_mr *real,
			    const struct sh_mr *request) SH_LOCKED
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
	mr->readable = false; /* not known */
	if (mr->access & (IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND))
		sh_home_region();
	pd->foreign += sh_push_concerns(mr);
	pd->unordered |= mr->dmabuf || mr->alone || (mr->access & IBV_ACCESS_RELAXED_ORDERING);
	sh_unknown_told(real->lkey);
	if (mr->alone)
		sh_alone_add(pd, mr->alone);
	sh_young_add(mr);
	return mr;
}

static enum sh_alone mr_alone(unsigned int access)
{
	return access & IBV_ACCESS_ON_DEMAND ? SH_ALONE_PAGED : SH_ALONE_NOT;
}

/* Records a region. The record keeps the request's descriptor. */
void sh_mr_record(struct ibv_pd *real_pd, struct ibv_mr *real, const struct sh_mr *request)
{
	struct sh_pd *pd;
	struct sh_mr *mr;

	sh_lock();
	pd = sh_pd_find(real_pd);
	mr = pd ? mr_add(pd, real, request) : NULL;
	if (!mr)
		sh_mr_fd_close(request);
	if (pd && !mr)
		sh_pd_unprotect(pd, "no memory to keep a record of a region of it");
	sh_setup_also();
	if (pd)
		sh_keys_wait(real->rkey);
	sh_unlock();
}

/* A region of the process' memory that has just been pinned. */
static void mr_record_mapped(struct ibv_pd *pd, struct ibv_mr *real, struct sh_mr *request)
{
	request->mapped = 0;
	request->foreign = false;
	if (!request->dmabuf && !request->alone)
		request->mapped = sh_mapped_told(request->addr, request->length, &request->foreign);
	sh_mr_record(pd, real, request);
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, const struct sh_mr *mr, bool iova2)
{
	if (iova2)
		return sh.real->reg_mr_iova2(pd, mr->addr, mr->length, mr->iova, mr->access);
	return sh.real->reg_mr(pd, mr->addr, mr->length, (int)mr->access);
}

/* ---- memory regions on a dead NIC ----------------------------------------------------------- */

static bool mr_may_be_placeholder(const struct sh_pd *pd, const struct sh_mr *request,
				  bool gone) SH_LOCKED
{
	return pd && !pd->unprotected && request->length &&
	       !(request->access & ~PLACEHOLDER_ACCESS) && (gone || pd->ctx->dead) &&
	       sh_ctx_masked(pd->ctx);
}

/*
 * Programs register memory whenever they like, UCX for each large message. While the death of their
 * NIC is kept from them they get a region that is real on the other paths, where their connections
 * are, and that the NIC has never heard of. A NIC that the kernel takes away executes requests for
 * a while when it takes no command any more: they would fail by that key, this end's and the
 * peer's. So the connections leave first.
 */
static struct ibv_mr *mr_register_without_nic(struct ibv_pd *real_pd, struct sh_mr *request)
{
	int error = errno;
	bool gone = sh_device_gone(real_pd->context); /* before its event is read */
	struct ibv_mr *mr = NULL;
	struct sh_pd *pd;

	request->placeholder = true;
	sh_lock();
	pd = sh_pd_find(real_pd);
	if (mr_may_be_placeholder(pd, request, gone)) {
		sh_ctx_leave(real_pd->context);
		pd = sh_pd_find(real_pd);
	}
	if (mr_may_be_placeholder(pd, request, gone))
		mr = sh_mr_placeholder(real_pd, request);
	if (mr && !mr_add(pd, mr, request)) {
		free(mr);
		mr = NULL;
	}
	sh_unlock();
	if (!mr)
		errno = error;
	return mr;
}

/* ---- the verbs for memory regions ----------------------------------------------------------- */

/* A region that no other NIC can have: all that may use it is not protected. */
static void mr_unshadowed(struct ibv_pd *real, const char *why)
{
	struct sh_pd *pd;

	sh_lock();
	pd = sh_pd_find(real);
	if (pd)
		sh_pd_unprotect(pd, why);
	sh_unlock();
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
	struct sh_yield yield = { pd->context, SH_YIELD_LATE };
	struct ibv_mr *real;

	do
		real = mr_register(pd, &request, iova2);
	while (!real && sh_yield(&yield));
	if (real)
		mr_record_mapped(pd, real, &request);
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
	struct sh_yield yield = { pd->context, SH_YIELD_LATE };
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
		sh_mr_record(pd, real, &request);
	return real;
}

/* Finds the flags with which the provider registered it; the other NIC has to have them too. */
static void mr_direct(struct ibv_pd *real, struct sh_mr *request, const void *driver)
{
	struct sh_pd *pd;
	bool driven;

	sh_lock();
	pd = sh_pd_find(real);
	driven = pd && pd->ctx->dev;
	sh_unlock();
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
		mr_record_mapped(pd, real, &request);
}

/* Returns what the region was registered with, to be recorded anew. */
struct sh_mr sh_mr_request(const struct sh_mr *mr)
{
	return (struct sh_mr){ .addr = mr->addr,
			       .length = mr->length,
			       .iova = mr->iova,
			       .access = mr->access,
			       .plain = mr->plain,
			       .placeholder = mr->placeholder,
			       .mapped = mr->mapped,
			       .alone = mr->alone,
			       .dmabuf = mr->dmabuf,
			       .foreign = mr->foreign,
			       .fd = mr->dmabuf ? mr_fd_keep(mr->fd) : -1,
			       .offset = mr->offset,
			       .direct = mr->direct };
}

/*
 * Takes the region out, before the real one changes or goes: its shadow and its keys must not
 * stay usable. Known: request is what to record if it stays after all.
 */
static bool mr_take(struct ibv_mr *real, struct sh_mr *request)
{
	struct sh_mr *mr;
	bool known;

	sh_lock();
	mr = sh_table_get(&sh_objects.by_mr, real);
	known = mr != NULL; /* a freed pointer says nothing */
	if (known) {
		*request = sh_mr_request(mr);
		sh_mr_forget(mr);
	}
	sh_unlock();
	return known;
}

/* Fails as on stock where the NIC does not answer. */
static int mr_rereg_placeholder(struct ibv_mr *real, const struct sh_mr *request)
{
	sh_mr_record(real->pd, real, request);
	errno = EIO;
	return IBV_REREG_MR_ERR_CMD;
}

int shift_rereg_mr(struct ibv_mr *real, int flags, struct ibv_pd *pd, void *addr, size_t length,
		   int access)
{
	struct sh_yield yield = { real->context, SH_YIELD_LATE };
	struct sh_mr request;
	bool known;
	int ret;

	known = mr_take(real, &request);
	if (known && request.placeholder)
		return mr_rereg_placeholder(real, &request);
	do
		ret = sh.real->rereg_mr(real, flags, pd, addr, length, access);
	while (ret == IBV_REREG_MR_ERR_CMD && sh_yield(&yield)); /* the old one is as it was */
	if (!known)
		return ret;
	if (ret) { /* the old region may be valid still */
		sh_mr_record(real->pd, real, &request);
		return ret;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		request.addr = addr;
		request.length = length;
		request.iova = (uintptr_t)addr; /* a provider passes that: the verb has none */
		request.plain = true;
		sh_mr_fd_close(&request);
		request.dmabuf = false;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		request.access = (unsigned int)access;
	if (request.alone <= SH_ALONE_PAGED || flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		request.alone = mr_alone(request.access);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		mr_record_mapped(real->pd, real, &request);
	else
		sh_mr_record(real->pd, real, &request);
	return 0;
}
