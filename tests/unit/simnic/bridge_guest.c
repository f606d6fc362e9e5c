/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "bridge_guest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "simnic/pci/bridge_space.h"

#define WAIT_SECS 20
#define SQ_OFFSET (GUEST_STRIDE << GUEST_LOG_RQ)
#define CQ_DB	  0x20
#define SQ_DB	  0x800
#define CQE	  64
#define STEP	  1237 /* odd, so that every page has its turn */
#define DMA	  0x5000000000ull
#define TWIST	  0x2a5000 /* so that neighbours of a kind are not neighbours of the other */

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void nap(void)
{
	const struct timespec ts = { .tv_nsec = 200000 };

	nanosleep(&ts, NULL);
}

/* ---- events --------------------------------------------------------------------------------- */

static void told(void *ctx, enum sn_bridge_event event, uint32_t number, uint32_t user)
{
	struct guest *guest = ctx;

	pthread_mutex_lock(&guest->lock);
	must(guest->told - guest->heard < GUEST_EVENTS);
	guest->event[guest->told++ % GUEST_EVENTS] = (struct guest_event){ event, number, user };
	pthread_mutex_unlock(&guest->lock);
}

bool guest_has_event(struct guest *guest)
{
	bool has;

	pthread_mutex_lock(&guest->lock);
	has = guest->told != guest->heard;
	pthread_mutex_unlock(&guest->lock);
	return has;
}

struct guest_event guest_event(struct guest *guest)
{
	uint64_t end = now_ms() + WAIT_SECS * 1000;
	struct guest_event event;

	while (!guest_has_event(guest)) {
		must(now_ms() < end);
		nap();
	}
	pthread_mutex_lock(&guest->lock);
	event = guest->event[guest->heard++ % GUEST_EVENTS];
	pthread_mutex_unlock(&guest->lock);
	return event;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void stray(void *ctx)
{
	((struct guest *)ctx)->strays++;
}

/* Also the other way round. */
static uint64_t twist(const struct guest *guest, uint64_t at)
{
	return guest->translated ? at ^ DMA ^ TWIST : at;
}

uint64_t guest_ram_of(const struct guest *guest, uint64_t dma)
{
	return twist(guest, dma);
}

uint8_t *guest_ram(const struct guest *guest, uint64_t dma)
{
	return guest->ram + twist(guest, dma);
}

void guest_map(struct guest *guest, uint64_t dma, uint64_t bytes, bool writable)
{
	for (uint64_t done = 0; done < bytes; done += GUEST_PAGE) {
		const struct sn_bridge_mapping mapping = { dma + done, GUEST_PAGE,
							   twist(guest, dma + done), writable };

		must(!sn_bridge_space_map(guest->bridge, &mapping));
	}
}

static void start(struct guest *guest, const char *fabric, uint32_t host, uint32_t nic,
		  bool translated)
{
	const uint64_t bytes = (uint64_t)GUEST_PAGES * GUEST_PAGE;
	struct sn_bridge_config config = { .ram_bytes = bytes,
					   .fabric = fabric,
					   .host = host,
					   .nic = nic,
					   .tell = told,
					   .stray = translated ? stray : NULL,
					   .ctx = guest };

	memset(guest, 0, sizeof(*guest));
	pthread_mutex_init(&guest->lock, NULL);
	guest->fd = memfd_create("guest", 0);
	must(guest->fd >= 0 && !ftruncate(guest->fd, (off_t)bytes));
	guest->ram = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, guest->fd, 0);
	must(guest->ram != MAP_FAILED);
	config.ram = guest->ram;
	config.ram_fd = guest->fd;
	must(!sn_bridge_new(&config, &guest->bridge));
	guest->translated = translated;
	if (translated)
		guest_map(guest, DMA, bytes, true);
}

void guest_start(struct guest *guest, const char *fabric, uint32_t host, uint32_t nic)
{
	start(guest, fabric, host, nic, false);
}

void guest_start_translated(struct guest *guest, const char *fabric, uint32_t host, uint32_t nic)
{
	start(guest, fabric, host, nic, true);
}

