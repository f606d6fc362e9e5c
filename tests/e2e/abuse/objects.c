// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Objects and attributes that few programs use: they answer as on stock, also after a move. */
#include "abuse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- query: what the application set is what it is told ------------------------------------- */

enum { QUERY_ALL = (1 << 21) - 1 };

struct queried {
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
};

static void query(struct conn *c, struct queried *q)
{
	memset(q, 0, sizeof(*q));
	must_zero(ibv_query_qp(c->qp, &q->attr, QUERY_ALL, &q->init), "ibv_query_qp");
}

#define SAME(field) must(a->field == b->field, #field " as it was set")

static void same_address(const struct ibv_ah_attr *a, const struct ibv_ah_attr *b)
{
	must(!memcmp(&a->grh.dgid, &b->grh.dgid, sizeof(a->grh.dgid)), "dgid as it was set");
	SAME(grh.flow_label);
	SAME(grh.sgid_index);
	SAME(grh.hop_limit);
	SAME(grh.traffic_class);
	SAME(dlid);
	SAME(sl);
	SAME(src_path_bits);
	SAME(static_rate);
	SAME(is_global);
	SAME(port_num);
}

static void same_caps(const struct ibv_qp_cap *a, const struct ibv_qp_cap *b)
{
	SAME(max_send_wr);
	SAME(max_recv_wr);
	SAME(max_send_sge);
	SAME(max_recv_sge);
	SAME(max_inline_data);
}

static void same_attr(const struct ibv_qp_attr *a, const struct ibv_qp_attr *b)
{
	SAME(qp_state);
	SAME(cur_qp_state);
	SAME(path_mtu);
	SAME(path_mig_state);
	SAME(qkey);
	SAME(dest_qp_num);
	SAME(qp_access_flags);
	SAME(pkey_index);
	SAME(en_sqd_async_notify);
	SAME(sq_draining);
	SAME(max_rd_atomic);
	SAME(max_dest_rd_atomic);
	SAME(min_rnr_timer);
	SAME(port_num);
	SAME(timeout);
	SAME(retry_cnt);
	SAME(rnr_retry);
	SAME(rate_limit);
	same_caps(&a->cap, &b->cap);
	same_address(&a->ah_attr, &b->ah_attr);
}

static void same_init(const struct ibv_qp_init_attr *a, const struct ibv_qp_init_attr *b)
{
	SAME(qp_context);
	SAME(send_cq);
	SAME(recv_cq);
	SAME(srq);
	SAME(qp_type);
	SAME(sq_sig_all);
	same_caps(&a->cap, &b->cap);
}

/* Between two words of the runner the NIC in use fails, one time after the other. */
void run_query(void)
{
	struct queried first, now;
	struct nic nic;
	struct conn c;
	int round;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	conn_talk(&c, 20);
	query(&c, &first);
	must(first.attr.qp_state == IBV_QPS_RTS, "a QP in RTS");
	must(first.attr.dest_qp_num == c.peer.qpn, "the peer's number");
	for (round = 0; round < opt.rounds; round++) {
		say("CONNECTED %d", round);
		hear("go");
		conn_talk(&c, 100);
		query(&c, &now);
		same_attr(&first.attr, &now.attr);
		same_init(&first.init, &now.init);
		meet();
	}
	conn_free(&c);
	nic_close(&nic);
}

/* ---- no receive queue ----------------------------------------------------------------------- */

static void bare_make(struct conn *c, struct nic *nic)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = DEPTH, .max_send_sge = 1 } };

	conn_make(c, nic);
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(nic->pd, &init);
	must(c->qp, "ibv_create_qp without receives");
	must(!init.cap.max_recv_wr, "no receives granted");
}

/* Only every fourth is signaled. */
static void bare_write(struct conn *c, uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)c->mem + number % DEPTH * PART, PART, c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = number,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = number % 4 == 3 ? IBV_SEND_SIGNALED : 0,
				  .wr.rdma = { c->peer.addr + AREA + number % DEPTH * PART,
					       c->peer.rkey } },
			   *bad;

	memcpy((void *)(uintptr_t)sge.addr, &number, sizeof(number));
	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

