/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * WRITEs at full speed into a slot each, from a word that counts up all the time. So what comes to a slot a second time has
 * another number, and who looked between knows of it.
 *
 *   again [-s] -p PORT [-r] [-m SEED] WRITES
 *
 * The runner puts a fault between, and is told how many of the server's slots had nothing in the end, and how
 * many had something and then something else. -r: the server's memory has relaxed ordering. -m: by lists and ibv_wr_*, more
 * than there is room for, some inline or fenced, some given up; else one at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"
#include "tests/lib/random.h"

enum { SLOTS = AREA / sizeof(uint64_t), LOOK_US = 50, SIGNAL = 4, LIST = DEPTH + 16 };

struct options opt = { .timeout = 14, .dev = "mlx5_0", .unsignaled = true };

static struct nic nic;
static struct conn conn;
static uint32_t writes;
static uint64_t seed;
static atomic_bool done;
static uint64_t first[SLOTS];

static uint64_t at(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void *count_up(void *word)
{
	for (uint64_t n = 1; !atomic_load(&done); n++, usleep(10))
		__atomic_store_n((uint64_t *)word, n, __ATOMIC_RELEASE);
	return NULL;
}

/* Slots are filled in order, but for what comes again. */
static void look(void)
{
	const uint64_t *slot = (const uint64_t *)(conn.mem + AREA);
	static uint32_t next;

	for (; next < writes && at(&slot[next]); next++)
		first[next] = at(&slot[next]);
}

static void *look_on(void *unused)
{
	(void)unused;
	for (; !atomic_load(&done); usleep(LOOK_US))
		look();
	return NULL;
}

static void request(uint32_t slot, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){ (uintptr_t)conn.mem, sizeof(uint64_t), conn.mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = slot,
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma = { conn.peer.addr + AREA + slot * sizeof(uint64_t),
						 conn.peer.rkey } };
	if (slot % SIGNAL == SIGNAL - 1 || slot == writes - 1)
		wr->send_flags = IBV_SEND_SIGNALED;
}

static void post(uint32_t slot)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	request(slot, &wr, &sge);
	must_zero(ibv_post_send(conn.qp, &wr, &bad), "ibv_post_send");
}

/* ---- -m ---- */

static void call(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags;
	ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, conn.mem, sizeof(uint64_t));
	else
		ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
}

/*
 * All of them or none. How many were taken: at a move there may be more room, as what is acknowledged then gives its
 * place back before its completion was polled.
 */
static uint32_t post_calls(const struct ibv_send_wr *wr, uint32_t n, uint32_t room)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(conn.qp);
	bool give_up = !random_below(&seed, 4);
	int err;

	ibv_wr_start(qp);
	for (uint32_t i = 0; i < n; i++)
		call(qp, &wr[i]);
	if (give_up) {
		ibv_wr_abort(qp);
		return 0;
	}
	err = ibv_wr_complete(qp);
	must(!err || (n > room && err == ENOMEM), "as many by ibv_wr_* as there is room for");
	return err ? 0 : n;
}

static uint32_t post_list(struct ibv_send_wr *wr, uint32_t n, uint32_t room)
{
	struct ibv_send_wr *bad = NULL;
	int err = ibv_post_send(conn.qp, wr, &bad);
	uint32_t taken = err ? (uint32_t)(bad - wr) : n;

	must(taken >= (n < room ? n : room) && !err == (taken == n),
	     "as many of a list as there is room for");
	return taken;
}

static uint32_t post_some(uint32_t from, uint32_t room)
{
	uint32_t n = 1 + random_below(&seed, random_below(&seed, 4) ? 8 : LIST);
	struct ibv_send_wr wr[LIST];
	struct ibv_sge sge[LIST];

	n = n < writes - from ? n : writes - from;
	for (uint32_t i = 0; i < n; i++) {
		request(from + i, &wr[i], &sge[i]);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].send_flags |= random_below(&seed, 3) ? 0 : IBV_SEND_INLINE;
		wr[i].send_flags |= random_below(&seed, 3) ? 0 : IBV_SEND_FENCE;
	}
	return random_below(&seed, 2) ? post_calls(wr, n, room) : post_list(wr, n, room);
}

