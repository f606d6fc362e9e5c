/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Clients that add to one word of a server, over a connection each: is any increment lost?
 *
 *   home -s -p PORT -n CLIENTS [-f I] [-m FILE] [-l]  -f: the I-th connection is one that SHIFT does not drive here
 *                                    -m: the word is in that file, of 4096 bytes, which others have mapped, too
 *                                    -l: the server adds, too, by a loopback queue pair
 *   home -p PORT [-r]                -r: it writes into memory of its own there, and adds nothing
 *
 * The runner moves them to other NICs meanwhile. A client goes on until it is told to end, or until a
 * request does not complete well, and says how many did. The server says what the word is in the end.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/pair.h"

#define SAY_S 0.1 /* at the latest: on a busy machine few run in a second */

enum { CLIENTS = 4, AHEAD = 4 };

struct options opt = { .timeout = 16, .dev = "mlx5_0", .wait_s = 60 };

struct place {
	uint64_t addr;
	uint32_t rkey;
};

static struct nic nic;
static bool writes;
static int foreign = -1;
static const char *shared;
static bool loopback;

static void post(struct conn *conn, const struct place *word, uint64_t n)
{
	uint64_t *local = (uint64_t *)conn->mem + n % AHEAD;
	struct ibv_sge sge = { (uintptr_t)local, sizeof(*local), conn->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = n,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	if (writes) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = conn->peer.addr;
		wr.wr.rdma.rkey = conn->peer.rkey;
	} else {
		wr.wr.atomic.remote_addr = word->addr;
		wr.wr.atomic.rkey = word->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	must_zero(ibv_post_send(conn->qp, &wr, &bad), "ibv_post_send");
}

/* Who adds, and until when. */
struct adder {
	struct conn *conn;
	const struct place *word;
	const char *name; /* before what it says */
	bool (*over)(void);
};

static bool told(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };

	return poll(&in, 1, 0) > 0;
}

/* What it adds to is not what it reads: each brings another value, larger than the one before. */
static void add(const struct adder *by)
{
	struct conn *conn = by->conn;
	uint64_t n = 0, good = 0, least = 0, value, disorder = 0;
	double say_at = 0;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	while (good < n || !by->over()) {
		while (n < good + AHEAD && !by->over())
			post(conn, by->word, n++);
		if (n == good)
			break;
		(void)conn_poll(conn, &wc);
		if (wc.status != IBV_WC_SUCCESS)
			break;
		value = ((uint64_t *)conn->mem)[wc.wr_id % AHEAD];
		disorder += !writes && good && value <= least;
		least = value;
		good++;
		if (good % 1000 && now_s() < say_at)
			continue;
		say("%sGOOD %ju", by->name, (uintmax_t)good);
		say_at = now_s() + SAY_S;
	}
	say("%sADDED %ju, %ju under way, %ju in disorder: %s", by->name, (uintmax_t)good,
	    (uintmax_t)(n - good), (uintmax_t)disorder, ibv_wc_status_str(wc.status));
}

/* ---- by the server itself -------------------------------------------------------------------- */

static struct {
	struct conn conn;
	struct place word;
	struct adder adder;
	pthread_t thread;
	_Atomic bool stop;
} self;

static bool self_over(void)
{
	return atomic_load(&self.stop);
}

static void *self_run(void *arg)
{
	add(&self.adder);
	return arg;
}

static void self_begin(const struct place *word)
{
	self.word = *word;
	self.adder = (struct adder){ &self.conn, &self.word, "SELF ", self_over };
	conn_make(&self.conn, &nic);
	conn_set_own(&self.conn);
	self.conn.peer = self.conn.own;
	conn_to_init(&self.conn);
	conn_to_rts_alone(&self.conn);
	must_zero(pthread_create(&self.thread, NULL, self_run, NULL), "pthread_create");
}

static void self_end(void)
{
	atomic_store(&self.stop, true);
	must_zero(pthread_join(self.thread, NULL), "pthread_join");
	conn_free(&self.conn);
}

static void *no_memory_of_ours(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
			       uint64_t resource_type)
{
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void nothing_to_free(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type)
{
}

/* In a parent domain with allocators, which SHIFT leaves alone. */
static void make_foreign(struct conn *conn)
{
	struct ibv_parent_domain_init_attr domain = {
		.pd = nic.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = no_memory_of_ours,
		.free = nothing_to_free,
	};
	static struct nic in_domain;

	in_domain = nic;
	in_domain.pd = ibv_alloc_parent_domain(nic.ctx, &domain);
	must(in_domain.pd, "ibv_alloc_parent_domain");
	conn_make(conn, &in_domain);
}

static void free_foreign(struct conn *conn)
{
	struct ibv_pd *domain = conn->nic->pd;

	conn_free(conn);
	must_zero(ibv_dealloc_pd(domain), "ibv_dealloc_pd of the parent domain");
}

static struct ibv_mr *share(void)
{
	int fd = open(shared, O_RDWR | O_CLOEXEC);
	void *page = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *mr;

	must(fd >= 0 && page != MAP_FAILED, shared);
	mr = ibv_reg_mr(nic.pd, page, PART, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	must(mr, "ibv_reg_mr of what is shared");
	close(fd);
	return mr;
}

static void serve(int clients)
{
	struct ibv_mr *mr = shared ? share() : NULL;
	struct conn conn[CLIENTS];
	uint64_t *counter = NULL;
	struct place word;

	must(clients <= CLIENTS, "so many clients");
	for (int i = 0; i < clients; i++) {
		line_open();
		i == foreign ? make_foreign(&conn[i]) : conn_make(&conn[i], &nic);
		conn_connect_bare(&conn[i]);
		counter = mr ? mr->addr : (void *)(conn[0].mem + AREA);
		word = (struct place){ (uintptr_t)counter, mr ? mr->rkey : conn[0].mr->rkey };
		if (loopback && !i)
			self_begin(&word);
		swap(&word, &word, sizeof(word));
		close(sock);
		say("CONNECTED %d", i);
	}
	hear("done");
	if (loopback)
		self_end();
	say("COUNTER %ju", counter ? (uintmax_t)*counter : 0);
	for (int i = clients; i-- > 0;)
		i == foreign ? free_foreign(&conn[i]) : conn_free(&conn[i]);
	if (mr)
		must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr of what is shared");
}

int main(int argc, char **argv)
{
	int c, clients = 1;

	while ((c = getopt(argc, argv, "sp:n:f:m:rl")) != -1) {
		opt.server |= c == 's';
		writes |= c == 'r';
		loopback |= c == 'l';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
		clients = c == 'n' ? atoi(optarg) : clients;
		foreign = c == 'f' ? atoi(optarg) : foreign;
		shared = c == 'm' ? optarg : shared;
	}
	must(optind == argc, "usage: home [-s] -p PORT [-n CLIENTS [-f I] [-m FILE] [-l]] [-r]");
	nic_open(&nic, opt.dev);
	if (opt.server) {
		serve(clients);
	} else {
		struct place own = { 0 }, word;
		struct conn conn;

		line_open();
		conn_make(&conn, &nic);
		conn_connect_bare(&conn);
		swap(&own, &word, sizeof(word));
		say("CONNECTED");
		hear("go");
		add(&(struct adder){ &conn, &word, "", told });
		hear("end");
		conn_free(&conn);
	}
	nic_close(&nic);
	say("OK");
	return 0;
}
