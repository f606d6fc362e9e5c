/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A provider that differs, for probe.py: preloaded, it changes one operation of each device that is opened
 * afterwards, as ODD says. One thread, and one queue pair that posts.
 *
 *   acked   at the first flush, unsignaled requests that were acknowledged are flushed as well
 *   few     a send queue takes ten requests
 *   key     a WRITE of no bytes is checked as one of eight
 *   closed  nothing can be posted in the state ERR
 *   state   flushes come only while ibv_qp.state says ERR
 *   mixed   ibv_post_send() is refused on a queue pair made for ibv_wr_*
 *   number  no ibv_cq_ex tells the queue pair's number
 *   vendor  it is not libmlx5
 *   no-uc, no-windows       it has no queue pairs of UC, no memory windows
 *   slow, slow-binds        20 ms for each look at completions, and to bind a window
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST	64
#define SLOW_NS 20000000

static int (*real_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static int (*real_poll)(struct ibv_cq *, int, struct ibv_wc *);
static struct ibv_cq_ex *(*real_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
static int (*real_bind)(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);
static struct ibv_qp *sender;
static uint64_t unsignaled[MOST]; /* behind the last signaled request */
static struct ibv_wc kept[MOST];  /* flushes that are not told yet */
static unsigned n_unsignaled, n_kept, n_told, n_posted;

static bool is(const char *what)
{
	const char *odd = getenv("ODD");

	return odd && !strcmp(odd, what);
}

static int refuse(struct ibv_send_wr *wr, struct ibv_send_wr **bad, int err)
{
	*bad = wr;
	return err;
}

static int odd_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr longer = *wr;
	struct ibv_sge eight = *wr->sg_list;

	if (qp != sender)
		n_posted = n_unsignaled = 0;
	sender = qp;
	if (is("few") && n_posted++ == 10)
		return refuse(wr, bad, ENOMEM);
	if (is("closed") && qp->state == IBV_QPS_ERR)
		return refuse(wr, bad, EINVAL);
	if (is("mixed") && ibv_qp_to_qp_ex(qp))
		return refuse(wr, bad, EINVAL);
	if (!(wr->send_flags & IBV_SEND_SIGNALED) && qp->state != IBV_QPS_ERR &&
	    n_unsignaled < MOST)
		unsignaled[n_unsignaled++] = wr->wr_id;
	if (!is("key") || wr->num_sge)
		return real_post(qp, wr, bad);
	eight.length = 8;
	longer.sg_list = &eight;
	longer.num_sge = 1;
	return real_post(qp, &longer, bad);
}

static int tell(struct ibv_wc *wc)
{
	*wc = kept[n_told++];
	if (n_told == n_kept)
		n_told = n_kept = 0;
	return 1;
}

static void be_slow(void)
{
	const struct timespec nap = { .tv_nsec = SLOW_NS };

	nanosleep(&nap, NULL);
}

/* One at a time. */
static int odd_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	bool hidden = is("state") && sender && sender->state != IBV_QPS_ERR;

	if (is("slow"))
		be_slow();
	if (n_kept && !hidden)
		return tell(wc);
	if (real_poll(cq, 1, wc) != 1)
		return 0;
	if (wc->status != IBV_WC_WR_FLUSH_ERR || n_kept == MOST)
		return 1;
	if (hidden) {
		kept[n_kept++] = *wc;
		return 0;
	}
	if (!is("acked") || !n_unsignaled)
		return 1;
	for (unsigned i = 0; i < n_unsignaled; i++) {
		kept[n_kept] = *wc;
		kept[n_kept++].wr_id = unsignaled[i];
	}
	kept[n_kept++] = *wc;
	n_unsignaled = 0;
	return tell(wc);
}

static struct ibv_cq_ex *odd_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	if (!(attr->wc_flags & IBV_WC_EX_WITH_QP_NUM))
		return real_cq_ex(ctx, attr);
	errno = EOPNOTSUPP;
	return NULL;
}

static int odd_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	be_slow();
	return real_bind(qp, mw, bind);
}

static struct ibv_mw *no_window(struct ibv_pd *pd, enum ibv_mw_type type)
{
	errno = EOPNOTSUPP;
	return NULL;
}

__attribute__((visibility("default"))) struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
								    struct ibv_qp_init_attr *init)
{
	struct ibv_qp *(*real)(struct ibv_pd *, struct ibv_qp_init_attr *) =
		dlsym(RTLD_NEXT, "ibv_create_qp");

	if (!is("no-uc") || init->qp_type != IBV_QPT_UC)
		return real(pd, init);
	errno = EOPNOTSUPP;
	return NULL;
}

__attribute__((visibility("default"))) struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*real_open)(struct ibv_device *) = dlsym(RTLD_NEXT, "ibv_open_device");
	struct ibv_context *ctx = real_open(device);
	struct verbs_context *extended = ctx ? verbs_get_ctx(ctx) : NULL;

	if (!ctx)
		return NULL;
	real_post = ctx->ops.post_send;
	real_poll = ctx->ops.poll_cq;
	ctx->ops.post_send = odd_post;
	ctx->ops.poll_cq = odd_poll;
	real_bind = ctx->ops.bind_mw;
	if (is("slow-binds"))
		ctx->ops.bind_mw = odd_bind;
	if (is("no-windows"))
		ctx->ops.alloc_mw = no_window;
	if (extended && is("number")) {
		real_cq_ex = extended->create_cq_ex;
		extended->create_cq_ex = odd_cq_ex;
	}
	return ctx;
}

__attribute__((visibility("default"))) bool mlx5dv_is_supported(struct ibv_device *device)
{
	bool (*real)(struct ibv_device *) = dlsym(RTLD_NEXT, "mlx5dv_is_supported");

	return !is("vendor") && real(device);
}