/* One that takes all that, and not as many as a log lies evenly behind. */
static void remake(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = conn.cq,
		.recv_cq = conn.cq,
		.pd = nic.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
		.cap = { DEPTH, DEPTH, 1, 1, sizeof(uint64_t) },
	};

	must_zero(ibv_destroy_qp(conn.qp), "ibv_destroy_qp");
	conn.qp = ibv_create_qp_ex(nic.ctx, &init);
	must(conn.qp, "ibv_create_qp_ex");
}

/* ---- */

/* As many as the queue says that it takes. */
static uint32_t window(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must_zero(ibv_query_qp(conn.qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
	must(init.cap.max_send_wr >= DEPTH, "a queue as long as it was asked for");
	return init.cap.max_send_wr;
}

static uint32_t completed(uint32_t complete)
{
	struct ibv_wc wc;

	(void)conn_poll(&conn, &wc);
	must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	must(wc.wr_id >= complete, "completions in order");
	return (uint32_t)wc.wr_id + 1;
}

static void client_mixed(void)
{
	uint32_t posted = 0, complete = 0, most = window(), out;

	while (complete < writes) {
		out = posted - complete;
		posted += posted < writes ? post_some(posted, out < most ? most - out : 0) : 0;
		while (posted == writes ? complete < writes
					: posted - complete >= SIGNAL && random_below(&seed, 3))
			complete = completed(complete);
	}
}

static void client_single(void)
{
	uint32_t posted = 0, complete = 0, most = window();

	while (complete < writes) {
		while (posted < writes && posted < complete + most)
			post(posted++);
		complete = completed(complete);
	}
}

static void client(void)
{

	/* A slot that gets 0 counts as one that got nothing. */
	while (!at((const uint64_t *)conn.mem))
		usleep(LOOK_US);
	say("POSTING");
	if (seed)
		client_mixed();
	else
		client_single();
	say("DONE");
}

/* Who polls goes on: the memory is not to be looked at before all is done. */
static void server(void)
{
	const uint64_t *slot = (const uint64_t *)(conn.mem + AREA);
	uint32_t none = 0, again = 0, last = 0;

	hear("done");
	look();
	for (uint32_t i = 0; i < writes; i++) {
		none += !at(&slot[i]);
		last = at(&slot[i]) ? last : i;
		again += first[i] && at(&slot[i]) != first[i];
	}
	say("SLOTS %u none, %u again, %u the last with nothing", none, again, last);
}

static void relax(void)
{
	must_zero(ibv_dereg_mr(conn.mr), "ibv_dereg_mr");
	conn.mr = ibv_reg_mr(nic.pd, conn.mem, 2 * AREA,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_RELAXED_ORDERING);
	must(conn.mr, "ibv_reg_mr");
}

int main(int argc, char **argv)
{
	bool relaxed = false;
	pthread_t thread;
	int c;

	while ((c = getopt(argc, argv, "sp:rm:")) != -1) {
		opt.server |= c == 's';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
		relaxed |= c == 'r';
		seed = c == 'm' ? strtoull(optarg, NULL, 0) : seed;
	}
	must(optind == argc - 1, "usage: again [-s] -p PORT [-r] [-m SEED] WRITES");
	writes = (uint32_t)atoi(argv[optind]);
	must(writes && writes <= SLOTS, "a number of writes");
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&conn, &nic);
	if (relaxed)
		relax();
	if (seed)
		remake();
	conn_connect_bare(&conn);
	must_zero(pthread_create(&thread, NULL, opt.server ? look_on : count_up, conn.mem),
		  "pthread_create");
	say("CONNECTED");
	hear("go");
	if (opt.server)
		server();
	else
		client();
	meet();
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	say("OK");
	conn_free(&conn);
	nic_close(&nic);
	return 0;
}
