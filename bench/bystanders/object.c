// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Contexts, completion channels, completion queues and shared receive queues: their making, and
 * their end.
 */
#include "bystanders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int answer(bool made)
{
	return made ? 0 : errno;
}

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **list;
	struct ibv_context *ctx = NULL;
	int n = 0;

	list = ibv_get_device_list(&n);
	errno = ENODEV;
	for (int i = 0; list && i < n && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

/* The entry of the same GID, which may have moved; of a context that is new, the first one. */
int context_find_gid(struct context *c)
{
	static const union ibv_gid none;
	bool any = !memcmp(&c->gid, &none, sizeof(none));
	struct ibv_gid_entry entry;

	for (uint32_t i = 0; i < GIDS; i++) {
		if (ibv_query_gid_ex(c->ctx, PORT, i, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    (!any && memcmp(&entry.gid, &c->gid, sizeof(c->gid))))
			continue;
		c->gid = entry.gid;
		c->gid_index = (int)i;
		return 0;
	}
	return ENOENT;
}

/* ctx ID DEVICE */
void context_open(char **word)
{
	struct context *c = &contexts[number(word[0])];
	struct ibv_port_attr port = { 0 };
	int rc;

	memset(c, 0, sizeof(*c));
	c->ctx = device_open(word[1]);
	if (!c->ctx) {
		reply("= errno %d", errno);
		return;
	}
	fcntl(c->ctx->async_fd, F_SETFL, fcntl(c->ctx->async_fd, F_GETFL) | O_NONBLOCK);
	rc = ibv_query_port(c->ctx, PORT, &port);
	c->lid = port.lid;
	if (!rc)
		rc = context_find_gid(c);
	c->pd = ibv_alloc_pd(c->ctx);
	reply("= open %d pd %d", rc, answer(c->pd));
}

/* close ID */
void context_close(char **word)
{
	struct context *c = &contexts[number(word[0])];
	int pd = c->pd ? ibv_dealloc_pd(c->pd) : 0, ctx = c->ctx ? ibv_close_device(c->ctx) : 0;

	memset(c, 0, sizeof(*c));
	reply("= pd %d ctx %d", pd, ctx);
}

/* channel ID CTX */
void channel_make(char **word)
{
	struct channel *c = &channels[number(word[0])];

	c->ctx = number(word[1]);
	c->channel = ibv_create_comp_channel(contexts[c->ctx].ctx);
	if (c->channel)
		fcntl(c->channel->fd, F_SETFL, fcntl(c->channel->fd, F_GETFL) | O_NONBLOCK);
	reply("= %d", answer(c->channel));
}

/* dropchannel ID */
void channel_drop(char **word)
{
	struct channel *c = &channels[number(word[0])];
	int rc = c->channel ? ibv_destroy_comp_channel(c->channel) : 0;

	c->channel = NULL;
	reply("= %d", rc);
}

/* cq ID CTX CHANNEL|-1 ENTRIES SOLICITED */
void queue_make(char **word)
{
	struct queue *q = &queues[number(word[0])];

	memset(q, 0, sizeof(*q));
	q->ctx = number(word[1]);
	q->channel = number(word[2]);
	q->solicited = number(word[4]);
	q->cq = ibv_create_cq(contexts[q->ctx].ctx, number(word[3]), q,
			      q->channel < 0 ? NULL : channels[q->channel].channel, 0);
	if (!q->cq)
		reply("= errno %d", errno);
	else
		reply("= entries %d", q->cq->cqe);
}

/* dropcq ID */
void queue_drop(char **word)
{
	struct queue *q = &queues[number(word[0])];
	int rc = q->cq ? ibv_destroy_cq(q->cq) : 0;

	q->cq = NULL;
	reply("= %d", rc);
}

int receives_init(struct receives *r, struct ibv_pd *pd)
{
	r->mem = calloc(SLOTS, SLOT);
	must(r->mem, "memory");
	r->mr = ibv_reg_mr(pd, r->mem, ZONE, IBV_ACCESS_LOCAL_WRITE);
	for (r->n_free = 0; r->n_free < SLOTS; r->n_free++)
		r->free[r->n_free] = SLOTS - 1 - r->n_free;
	return answer(r->mr);
}

void receives_uninit(struct receives *r)
{
	if (!r->mr || !ibv_dereg_mr(r->mr))
		free(r->mem); /* memory that a NIC may still write to stays */
	memset(r, 0, sizeof(*r));
}

/* srq ID CTX RECEIVES */
void srq_make(char **word)
{
	struct receives *r = &shared[number(word[0])];
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = (uint32_t)number(word[2]),
						    .max_sge = 1 } };
	struct context *c = &contexts[number(word[1])];
	int rc;

	memset(r, 0, sizeof(*r));
	r->ctx = number(word[1]);
	rc = receives_init(r, c->pd);
	r->srq = ibv_create_srq(c->pd, &attr);
	reply("= mr %d srq %d room %u", rc, answer(r->srq), attr.attr.max_wr);
}

/* dropsrq ID */
void srq_drop(char **word)
{
	struct receives *r = &shared[number(word[0])];
	int rc = r->srq ? ibv_destroy_srq(r->srq) : 0;

	receives_uninit(r);
	reply("= %d", rc);
}
