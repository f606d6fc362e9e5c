/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A request is outstanding at a fault that may have run. A third party saw what it did, and wrote over it.
 *
 *   exact [-s] -p PORT [-d DEV] [-x GID] [-n WORDS] [-t SEC] [-w SEC] [-u] write|add|swap
 *
 * For each word w of the server's memory the client writes 1, adds 1 to it, or swaps it from 0 to 1. The server
 * makes of each word that it finds changed, unless atomics are counted, 2 at once. The runner puts
 * a fault between, and is told what the client's completions said, and how many of the words are what
 * they must be in the end. -t: it counts in one word, one request after the other, for that time. -w: on a slow
 * machine the server looks for so long, and a completion may take SLOW_S. -u: requests have no completions; at a word of the
 * runner's one more, which has, reads what the first one made.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"

/* A software NIC writes by memcpy(), which may store a word twice: it must be done with it. */
enum { SETTLE_US = 1000 };
enum { WRITTEN = 1, OVER = 2, WORDS = 8, SLOW_S = 120 };

struct options opt = { .timeout = 14, .dev = "mlx5_0" };

static struct nic nic;
static struct conn conn;
static uint32_t words = WORDS;
static double seconds, look_s = 1;
static bool quiet;

static enum ibv_wr_opcode opcode_of(const char *what)
{
	if (!strcmp(what, "write"))
		return IBV_WR_RDMA_WRITE;
	if (!strcmp(what, "add"))
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	must(!strcmp(what, "swap"), "write, add or swap");
	return IBV_WR_ATOMIC_CMP_AND_SWP;
}

static void post(enum ibv_wr_opcode op, uint32_t word, uint64_t there)
{
	uint64_t remote = conn.peer.addr + AREA + word * sizeof(uint64_t);
	uint64_t *local = (uint64_t *)conn.mem + word;
	struct ibv_sge sge = { (uintptr_t)local, sizeof(*local), conn.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = word,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = quiet ? 0 : IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	*local = WRITTEN;
	if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = conn.peer.rkey;
	} else {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = conn.peer.rkey;
		wr.wr.atomic.compare_add = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? WRITTEN : there;
		wr.wr.atomic.swap = there + WRITTEN;
	}
	must_zero(ibv_post_send(conn.qp, &wr, &bad), "ibv_post_send");
}

/* Atomics bring what was there: nothing. */
static void client(enum ibv_wr_opcode op)
{
	uint32_t good = 0, wrong = 0;
	struct ibv_wc wc;

	for (uint32_t i = 0; i < words; i++)
		post(op, i, 0);
	say("POSTED");
	for (uint32_t i = 0; i < words; i++) {
		(void)conn_poll(&conn, &wc);
		good += wc.status == IBV_WC_SUCCESS;
		wrong += wc.status == IBV_WC_SUCCESS && op != IBV_WR_RDMA_WRITE &&
			 ((uint64_t *)conn.mem)[i] != 0;
	}
	say("DONE %u good, %u wrong", good, wrong);
}

static void client_quiet(enum ibv_wr_opcode op)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < words; i++)
		post(op, i, 0);
	say("POSTED");
	hear("on");
	quiet = false;
	post(IBV_WR_RDMA_READ, 0, 0);
	(void)conn_poll(&conn, &wc);
	say("DONE %u good, %u wrong", wc.status == IBV_WC_SUCCESS,
	    wc.status == IBV_WC_SUCCESS && *(uint64_t *)conn.mem != WRITTEN);
}

/* Each brings what those before it made: none ran twice, and none that completed did not run. */
static void client_counts(enum ibv_wr_opcode op)
{
	uint64_t n = 0, wrong = 0;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	say("POSTED");
	for (double until = now_s() + seconds; now_s() < until && wc.status == IBV_WC_SUCCESS;) {
		post(op, 0, n);
		(void)conn_poll(&conn, &wc);
		if (wc.status != IBV_WC_SUCCESS)
			break;
		wrong += *(uint64_t *)conn.mem != n++;
	}
	say("COUNTED %ju, %ju wrong: %s", (uintmax_t)n, (uintmax_t)wrong,
	    ibv_wc_status_str(wc.status));
}

static uint32_t count(const uint64_t *word, uint64_t value)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < words; i++)
		n += __atomic_load_n(&word[i], __ATOMIC_ACQUIRE) == value;
	return n;
}

/* over: who saw a word writes over it. */
static void server(bool over)
{
	uint64_t *word = (uint64_t *)(conn.mem + AREA);
	uint32_t seen = 0;

	for (double until = now_s() + look_s; seen < words && now_s() < until; usleep(100))
		for (uint32_t i = seen; i < words && __atomic_load_n(&word[i], __ATOMIC_ACQUIRE);
		     i++) {
			seen++;
			if (over)
				usleep(SETTLE_US);
			if (over)
				__atomic_store_n(&word[i], OVER, __ATOMIC_RELEASE);
		}
	say("SEEN %u", seen);
	hear("done");
	if (seconds != 0)
		say("COUNTER %ju", (uintmax_t)word[0]);
	say("ARE %u once, %u over, %u none", count(word, WRITTEN), count(word, OVER),
	    count(word, 0));
}

int main(int argc, char **argv)
{
	enum ibv_wr_opcode op;
	int c;

	while ((c = getopt(argc, argv, "sp:d:x:n:t:w:u")) != -1) {
		opt.server |= c == 's';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
		opt.dev = c == 'd' ? optarg : opt.dev;
		opt.gid_index = c == 'x' ? atoi(optarg) : opt.gid_index;
		seconds = c == 't' ? atof(optarg) : seconds;
		words = c == 'n' ? (uint32_t)atoi(optarg) : words;
		quiet |= c == 'u';
		look_s = c == 'w' ? atof(optarg) : look_s;
		opt.wait_s = c == 'w' ? SLOW_S : opt.wait_s;
	}
	must(optind == argc - 1, "usage: exact [-s] -p PORT [-d DEV] [-x GID] [-n WORDS] [-t SEC] "
				 "[-w SEC] [-u] write|add|swap");
	must(words && words <= DEPTH, "a number of words that the queue takes");
	op = opcode_of(argv[optind]);
	opt.unsignaled = quiet;
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&conn, &nic);
	memset(conn.mem, 0, 2 * AREA);
	conn_connect_bare(&conn);
	say("CONNECTED");
	hear("go");
	if (!opt.server && seconds != 0)
		client_counts(op);
	else if (opt.server)
		server(op == IBV_WR_RDMA_WRITE && !quiet);
	else if (quiet)
		client_quiet(op);
	else
		client(op);
	meet();
	say("OK");
	conn_free(&conn);
	nic_close(&nic);
	return 0;
}