void guest_stop(struct guest *guest)
{
	sn_bridge_free(guest->bridge);
	munmap(guest->ram, (size_t)GUEST_PAGES * GUEST_PAGE);
	close(guest->fd);
	pthread_mutex_destroy(&guest->lock);
}

struct guest_buffer guest_pages(struct guest *guest, uint32_t pages)
{
	struct guest_buffer buffer = { .pages = pages };

	must(pages <= 64 && guest->given + pages <= GUEST_PAGES);
	for (uint32_t i = 0; i < pages; i++)
		buffer.page[i] =
			twist(guest, (uint64_t)(guest->given++ * STEP % GUEST_PAGES) * GUEST_PAGE);
	return buffer;
}

struct sn_bridge_pages guest_list(const struct guest_buffer *buffer)
{
	return (struct sn_bridge_pages){ .page = buffer->page, .n = buffer->pages, .shift = 12 };
}

void *guest_at(struct guest *guest, const struct guest_buffer *buffer, uint64_t offset)
{
	must(offset / GUEST_PAGE < buffer->pages);
	return guest_ram(guest, buffer->page[offset / GUEST_PAGE]) + offset % GUEST_PAGE;
}

static uint8_t byte_of(uint64_t offset, uint8_t seed)
{
	return (uint8_t)(offset * 7 + offset / 251 + seed);
}

void guest_fill(struct guest *guest, const struct guest_buffer *buffer, uint64_t bytes,
		uint8_t seed)
{
	for (uint64_t i = 0; i < bytes; i++)
		*(uint8_t *)guest_at(guest, buffer, i) = byte_of(i, seed);
}

bool guest_holds(struct guest *guest, const struct guest_buffer *buffer, uint64_t bytes,
		 uint8_t seed)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (*(uint8_t *)guest_at(guest, buffer, i) != byte_of(i, seed))
			return false;
	return true;
}

uint32_t guest_physical_key(struct guest *guest, uint8_t variant)
{
	const struct sn_bridge_key key = { .variant = variant,
					   .mode = SN_BRIDGE_PHYSICAL,
					   .any_length = true,
					   .pd = GUEST_PD,
					   .access = IBV_ACCESS_LOCAL_WRITE };
	uint32_t index;

	must(!sn_bridge_key_create(guest->bridge, &key, &index));
	return index << 8 | variant;
}

uint32_t guest_key(struct guest *guest, const struct guest_buffer *buffer, uint64_t start,
		   uint64_t bytes, uint32_t access, uint8_t variant)
{
	const struct sn_bridge_key key = { .variant = variant,
					   .mode = SN_BRIDGE_PAGES,
					   .pd = GUEST_PD,
					   .access = access,
					   .start = start,
					   .length = bytes,
					   .pages = guest_list(buffer) };
	uint32_t index;

	must(!sn_bridge_key_create(guest->bridge, &key, &index));
	return index << 8 | variant;
}

/* ---- completion queues ---------------------------------------------------------------------- */

static uint32_t *word_at(struct guest *guest, uint64_t at)
{
	return (uint32_t *)guest_ram(guest, at);
}

static void store(struct guest *guest, uint64_t at, uint32_t value)
{
	__atomic_store_n(word_at(guest, at), htobe32(value), __ATOMIC_RELEASE);
}

static struct mlx5_cqe64 *cqe_at(struct guest_cq *cq, uint32_t index)
{
	return guest_at(cq->guest, &cq->ring, (index & ((1u << GUEST_LOG_CQ) - 1)) * CQE);
}

void guest_cq_make(struct guest *guest, struct guest_cq *cq, uint32_t user)
{
	struct sn_bridge_cq attr = { .log_size = GUEST_LOG_CQ, .cqe_size = CQE, .user = user };

	memset(cq, 0, sizeof(*cq));
	cq->guest = guest;
	cq->ring = guest_pages(guest, (CQE << GUEST_LOG_CQ) / GUEST_PAGE);
	cq->record = guest_pages(guest, 1).page[0];
	for (uint32_t i = 0; i < 1u << GUEST_LOG_CQ; i++)
		cqe_at(cq, i)->op_own = MLX5_CQE_INVALID << 4;
	attr.pages = guest_list(&cq->ring);
	attr.record = cq->record;
	must(!sn_bridge_cq_create(guest->bridge, &attr, &cq->number));
}