static void bare_talk(struct conn *c, uint64_t from, uint64_t n)
{
	struct ibv_wc wc;
	uint64_t number;

	for (uint64_t i = from; i < from + n; i++) {
		bare_write(c, i);
		if (i % 4 != 3)
			continue;
		must(!conn_poll(c, &wc), "a good completion");
		must(wc.wr_id == i, "send completions in order");
	}
	meet();
	for (uint64_t i = from; i < from + n; i++) {
		memcpy(&number, c->mem + AREA + i % DEPTH * PART, sizeof(number));
		must(number == i, "what the peer wrote");
	}
	meet();
}

/* --rounds 0: until the runner says a word more. */
void run_bare(void)
{
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	bare_make(&c, &nic);
	conn_connect_bare(&c);
	bare_talk(&c, 0, DEPTH);
	say("CONNECTED");
	hear("go");
	for (uint64_t i = 1; opt.rounds ? i <= (uint64_t)opt.rounds : !both_told(); i++)
		bare_talk(&c, i * DEPTH, DEPTH);
	conn_free(&c);
	nic_close(&nic);
}

/* ---- parent domain, thread domain ----------------------------------------------------------- */

enum { TDS = 2, IN_TD = 2 }; /* each with its own doorbell register, which its queue pairs share */

static void domain_make(struct nic *nic, struct ibv_td **td, struct nic *inside)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr attr = { .pd = nic->pd };

	*td = attr.td = ibv_alloc_td(nic->ctx, &td_attr);
	must(*td, "ibv_alloc_td");
	*inside = *nic;
	inside->pd = ibv_alloc_parent_domain(nic->ctx, &attr);
	must(inside->pd, "ibv_alloc_parent_domain");
}

static void domains_talk(struct conn *c, uint64_t rounds)
{
	for (uint64_t n = 0; n < rounds; n++)
		for (int i = 0; i < TDS * IN_TD; i++)
			conn_talk(&c[i], 10);
}

/* Memory too is registered there, and a queue pair without a thread domain is beside them. */
void run_domains(void)
{
	struct conn c[TDS * IN_TD], plain;
	struct nic nic, inside[TDS];
	struct ibv_td *td[TDS];
	int i;

	nic_open(&nic, opt.dev);
	conn_make(&plain, &nic);
	conn_connect(&plain);
	for (i = 0; i < TDS; i++)
		domain_make(&nic, &td[i], &inside[i]);
	for (i = 0; i < TDS * IN_TD; i++) {
		conn_make(&c[i], &inside[i % TDS]);
		conn_connect(&c[i]);
	}
	domains_talk(c, 5);
	for (i = 0; i < 3; i++) {
		say("CONNECTED %d", i);
		hear("go");
		domains_talk(c, 20);
		conn_talk(&plain, 100);
	}
	meet();
	for (i = 0; i < TDS * IN_TD; i++) {
		must(ibv_dealloc_td(td[i % TDS]) == EBUSY, "a thread domain that is in use stays");
		conn_free(&c[i]);
	}
	for (i = 0; i < TDS; i++) {
		must_zero(ibv_dealloc_pd(inside[i].pd), "ibv_dealloc_pd of the parent domain");
		must_zero(ibv_dealloc_td(td[i]), "ibv_dealloc_td");
	}
	conn_free(&plain);
	nic_close(&nic);
}

/* ---- memory windows ------------------------------------------------------------------------- */

