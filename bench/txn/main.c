// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Servers and clients of transactions.
 * txn -s -p PORT -b WORKLOAD -c WORKERS -a BLOCKS -o FILE   a server: memory, no work
 * txn -p PORT,... -b WORKLOAD -c WORKERS -a BLOCKS -i FIRST -w WORKERS [-u | -2] -r SEED -o PREFIX
 *
 * -b: smallbank or tpcc; -a: accounts or warehouses; -c: workers of all clients; -w: workers of
 * this one; -i: number of its first worker, from 1; -u: locks have unique values (else 1); -2 (at
 * servers too): locks are taken by shift_uid_cas(). -o: file for the memory in the end; the
 * journal of worker N is PREFIX.N. A worker ends at its first error.
 */
#include "bench/txn/txn.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options opt = { .timeout = 16, .dev = "mlx5_0", .wait_s = 90, .unsignaled = true };

static struct {
	const char *ports, *file;
	const struct workload *workload;
	uint32_t workers, of_all, first, blocks;
	uint64_t seed;
	bool unique, by_uid;
} how = { .workers = 1, .of_all = 1, .first = 1, .blocks = 1000, .seed = 1 };

static atomic_bool ending;
static struct nic nic;

/* ---- server --------------------------------------------------------------------------------- */

static struct record *table_make(const struct shape *shape)
{
	struct record *table = NULL;

	must_zero(posix_memalign((void **)&table, 4096, shape->bytes), "memory");
	memset(table, 0, shape->bytes);
	for (uint32_t i = 0; i < shape->records; i++) {
		table[i].key = i;
		shape->workload->start(i, table[i].value);
	}
	return table;
}

/* Records and rows. */
static void table_save(const struct record *table, const struct shape *shape)
{
	FILE *f = fopen(how.file, "wbx");

	must(f, how.file);
	must(fwrite(table, 1, shape->log_at, f) == shape->log_at, how.file);
	must_zero(fclose(f), how.file);
}

static struct ibv_mr *uids_make(void)
{
	void *region = NULL;
	struct ibv_mr *mr;