static struct guest_completion completion_of(const struct mlx5_cqe64 *cqe)
{
	uint8_t opcode = cqe->op_own >> 4;
	bool failed = opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR;

	return (struct guest_completion){
		.opcode = opcode,
		.syndrome = failed ? ((const struct mlx5_err_cqe *)cqe)->syndrome : 0,
		.index = be16toh(cqe->wqe_counter),
		.bytes = be32toh(cqe->byte_cnt),
		.qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff,
		.imm = cqe->imm_inval_pkey,
		.source_qpn = be32toh(cqe->flags_rqpn) & 0xffffff,
	};
}

bool guest_poll(struct guest_cq *cq, struct guest_completion *wc)
{
	const struct mlx5_cqe64 *cqe = cqe_at(cq, cq->consumed);
	uint8_t own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

	if (own >> 4 == MLX5_CQE_INVALID || (own & 1) != (cq->consumed >> GUEST_LOG_CQ & 1))
		return false;
	*wc = completion_of(cqe);
	cq->consumed++;
	store(cq->guest, cq->record, cq->consumed & 0xffffff);
	return true;
}

struct guest_completion guest_wait(struct guest_cq *cq)
{
	uint64_t end = now_ms() + WAIT_SECS * 1000;
	struct guest_completion wc;

	while (!guest_poll(cq, &wc)) {
		must(now_ms() < end);
		nap();
	}
	return wc;
}

