/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The life of a control QP: opening, room for more, rest and closing. */
#include "shiftlib/control/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shiftlib/base/aside.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/facade/comp_channel.h"

/* ---- open ----------------------------------------------------------------------------------- */

static void control_log_failure(const struct sh_control *control, const char *step, int ret)
{
	sh_log(SH_LOG_WARN, "%s port %u: control QP: %s failed: %s; SHIFT does not use this NIC",
	       control_nic(control), control->port, step, strerror(-ret));
}

static const struct {
	uint32_t receives, send_bytes;
} control_sizes[CONTROL_PARTS] = {
	[CONTROL_FIRST] = { SH_CONTROL_RECEIVES_FIRST, SH_CONTROL_SEND_BYTES_FIRST },
	[CONTROL_WIDE] = { SH_CONTROL_RECEIVES - SH_CONTROL_RECEIVES_FIRST, SH_CONTROL_SEND_BYTES },
};

static size_t control_receive_bytes(enum control_part part)
{
	return (size_t)control_sizes[part].receives * RECEIVE_BYTES;
}

static size_t control_bytes(enum control_part part)
{
	return control_receive_bytes(part) + control_sizes[part].send_bytes;
}

/*
 * Own pages, as registered memory must not be shared with a forked child's heap; all populated at
 * once, as a NIC pins them.
 */