	must_zero(posix_memalign(&region, 4096, shift_uid_region_size()), "memory");
	shift_uid_region_init(region);
	mr = ibv_reg_mr(nic.pd, region, shift_uid_region_size(),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	must(mr, "ibv_reg_mr of the records");
	return mr;
}

static void serve(void)
{
	struct shape shape = shape_of(how.workload, how.blocks, how.of_all, 1);
	struct record *table = table_make(&shape);
	uint32_t n = how.by_uid ? 2 * how.of_all : how.of_all; /* connections */
	struct conn *conns = calloc(n, sizeof(*conns));
	struct place place = { 0 }, none;
	struct ibv_mr *uids = how.by_uid ? uids_make() : NULL;
	struct ibv_mr *mr = ibv_reg_mr(nic.pd, table, shape.bytes,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);

	must(mr && conns, "ibv_reg_mr");
	for (uint32_t i = 0; i < n; i++) {
		line_open();
		conn_make(&conns[i], &nic);
		conn_connect_bare(&conns[i]);
		place.addr = (uintptr_t)table;
		place.rkey = mr->rkey;
		place.uids = uids ? (uintptr_t)uids->addr : 0;
		place.uids_rkey = uids ? uids->rkey : 0;
		swap(&place, &none, sizeof(place));
		close(sock);
	}
	say("CONNECTED");
	hear("save");
	table_save(table, &shape);
	say("SAVED");
	hear("end");
}

/* ---- client --------------------------------------------------------------------------------- */

static void link_connect(struct link *link, struct conn *conn)
{
	struct place none = { 0 };

	line_open();
	conn_make(conn, &nic);
	conn_connect_bare(conn);
	swap(&none, &link->there, sizeof(none));
	close(sock);
}

static void link_by_uid(struct worker *w, struct link *link)
{
	struct shift_uid_attr attr = { .instance = (uint8_t)w->id };

	link_connect(link, &link->uid_conn);
	attr.qp = link->uid_conn.qp;
	attr.cq = link->uid_conn.cq;
	attr.region = link->there.uids;
	attr.rkey = link->there.uids_rkey;
	link->uid = shift_uid_open(&attr);
	must(link->uid, "shift_uid_open");
}

static void worker_connect(struct worker *w)
{
	const char *port = how.ports;
	uint32_t servers = 0;

	for (struct link *link = w->link; port; link++) {
		must(servers++ < SERVERS_MAX, "so many servers");
		opt.port = atoi(port);
		link_connect(link, &link->conn);
		if (w->by_uid)
			link_by_uid(w, link);
		port = strchr(port, ',');
		port = port ? port + 1 : NULL;
	}
	w->shape = shape_of(how.workload, how.blocks, how.of_all, servers);
}

static void worker_make(struct worker *w, uint32_t id)
{
	char path[512];

	*w = (struct worker){
		.id = id, .unique = how.unique, .by_uid = how.by_uid, .random = how.seed << 8 | id
	};
	worker_connect(w);
	must(snprintf(path, sizeof(path), "%s.%u", how.file, id) < (int)sizeof(path),
	     "a short path");
	journal_open(w, path);
}

static uint64_t committed(const struct worker *w)
{
	uint64_t n = 0;

	for (int i = 0; i < TYPES_MAX; i++)
		n += w->committed[i];
	return n;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	enum outcome outcome = COMMITTED;

	while (outcome != DOUBTFUL && !atomic_load(&ending)) {
		w->shape.workload->draw(w);
		outcome = txn_run(w);
		w->committed[w->txn.type] += outcome == COMMITTED;
		w->aborted += outcome == ABORTED;
		journal_note(w, outcome);
	}
	return NULL;
}

static void client(void)
{
	struct worker *workers = calloc(how.workers, sizeof(*workers));
	pthread_t threads[WORKERS_MAX];

	must(workers && how.workers <= WORKERS_MAX, "so many workers");
	for (uint32_t i = 0; i < how.workers; i++)
		worker_make(&workers[i], how.first + i);
	say("CONNECTED");
	hear("go");
	for (uint32_t i = 0; i < how.workers; i++)
		must_zero(pthread_create(&threads[i], NULL, worker_main, &workers[i]), "a thread");
	hear("stop");
	atomic_store(&ending, true);
	for (uint32_t i = 0; i < how.workers; i++) {
		struct worker *w = &workers[i];

		must_zero(pthread_join(threads[i], NULL), "pthread_join");
		journal_close(w);
		say("WORKER %u: %ju committed, %ju aborted, %ju atomics ended: %s", w->id,
		    (uintmax_t)committed(w), (uintmax_t)w->aborted, (uintmax_t)w->ended_atomics,
		    ibv_wc_status_str(w->status));
	}
	say("STOPPED");
	hear("end");
}

static const struct workload *workload_named(const char *name)
{
	must(!strcmp(name, smallbank.name) || !strcmp(name, tpcc.name), "smallbank or tpcc");
	return strcmp(name, tpcc.name) ? &smallbank : &tpcc;
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "sp:b:c:a:i:w:u2r:o:t:")) != -1) {
		opt.server |= c == 's';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
		opt.timeout = c == 't' ? atoi(optarg) : opt.timeout;
		how.ports = c == 'p' ? optarg : how.ports;
		how.file = c == 'o' ? optarg : how.file;
		how.workload = c == 'b' ? workload_named(optarg) : how.workload;
		how.of_all = c == 'c' ? (uint32_t)atoi(optarg) : how.of_all;
		how.workers = c == 'w' ? (uint32_t)atoi(optarg) : how.workers;
		how.first = c == 'i' ? (uint32_t)atoi(optarg) : how.first;
		how.blocks = c == 'a' ? (uint32_t)atoi(optarg) : how.blocks;
		how.seed = c == 'r' ? strtoull(optarg, NULL, 0) : how.seed;
		how.unique |= c == 'u';
		how.by_uid |= c == '2';
	}
	must(optind == argc && how.ports && how.file && how.workload && how.blocks > 1,
	     "see bench/txn/main.c");
	nic_open(&nic, opt.dev);
	opt.server ? serve() : client();
	say("OK");
	return 0; /* nothing is freed: a NIC may be dead, and then stock cannot */
}