void guest_arm(struct guest_cq *cq)
{
	uint32_t word = (cq->arm_sn++ & 3) << 28 | (cq->consumed & 0xffffff);
	uint32_t bytes[2] = { htobe32(word), htobe32(cq->number) };
	uint64_t value;

	store(cq->guest, cq->record + 4, word);
	memcpy(&value, bytes, sizeof(value));
	sn_bridge_doorbell(cq->guest->bridge, GUEST_UAR, CQ_DB, value);
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

void guest_qp_make(struct guest *guest, struct guest_qp *qp, enum sn_bridge_transport transport,
		   const struct guest_cq *cq, uint32_t srq)
{
	struct sn_bridge_qp attr = {
		.transport = transport,
		.has_sq = true,
		.has_rq = !srq,
		.log_sq = GUEST_LOG_SQ,
		.log_rq = GUEST_LOG_RQ,
		.log_rq_stride = 6,
		.pd = transport == SN_BRIDGE_REG_UMR ? 0 : GUEST_PD, /* as Linux does */
		.send_cq = cq->number,
		.recv_cq = cq->number,
		.has_srq = srq,
		.srq = srq,
		.uar = GUEST_UAR,
		.user_index = 0x123456,
	};

	memset(qp, 0, sizeof(*qp));
	qp->guest = guest;
	qp->ring = guest_pages(guest, 2);
	qp->record = guest_pages(guest, 1).page[0];
	attr.pages = guest_list(&qp->ring);
	attr.record = qp->record;
	must(!sn_bridge_qp_create(guest->bridge, &attr, &qp->number));
}

static void step(struct guest_qp *qp, enum sn_bridge_transition transition,
		 const struct sn_bridge_qpc *qpc)
{
	must(!sn_bridge_qp_modify(qp->guest->bridge, qp->number, transition, 0, qpc));
}

void guest_connect(struct guest_qp *qp, struct sn_bridge *peer, uint32_t remote_qpn)
{
	struct sn_bridge_qpc qpc = {
		.path = { .port = 1, .ack_timeout = 14, .grh = true },
		.remote_qpn = remote_qpn,
		.qkey = 0x11111111,
		.next_send_psn = 0xfffff0,
		.next_rcv_psn = 0xfffff0,
		.mtu = IBV_MTU_4096,
		.retry_count = 7,
		.rnr_retry = 7,
		.min_rnr_nak = 1,
		.log_sra_max = 4,
		.log_rra_max = 4,
		.rre = true,
		.rwe = true,
		.rae = true,
	};
	struct sn_bridge_port port;

	sn_bridge_port(peer, &port);
	sn_bridge_gid(peer, 0, qpc.path.rgid);
	qpc.path.rlid = port.lid;
	step(qp, SN_BRIDGE_RST2INIT, &qpc);
	step(qp, SN_BRIDGE_INIT2RTR, &qpc);
	step(qp, SN_BRIDGE_RTR2RTS, &qpc);
}

static uint8_t *sq_at(struct guest_qp *qp, uint32_t wqebb, uint32_t offset)
{
	return guest_at(qp->guest, &qp->ring,
			SQ_OFFSET + (wqebb & ((1u << GUEST_LOG_SQ) - 1)) * 64 + offset);
}

static uint32_t put_remote(uint8_t *wqe, uint32_t at, const struct guest_request *request)
{
	struct mlx5_wqe_raddr_seg remote = { htobe64(request->remote), htobe32(request->rkey), 0 };
	struct mlx5_wqe_atomic_seg atomic = { htobe64(request->swap_add),
					      htobe64(request->compare) };

	if (request->av) {
		memcpy(wqe + at, request->av, sizeof(*request->av));
		return at + sizeof(*request->av);
	}
	if (request->opcode == MLX5_OPCODE_SEND || request->opcode == MLX5_OPCODE_SEND_IMM)
		return at;
	memcpy(wqe + at, &remote, sizeof(remote));
	at += sizeof(remote);
	if (request->opcode != MLX5_OPCODE_ATOMIC_FA && request->opcode != MLX5_OPCODE_ATOMIC_CS)
		return at;
	memcpy(wqe + at, &atomic, sizeof(atomic));
	return at + sizeof(atomic);
}

uint16_t guest_post_raw(struct guest_qp *qp, uint8_t opcode, uint8_t *wqe, uint32_t bytes)
{
	uint16_t index = qp->sq_pi;
	const uint32_t head[3] = { htobe32((uint32_t)index << 8 | opcode),
				   htobe32(qp->number << 8 | bytes / 16),
				   htobe32(MLX5_WQE_CTRL_CQ_UPDATE) };
	uint64_t value;

	memcpy(wqe, head, sizeof(head));
	for (uint32_t done = 0; done < bytes; done += 64)
		memcpy(sq_at(qp, qp->sq_pi++, 0), wqe + done,
		       bytes - done < 64 ? bytes - done : 64);
	store(qp->guest, qp->record + 4, qp->sq_pi);
	memcpy(&value, wqe, sizeof(value));
	sn_bridge_doorbell(qp->guest->bridge, GUEST_UAR, SQ_DB, value);
	return index;
}

/* Writes the request, its record and its doorbell. */
uint16_t guest_post(struct guest_qp *qp, const struct guest_request *request)
{
	struct mlx5_wqe_data_seg data = { htobe32(request->bytes), htobe32(request->lkey),
					  htobe64(request->local) };
	uint8_t wqe[128] = { 0 };
	uint32_t bytes = put_remote(wqe, 16, request);

	if (request->bytes) {
		memcpy(wqe + bytes, &data, sizeof(data));
		bytes += sizeof(data);
	}
	memcpy(wqe + 12, &request->imm, sizeof(request->imm));
	return guest_post_raw(qp, request->opcode, wqe, bytes);
}

void guest_post_recv(struct guest_qp *qp, uint32_t lkey, uint64_t at, uint32_t bytes)
{
	uint32_t place = qp->rq_pi++ & ((1u << GUEST_LOG_RQ) - 1);
	struct mlx5_wqe_data_seg seg[2] = {
		{ htobe32(bytes), htobe32(lkey), htobe64(at) },
		{ 0, htobe32(MLX5_INVALID_LKEY), 0 },
	};

	memcpy(guest_at(qp->guest, &qp->ring, place * GUEST_STRIDE), seg, sizeof(seg));
	store(qp->guest, qp->record, qp->rq_pi);
}