static int control_memory_init(struct sh_control *control, enum control_part part)
{
	struct control_memory *memory = &control->memory[part];
	void *buffer = mmap(NULL, control_bytes(part), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int ret;

	if (buffer == MAP_FAILED)
		return -errno;
	errno = 0;
	memory->mr = control->real->reg_mr(control->pd, buffer, control_bytes(part),
					   IBV_ACCESS_LOCAL_WRITE);
	if (!memory->mr) {
		ret = sh_errno_or(ENOMEM);
		munmap(buffer, control_bytes(part));
		return ret;
	}
	memory->buffer = buffer;
	return 0;
}

/* False: the NIC keeps it, and the memory stays. */
static bool control_memory_free(struct sh_control *control, enum control_part part)
{
	struct control_memory *memory = &control->memory[part];

	if (memory->mr && control->real->dereg_mr(memory->mr))
		return false;
	if (memory->buffer)
		munmap(memory->buffer, control_bytes(part));
	*memory = (struct control_memory){ 0 };
	return true;
}

/* Sends are copied into that part from now on. Those under way count no more. */
static void control_ring_begin(struct sh_control *control, enum control_part part)
{
	control->ring = (struct control_ring){ .at = control->memory[part].buffer +
						     control_receive_bytes(part),
					       .lkey = control->memory[part].mr->lkey,
					       .bytes = control_sizes[part].send_bytes };
}

static int control_init_buffer(struct sh_control *control)
{
	int ret = control_memory_init(control, CONTROL_FIRST);

	if (!ret)
		control_ring_begin(control, CONTROL_FIRST);
	return ret;
}

static int control_init_channel(struct sh_control *control)
{
	int flags;

	control->channel = control->real->create_comp_channel(control->context);
	if (!control->channel)
		return sh_errno_or(EIO);
	sh_aside_one(&control->channel->fd);
	flags = fcntl(control->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(control->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

static int control_init_cqs(struct sh_control *control)
{
	const struct shift_real *real = control->real;

	control->recv_cq =
		real->create_cq(control->context, SH_CONTROL_RECEIVES, NULL, control->channel, 0);
	if (!control->recv_cq)
		return sh_errno_or(EIO);
	control->send_cq = real->create_cq(control->context, SH_CONTROL_SENDS, NULL, NULL, 0);
	return control->send_cq ? 0 : sh_errno_or(EIO);
}

static int control_modify_qp(struct sh_control *control)
{
	const struct shift_real *real = control->real;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .pkey_index = control->address.pkey_index,
				    .port_num = control->port,
				    .qkey = control->address.qkey };
	int ret;

	ret = real->modify_qp(control->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	if (ret)
		return -ret;
	attr.qp_state = IBV_QPS_RTR;
	ret = real->modify_qp(control->qp, &attr, IBV_QP_STATE);
	if (ret)
		return -ret;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = (uint32_t)sh_random_u64() & 0xffffff;
	return -real->modify_qp(control->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static int control_init_qp(struct sh_control *control)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = control->send_cq,
		.recv_cq = control->recv_cq,
		.cap = { .max_send_wr = SH_CONTROL_SENDS,
			 .max_recv_wr = SH_CONTROL_RECEIVES,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};

	control->qp = control->real->create_qp(control->pd, &attr);
	if (!control->qp)
		return sh_errno_or(EIO);
	control->address.qpn = control->qp->qp_num;
	control->address.qkey = (uint32_t)sh_random_u64() & ~QKEY_PRIVILEGED;
	return control_modify_qp(control);
}

static int control_post_from(struct sh_control *control, uint64_t slot, uint64_t end)
{
	int ret = 0;

	for (; slot < end && !ret; slot++)
		ret = sh_control_post_receive(control, slot);
	return ret;
}

static int control_post_receives(struct sh_control *control)
{
	return control_post_from(control, 0,
				 sh_control_wide(control) ? SH_CONTROL_RECEIVES
							  : SH_CONTROL_RECEIVES_FIRST);
}

static int control_init_address(struct sh_control *control)
{
	int ret = sh_address_query(control->real, control->context, control->port, NULL,
				   &control->address, &control->grh_required);

	if (ret)
		return ret;
	sh_pkeys_read(control->real, control->context, control->port, &control->pkeys);
	control->address.pkey_index = sh_pkeys_own_index(&control->pkeys);
	return 0;
}

static int control_init_pd(struct sh_control *control)
{
	control->pd = control->real->alloc_pd(control->context);
	return control->pd ? 0 : sh_errno_or(EIO);
}

static const struct {
	const char *name;
	int (*init)(struct sh_control *control);
} control_steps[] = {
	{ "asking for the port's address", control_init_address },
	{ "allocating a protection domain", control_init_pd },
	{ "registering memory", control_init_buffer },
	{ "creating a completion channel", control_init_channel },
	{ "creating completion queues", control_init_cqs },
	{ "creating a UD queue pair", control_init_qp },
	{ "posting receives", control_post_receives },
	{ "arming the completion queue", sh_control_arm },
};

int sh_control_open(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		    struct sh_control **out)
{
	struct sh_control *control = calloc(1, sizeof(*control));
	size_t i;
	int ret;

	if (!control)
		return -ENOMEM;
	control->real = real;
	control->context = context;
	control->port = port;
	pthread_mutex_init(&control->lock, NULL);
	for (i = 0; i < sizeof(control_steps) / sizeof(control_steps[0]); i++) {
		errno = 0;
		ret = control_steps[i].init(control);
		if (ret) {
			control_log_failure(control, control_steps[i].name, ret);
			sh_control_close(control);
			return ret;
		}
	}
	*out = control;
	return 0;
}

/* ---- room for more -------------------------------------------------------------------------- */

/*
 * Sends that are under way keep their bytes in the first part, whose ring is used no more. Receives
 * are posted behind the store of wide, as they may complete at once.
 */
int sh_control_widen(struct sh_control *control)
{
	int ret;

	if (sh_control_wide(control) || sh_control_rests(control))
		return 0;
	ret = control_memory_init(control, CONTROL_WIDE);
	if (ret)
		return ret;
	pthread_mutex_lock(&control->lock);
	control_ring_begin(control, CONTROL_WIDE);
	pthread_mutex_unlock(&control->lock);
	atomic_store_explicit(&control->wide, true, memory_order_release);
	atomic_store_explicit(&control->tight, false, memory_order_relaxed);
	return control_post_from(control, SH_CONTROL_RECEIVES_FIRST, SH_CONTROL_RECEIVES);
}

/* ---- rest ----------------------------------------------------------------------------------- */

void sh_control_rest_begin(struct sh_control *control)
{
	atomic_store_explicit(&control->rests, true, memory_order_release);
}

/* Drops completions, which name buffers that are gone. */
static void control_forget(struct ibv_cq *cq)
{
	struct ibv_wc wc[POLL_BATCH];

	while (ibv_poll_cq(cq, POLL_BATCH, wc) > 0)
		;
}

static void control_free_buffers(struct sh_control *control)
{
	control_memory_free(control, CONTROL_FIRST);
	if (control_memory_free(control, CONTROL_WIDE))
		atomic_store_explicit(&control->wide, false, memory_order_release);
}

void sh_control_rest(struct sh_control *control)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	pthread_mutex_lock(&control->lock);
	if (!control->real->modify_qp(control->qp, &attr, IBV_QP_STATE)) {
		control_forget(control->send_cq);
		control_forget(control->recv_cq);
		control_free_buffers(control);
	}
	control->ring = (struct control_ring){ 0 }; /* a send that comes in between finds no room */
	control->sends_posted = control->sends_done = 0;
	control->proof_at = control->waiting_since = 0;
	pthread_mutex_unlock(&control->lock);
}

int sh_control_wake(struct sh_control *control)
{
	struct control_memory *first = &control->memory[CONTROL_FIRST];
	int ret = first->mr ? 0 : control_memory_init(control, CONTROL_FIRST);

	if (!ret) {
		control_ring_begin(control,
				   sh_control_wide(control) ? CONTROL_WIDE : CONTROL_FIRST);
		atomic_store_explicit(&control->tight, false, memory_order_relaxed);
	}
	if (!ret)
		ret = control_modify_qp(control);
	if (!ret)
		ret = control_post_receives(control);
	if (!ret)
		ret = sh_control_arm(control);
	if (!ret)
		atomic_store_explicit(&control->rests, false, memory_order_release);
	return ret;
}

bool sh_control_astray(struct sh_control *control, const struct sh_pkeys *pkeys)
{
	struct sh_address address;

	sh_control_address(control, &address);
	return address.pkey_index != sh_pkeys_own_index(pkeys);
}

int sh_control_repartition(struct sh_control *control, const struct sh_pkeys *pkeys)
{
	sh_control_rest(control);
	pthread_mutex_lock(&control->lock);
	control->address.pkey_index = sh_pkeys_own_index(pkeys);
	pthread_mutex_unlock(&control->lock);
	return sh_control_wake(control);
}

/* ---- close ---------------------------------------------------------------------------------- */

/*
 * Closes the control QP. On a dead NIC a destroy may fail: then all that the object needs must
 * stay, and memory stays mapped. The channel is only a descriptor here, and goes.
 */
void sh_control_close(struct sh_control *control)
{
	const struct shift_real *real = control->real;
	bool kept = control->qp && real->destroy_qp(control->qp);
	enum control_part part;

	if (!kept && control->send_cq)
		real->destroy_cq(control->send_cq);
	if (control->recv_cq && (kept || real->destroy_cq(control->recv_cq))) {
		kept = true;
		sh_comp_channel_remove(control->recv_cq);
	}
	if (control->channel)
		real->destroy_comp_channel(control->channel);
	for (part = CONTROL_FIRST; part < CONTROL_PARTS && !kept; part++)
		kept = !control_memory_free(control, part);
	if (!kept && control->pd)
		real->dealloc_pd(control->pd);
	pthread_mutex_destroy(&control->lock);
	free(control);
}
