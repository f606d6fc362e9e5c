// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 *   txn -s -p PORT -c WORKERS -a ACCOUNTS -o FILE      a server: it has memory, and does nothing
 *   txn -p PORT,PORT,... -i FIRST -w WORKERS -a ACCOUNTS [-u] -r SEED -o PREFIX
 *
 * -c: of all clients; -i: the number of the first worker here, from 1; -u: locks have unique values (else 1).
 * -o: where the memory goes in the end; the journal of worker N is PREFIX.N. A worker ends at its first error.
 */
#include "bench/txn/txn.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options opt = { .timeout = 16, .dev = "mlx5_0", .wait_s = 90, .unsignaled = true };

static struct {
	const char *ports, *file;
	uint32_t workers, first, accounts;
	uint64_t seed;
	bool unique;
} how = { .workers = 1, .first = 1, .accounts = 1000, .seed = 1 };

static atomic_bool ending;
static struct nic nic;

/* ---- server --------------------------------------------------------------------------------- */

static struct record *table_make(const struct shape *shape)
{
	struct record *table = NULL;

	must_zero(posix_memalign((void **)&table, 4096, shape->bytes), "memory");
	memset(table, 0, shape->bytes);
	for (uint32_t i = 0; i < shape->records; i++)
		table[i] = (struct record){ .lock = FREE, .value = START_VALUE, .key = i };
	return table;
}

static void table_save(const struct record *table, uint32_t records)
{
	FILE *f = fopen(how.file, "wbx");

	must(f, how.file);
	must(fwrite(table, sizeof(*table), records, f) == records, how.file);
	must_zero(fclose(f), how.file);
}

static void serve(void)
{
	struct shape shape = shape_of(how.accounts, 1);
	struct record *table = table_make(&shape);
	struct conn *conns = calloc(how.workers, sizeof(*conns));
	struct place place, none;
	struct ibv_mr *mr = ibv_reg_mr(nic.pd, table, shape.bytes,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);

	must(mr && conns, "ibv_reg_mr");
	for (uint32_t i = 0; i < how.workers; i++) {
		line_open();
		conn_make(&conns[i], &nic);
		conn_connect_bare(&conns[i]);
		place = (struct place){ (uintptr_t)table, mr->rkey };
		swap(&place, &none, sizeof(place));
		close(sock);
	}
	say("CONNECTED");
	hear("save");
	table_save(table, shape.records);
	say("SAVED");
	hear("end");
}

/* ---- client --------------------------------------------------------------------------------- */

static void worker_connect(struct worker *w)
{
	const char *port = how.ports;
	struct place none = { 0 };

	for (struct link *link = w->link; port; link++) {
		must(w->shape.servers++ < SERVERS_MAX, "so many servers");
		opt.port = atoi(port);
		line_open();
		conn_make(&link->conn, &nic);
		conn_connect_bare(&link->conn);
		swap(&none, &link->there, sizeof(none));
		close(sock);
		port = strchr(port, ',');
		port = port ? port + 1 : NULL;
	}
	w->shape = shape_of(how.accounts, w->shape.servers);
}

static void worker_make(struct worker *w, uint32_t id)
{
	char path[512];

	*w = (struct worker){ .id = id, .unique = how.unique, .random = how.seed << 8 | id };
	worker_connect(w);
	must(snprintf(path, sizeof(path), "%s.%u", how.file, id) < (int)sizeof(path),
	     "a short path");
	journal_open(w, path);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	enum outcome outcome = COMMITTED;

	while (outcome != DOUBTFUL && !atomic_load(&ending)) {
		txn_draw(w);
		outcome = txn_run(w);
		w->committed += outcome == COMMITTED;
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
		    (uintmax_t)w->committed, (uintmax_t)w->aborted, (uintmax_t)w->ended_atomics,
		    ibv_wc_status_str(w->status));
	}
	say("STOPPED");
	hear("end");
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "sp:c:a:i:w:ur:o:t:")) != -1) {
		opt.server |= c == 's';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
		opt.timeout = c == 't' ? atoi(optarg) : opt.timeout;
		how.ports = c == 'p' ? optarg : how.ports;
		how.file = c == 'o' ? optarg : how.file;
		how.workers = c == 'c' || c == 'w' ? (uint32_t)atoi(optarg) : how.workers;
		how.first = c == 'i' ? (uint32_t)atoi(optarg) : how.first;
		how.accounts = c == 'a' ? (uint32_t)atoi(optarg) : how.accounts;
		how.seed = c == 'r' ? strtoull(optarg, NULL, 0) : how.seed;
		how.unique |= c == 'u';
	}
	must(optind == argc && how.ports && how.file && how.accounts > 1, "see bench/txn/main.c");
	nic_open(&nic, opt.dev);
	opt.server ? serve() : client();
	say("OK");
	return 0; /* nothing is freed: a NIC may be dead, and then stock cannot */
}
