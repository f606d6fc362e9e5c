/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * WRITEs at full speed into a slot each, from a word that counts up all the time. So what comes to a slot a second time has
 * another number, and who looked between knows of it.
 *
 *   again [-s] -p PORT [-r] WRITES
 *
 * The runner puts a fault between, and is told how many of the server's slots had nothing in the end, and how
 * many had something and then something else. -r: the server's memory has relaxed ordering.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum { SLOTS = AREA / sizeof(uint64_t), LOOK_US = 50, SIGNAL = 4 };

struct options opt = { .timeout = 14, .dev = "mlx5_0", .unsignaled = true };

static struct nic nic;
static struct conn conn;
static uint32_t writes;
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

static void post(uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)conn.mem, sizeof(uint64_t), conn.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { conn.peer.addr + AREA + slot * sizeof(uint64_t),
					       conn.peer.rkey } },
			   *bad;

	if (slot % SIGNAL == SIGNAL - 1 || slot == writes - 1)
		wr.send_flags = IBV_SEND_SIGNALED;
	must_zero(ibv_post_send(conn.qp, &wr, &bad), "ibv_post_send");
}

/* As many as the queue says that it takes. */
static uint32_t window(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must_zero(ibv_query_qp(conn.qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
	must(init.cap.max_send_wr >= DEPTH, "a queue as long as it was asked for");
	return init.cap.max_send_wr;
}

static void client(void)
{
	uint32_t posted = 0, complete = 0, most = window();
	struct ibv_wc wc;

	/* A slot that gets 0 counts as one that got nothing. */
	while (!at((const uint64_t *)conn.mem))
		usleep(LOOK_US);
	say("POSTING");
	while (complete < writes) {
		while (posted < writes && posted < complete + most)
			post(posted++);
		(void)conn_poll(&conn, &wc);
		must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		must(wc.wr_id >= complete, "completions in order");
		complete = (uint32_t)wc.wr_id + 1;
	}
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

	while ((c = getopt(argc, argv, "sp:r")) != -1) {
		opt.server |= c == 's';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
		relaxed |= c == 'r';
	}
	must(optind == argc - 1, "usage: again [-s] -p PORT [-r] WRITES");
	writes = (uint32_t)atoi(argv[optind]);
	must(writes && writes <= SLOTS, "a number of writes");
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&conn, &nic);
	if (relaxed)
		relax();
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