/* Made and freed while the connection lives: nothing of it is bound, so it stays protected. */
void run_windows(void)
{
	static const enum ibv_mw_type types[] = { IBV_MW_TYPE_1, IBV_MW_TYPE_2 };
	struct ibv_device_attr attr;
	struct ibv_mw *mw;
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	must_zero(ibv_query_device(nic.ctx, &attr), "ibv_query_device");
	say("WINDOWS %d of type %d", attr.max_mw, attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	conn_make(&c, &nic);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		mw = ibv_alloc_mw(nic.pd, types[i]);
		must(mw, "ibv_alloc_mw");
		say("WINDOWS type %d: made", (int)types[i]);
		must_zero(ibv_dealloc_mw(mw), "ibv_dealloc_mw");
	}
	conn_connect(&c);
	say("CONNECTED");
	hear("go");
	conn_talk(&c, 50);
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- ECE ------------------------------------------------------------------------------------ */

static void ece_say(struct conn *c, const char *when)
{
	struct ibv_ece ece = { 0 };
	int ret = ibv_query_ece(c->qp, &ece);

	say("ECE %s: %d vendor 0x%x options 0x%x mask 0x%x", when, ret, ece.vendor_id, ece.options,
	    ece.comp_mask);
}

/* Says what it saw; the runner compares with what it says on stock. */
void run_ece(void)
{
	struct ibv_ece ece = { 0 }, other = { .vendor_id = 0x1234 };
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	ece_say(&c, "made");
	ibv_query_ece(c.qp, &ece);
	say("ECE set: %d", ibv_set_ece(c.qp, &ece));
	say("ECE of another vendor: %d", ibv_set_ece(c.qp, &other));
	conn_connect(&c);
	ece_say(&c, "connected");
	conn_talk(&c, 20);
	say("CONNECTED");
	hear("go");
	conn_talk(&c, 100);
	ece_say(&c, "later");
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- events of a QP: destroy waits until they are acknowledged ------------------------------ */

static atomic_bool events_destroyed;

static void *events_destroy(void *arg)
{
	struct conn *c = arg;

	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	atomic_store(&events_destroyed, true);
	return NULL;
}

/* A WRITE to memory that is not the peer's: the peer's QP is told of it. */
static void events_offend(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, PART, c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { c->peer.addr, c->peer.rkey ^ 0x5500 } },
			   *bad;
	struct ibv_wc wc;

	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
	do {
		must(conn_poll(c, &wc) == IBV_WC_REM_ACCESS_ERR || (wc.opcode & IBV_WC_RECV),
		     "a remote access error");
	} while (wc.opcode & IBV_WC_RECV);
}

static void events_await(struct conn *c)
{
	struct ibv_async_event event;
	pthread_t thread;
	void *none;

	must_zero(ibv_get_async_event(c->nic->ctx, &event), "ibv_get_async_event");
	must(event.event_type == IBV_EVENT_QP_ACCESS_ERR, "an access error");
	must(event.element.qp == c->qp, "of this QP");
	must_zero(pthread_create(&thread, NULL, events_destroy, c), "a thread");
	usleep(200000);
	must(!atomic_load(&events_destroyed), "a QP that outlives its unacknowledged event");
	ibv_ack_async_event(&event);
	must_zero(pthread_join(thread, &none), "pthread_join");
	must(atomic_load(&events_destroyed), "a QP that is gone");
}

void run_events(void)
{
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	conn_talk(&c, 20);
	meet();
	say("CONNECTED");
	hear("go");
	if (opt.server) {
		events_await(&c);
		c.qp = NULL;
	} else {
		events_offend(&c);
	}
	meet();
	if (c.qp)
		must_zero(ibv_destroy_qp(c.qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c.cq), "ibv_destroy_cq");
	must_zero(ibv_dereg_mr(c.mr), "ibv_dereg_mr");
	free(c.mem);
	nic_close(&nic);
}

/* ---- memory beside a connection --------------------------------------------------------------- */

static struct ibv_mr *region(struct nic *nic, size_t size, int access)
{
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_mr *mr;

	must(mem != MAP_FAILED, "mmap");
	mr = ibv_reg_mr(nic->pd, mem, size, IBV_ACCESS_LOCAL_WRITE | access);
	must(mr, "ibv_reg_mr");
	return mr;
}

static void region_free(struct ibv_mr *mr)
{
	void *mem = mr->addr;
	size_t size = mr->length;

	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	must_zero(munmap(mem, size), "munmap");
}

/* The first region is made before the connection, the second when the runner has seen it. */
static void run_with_regions(size_t first, size_t second, int access)
{
	struct ibv_mr *before, *after;
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	before = region(&nic, first, 0);
	conn_make(&c, &nic);
	conn_connect(&c);
	say("CONNECTED");
	hear("go");
	after = region(&nic, second, access);
	say("REGISTERED");
	hear("talk");
	meet();
	conn_talk(&c, 200);
	meet();
	region_free(after);
	say("FREED");
	hear("end");
	conn_free(&c);
	region_free(before);
	nic_close(&nic);
}

/*
 * Of the 26 MiB that the runner allows: the first fits with its shadows of both NICs, the second does
 * only without.
 */
void run_more_memory(void)
{
	run_with_regions(8 << 20, 10 << 20, 0);
}

void run_on_demand(void)
{
	run_with_regions(4096, 4096, IBV_ACCESS_ON_DEMAND);
}

/* ---- dma-buf: a connection's memory is a file's, whose descriptor is closed at once ----------------- */

static void conn_use_buffer(struct conn *c, struct nic *nic)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	int fd = memfd_create("buffer", MFD_CLOEXEC);

	must(fd >= 0, "memfd_create");
	must_zero(ibv_dereg_mr(c->mr), "ibv_dereg_mr");
	free(c->mem);
	must_zero(ftruncate(fd, 4096 + 2 * AREA), "ftruncate");
	c->mem = mmap(NULL, 2 * AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	must(c->mem != MAP_FAILED, "mmap");
	c->mr = ibv_reg_dmabuf_mr(nic->pd, 4096, 2 * AREA, (uintptr_t)c->mem, fd, access);
	must(c->mr, "ibv_reg_dmabuf_mr");
	must_zero(close(fd), "close");
}

/* Of the buffer alone: others come and go in the background. */
static int open_descriptors(void)
{
	char path[32], target[64];
	int fd, n = 0;
	ssize_t len;

	for (fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		target[len < 0 ? 0 : len] = 0;
		n += strstr(target, "memfd:buffer") != NULL;
	}
	return n;
}

void run_dmabuf(void)
{
	struct nic nic;
	struct conn c;
	int before;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_use_buffer(&c, &nic);
	conn_connect(&c);
	say("CONNECTED");
	hear("go");
	conn_talk(&c, 20000);
	meet();
	must_zero(ibv_destroy_qp(c.qp), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(c.cq), "ibv_destroy_cq");
	before = open_descriptors();
	must_zero(ibv_dereg_mr(c.mr), "ibv_dereg_mr");
	say("CLOSED %d", before - open_descriptors());
	must_zero(munmap(c.mem, 2 * AREA), "munmap");
	nic_close(&nic);
}

/* ---- teardown: whom a NIC can still write to -------------------------------------------------- */

enum { TEARDOWNS = 500, LOOKS = 40 };

/* How many could write to it after so many looks; none may soon after it is deregistered. */
static unsigned int register_and_not(struct nic *nic, uint8_t *mem, unsigned int looks, bool until)
{
	struct ibv_mr *mr = ibv_reg_mr(nic->pd, mem, PART, IBV_ACCESS_LOCAL_WRITE);
	unsigned int seen;

	must(mr, "ibv_reg_mr");
	if (until)
		await_shadow(mem, PART);
	do
		seen = reachable(mem, PART);
	while (looks--);
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	await_unreachable(mem, PART);
	return seen;
}

/* A child has its own copy of the memory, and nothing of the NICs: it changes nothing here. */
static void register_and_fork(struct nic *nic, uint8_t *mem)
{
	struct ibv_mr *mr = ibv_reg_mr(nic->pd, mem, PART, IBV_ACCESS_LOCAL_WRITE);
	int status = 0;
	pid_t child;

	must(mr, "ibv_reg_mr");
	must(ibv_dealloc_pd(nic->pd) == EBUSY, "a protection domain that is in use");
	child = fork();
	if (!child)
		_exit(reachable(mem, PART) ? 1 : 0);
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	await_unreachable(mem, PART); /* beside a child */
	must(child > 0 && waitpid(child, &status, 0) == child, "a child");
	must(!status, "a child whose NICs reach nothing of it");
}

/* A device is closed with all that lives on it. */
static void close_with_region(uint8_t *mem)
{
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic); /* its queue pair has the region shadowed */
	must(ibv_reg_mr(nic.pd, mem, PART, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	await_shadow(mem, PART);
	must_zero(ibv_close_device(nic.ctx), "ibv_close_device");
	must(!reachable(mem, PART), "memory of a closed device that no NIC can write to");
	must(!reachable(c.mem, AREA), "nor to any other of it");
	free(c.mem);
}

void run_teardown(void)
{
	unsigned int i, shadowed = 0;
	struct nic nic;
	struct conn c;
	uint8_t *mem = NULL;

	must_zero(posix_memalign((void **)&mem, 4096, PART), "memory");
	abuse_begin(&nic, &c);
	must(register_and_not(&nic, mem, 0, true) >= 2, "a shadow");
	for (i = 0; i < TEARDOWNS; i++)
		shadowed += register_and_not(&nic, mem, i % LOOKS, false) >= 2;
	say("SHADOWED %u of %d", shadowed, TEARDOWNS);
	for (i = 0; i < (unsigned int)opt.rounds; i++)
		register_and_fork(&nic, mem);
	close_with_region(mem);
	conn_talk(&c, 200);
	meet();
	conn_free(&c);
	nic_close(&nic);
	free(mem);
}
