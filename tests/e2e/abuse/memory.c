// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory of unusual kinds: thousands of small regions, all of the address space, more than there is. */
#include "abuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	WINDOW = 16,
};

/* ---- thousands of regions ------------------------------------------------------------------- */

struct place {
	uint64_t addr;
	uint32_t rkey, pad;
};

/* Each page is a region: its first half is sent from, its second half is written to. */
struct many {
	struct nic *nic;
	struct conn *conn;
	uint8_t *mem, *spare;
	int n;
	struct ibv_mr **mr;
	struct place *own, *peer;
	uint64_t seed, pass;
};

static void *zeroed(size_t n, size_t size)
{
	void *mem = calloc(n, size);

	must(mem, "memory");
	return mem;
}

static uint8_t *pages(int n)
{
	uint8_t *mem = mmap(NULL, (size_t)n * PART, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	must(mem != MAP_FAILED, "mmap");
	return mem;
}

static void many_register(struct many *m, int i)
{
	uint8_t *at = m->mem + (size_t)i * PART;

	m->mr[i] = ibv_reg_mr(m->nic->pd, at, PART, REMOTE);
	must(m->mr[i], "ibv_reg_mr of one of many");
	m->own[i] = (struct place){ (uintptr_t)at, m->mr[i]->rkey, 0 };
}

static void many_make(struct many *m, struct nic *nic, struct conn *c)
{
	double begun;
	int i;

	*m = (struct many){ .nic = nic, .conn = c, .n = opt.regions, .seed = 1 };
	m->mem = pages(m->n);
	m->spare = pages(m->n);
	m->mr = zeroed((size_t)m->n, sizeof(*m->mr));
	m->own = zeroed((size_t)m->n, sizeof(*m->own));
	m->peer = zeroed((size_t)m->n, sizeof(*m->peer));
	begun = now_s();
	for (i = 0; i < m->n; i++)
		many_register(m, i);
	say("COST of registering %.2f us", (now_s() - begun) * 1e6 / m->n);
}

static void many_free(struct many *m)
{
	double begun = now_s();
	int i;

	for (i = 0; i < m->n; i++)
		must_zero(ibv_dereg_mr(m->mr[i]), "ibv_dereg_mr of one of many");
	say("COST of deregistering %.2f us", (now_s() - begun) * 1e6 / m->n);
	munmap(m->mem, (size_t)m->n * PART);
	munmap(m->spare, (size_t)m->n * PART);
	free(m->mr);
	free(m->own);
	free(m->peer);
}

static uint64_t stamp(const struct many *m, int i)
{
	return m->pass << 32 | (uint32_t)i;
}

static void many_write(struct many *m, int i)
{
	uint8_t *from = (uint8_t *)(uintptr_t)m->own[i].addr;
	uint64_t value = stamp(m, i);
	struct ibv_sge sge = { (uintptr_t)from, sizeof(value), m->mr[i]->lkey };
	struct ibv_send_wr wr = { .wr_id = (uint64_t)i,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { m->peer[i].addr + PART / 2, m->peer[i].rkey } },
			   *bad;

	memcpy(from, &value, sizeof(value));
	must_zero(ibv_post_send(m->conn->qp, &wr, &bad), "ibv_post_send");
}

/* Every region is sent from, and every one of the peer's written to. */
static void many_pass(struct many *m)
{
	int sent = 0, done = 0, i;
	struct ibv_wc wc;
	uint64_t value;

	swap(m->own, m->peer, (size_t)m->n * sizeof(*m->own));
	m->pass++;
	while (done < m->n) {
		while (sent < m->n && sent - done < WINDOW)
			many_write(m, sent++);
		if (conn_poll(m->conn, &wc))
			say("FAILED status %d of region %d", wc.status, (int)wc.wr_id);
		must(wc.status == IBV_WC_SUCCESS, "a good completion");
		must(wc.wr_id == (uint64_t)done++, "send completions in order");
	}
	meet();
	for (i = 0; i < m->n; i++) {
		memcpy(&value, (void *)(uintptr_t)(m->own[i].addr + PART / 2), sizeof(value));
		must(value == stamp(m, i), "what the peer wrote to this region");
	}
	meet();
}

static int many_any(struct many *m)
{
	m->seed = m->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (int)((m->seed >> 33) % (uint64_t)m->n);
}

/* The same address again and again, so that keys come back too; and others' turns between. */
static void many_again(struct many *m)
{
	int times = m->n / 16, a, b;

	while (times--) {
		a = many_any(m);
		b = many_any(m);
		must_zero(ibv_dereg_mr(m->mr[a]), "ibv_dereg_mr");
		if (a != b) {
			must_zero(ibv_dereg_mr(m->mr[b]), "ibv_dereg_mr");
			many_register(m, b);
		}
		many_register(m, a);
	}
}

/* To other memory by ibv_rereg_mr: what was there before must not change any more. */
static void many_elsewhere(struct many *m)
{
	int i, step = m->n / 64;
	uint8_t *at;

	for (i = 0; i < m->n; i += step) {
		at = m->own[i].addr == (uintptr_t)m->mem + (size_t)i * PART
			     ? m->spare + (size_t)i * PART
			     : m->mem + (size_t)i * PART;
		must_zero(
			ibv_rereg_mr(m->mr[i], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, PART, 0),
			"ibv_rereg_mr");
		m->own[i] = (struct place){ (uintptr_t)at, m->mr[i]->rkey, 0 };
	}
}

void run_regions(void)
{
	struct many m;
	struct nic nic;
	struct conn c;
	int round;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect_bare(&c);
	many_make(&m, &nic, &c);
	say("CONNECTED");
	many_pass(&m);
	for (round = 0; round < opt.rounds; round++) {
		say("ROUND %d", round);
		hear("go");
		many_pass(&m);
		many_again(&m);
		many_pass(&m);
		if (!opt.no_rereg)
			many_elsewhere(&m);
		many_pass(&m);
	}
	many_free(&m);
	conn_free(&c);
	nic_close(&nic);
}

/* ---- regions that change while the connection moves -------------------------------------------- */

enum { CHANGED = 8, ONE_WRITER = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ };

struct change {
	uint64_t addr, value;
	uint32_t rkey;
	bool over;
};

struct changed {
	struct nic *nic;
	struct ibv_pd *other_pd;
	uint8_t *mem; /* two places of each region */
	struct ibv_mr *mr[CHANGED];
	uint64_t rounds;
};

static void rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *at, int access)
{
	must_zero(ibv_rereg_mr(mr, flags, pd, at, PART, access), "ibv_rereg_mr");
}

/* Away and back, or to its other place; or it goes, and another one comes at its address. */
static void changed_turn(struct changed *all, int i, unsigned int how)
{
	struct ibv_mr *mr = all->mr[i];
	uint8_t *one = all->mem + (size_t)i * 2 * PART, *at = mr->addr == one ? one + PART : one;

	switch (how) {
	case 0:
		rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, ONE_WRITER);
		rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, REMOTE | IBV_ACCESS_REMOTE_READ);
		break;
	case 1:
		rereg(mr, IBV_REREG_MR_CHANGE_PD, all->other_pd, NULL, 0);
		rereg(mr, IBV_REREG_MR_CHANGE_PD, all->nic->pd, NULL, 0);
		break;
	case 2: rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, 0); break;
	default:
		at = mr->addr;
		must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
		all->mr[i] = ibv_reg_mr(all->nic->pd, at, PART, REMOTE | IBV_ACCESS_REMOTE_READ);
		must(all->mr[i], "ibv_reg_mr");
	}
}

static void changed_serve(struct changed *all, bool over)
{
	static uint64_t seed = 1;
	struct change change = { .over = over }, theirs;
	uint64_t found;
	int i;

	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	i = (int)(seed >> 33) % CHANGED;
	changed_turn(all, i, (unsigned int)(seed >> 40) % 4);
	change.value = ++all->rounds;
	change.addr = (uintptr_t)all->mr[i]->addr;
	change.rkey = all->mr[i]->rkey;
	swap(&change, &theirs, sizeof(change)); /* it may write */
	swap(&change, &theirs, sizeof(change)); /* it has */
	memcpy(&found, all->mr[i]->addr, sizeof(found));
	must(found == change.value, "what the peer wrote through the key as it is now");
}

static bool changed_write(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)c->mem, sizeof(uint64_t), c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct change mine = { 0 }, change;
	struct ibv_wc wc;

	swap(&mine, &change, sizeof(change));
	wr.wr.rdma.remote_addr = change.addr;
	wr.wr.rdma.rkey = change.rkey;
	for (int i = 0; i < 2; i++) {
		wr.opcode = i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		memcpy(c->mem, &change.value, sizeof(change.value));
		if (i)
			memset(c->mem, 0, sizeof(change.value));
		must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
		must(!conn_poll(c, &wc), "a valid key is not refused");
	}
	must(!memcmp(c->mem, &change.value, sizeof(change.value)), "what was written is read");
	swap(&mine, &change, sizeof(change));
	return !change.over;
}

static bool changed_told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

void run_changed(void)
{
	struct changed all = { .mem = pages(2 * CHANGED) };
	struct nic nic;
	struct conn c;
	bool over = false;
	int i;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	all.nic = &nic;
	all.other_pd = ibv_alloc_pd(nic.ctx);
	must(all.other_pd, "ibv_alloc_pd");
	for (i = 0; i < CHANGED; i++) {
		all.mr[i] = ibv_reg_mr(nic.pd, all.mem + (size_t)i * 2 * PART, PART,
				       REMOTE | IBV_ACCESS_REMOTE_READ);
		must(all.mr[i], "ibv_reg_mr");
	}
	conn_connect_bare(&c);
	say("CONNECTED");
	while (opt.server && !over) {
		over = changed_told();
		changed_serve(&all, over);
	}
	while (!opt.server && changed_write(&c))
		;
	say("CHANGED %llu", (unsigned long long)all.rounds);
	meet();
	for (i = 0; i < CHANGED; i++)
		must_zero(ibv_dereg_mr(all.mr[i]), "ibv_dereg_mr");
	must_zero(ibv_dealloc_pd(all.other_pd), "ibv_dealloc_pd");
	conn_free(&c);
	nic_close(&nic);
	munmap(all.mem, 2 * CHANGED * PART);
}

/* ---- the NIC dies between two registrations ---------------------------------------------------- */

enum { STORMERS = 4 };

static atomic_bool storm_over;

/* Before, while and after it dies, whoever has heard of it: nobody may see that it did. */
static void *storm(void *arg)
{
	uint8_t *mem = pages(1);
	struct nic *nic = arg;
	struct ibv_mr *mr;

	while (!atomic_load(&storm_over)) {
		mr = ibv_reg_mr(nic->pd, mem, PART, REMOTE);
		must(mr, "ibv_reg_mr");
		must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	}
	munmap(mem, PART);
	return NULL;
}

void run_storm(void)
{
	pthread_t thread[STORMERS];
	struct nic nic;
	struct conn c;
	int i;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	for (i = 0; i < STORMERS; i++)
		must_zero(pthread_create(&thread[i], NULL, storm, &nic), "a thread");
	say("CONNECTED");
	hear("stop");
	atomic_store(&storm_over, true);
	for (i = 0; i < STORMERS; i++)
		must_zero(pthread_join(thread[i], NULL), "pthread_join");
	conn_talk(&c, 50);
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- a peer that is stopped: registering goes on -------------------------------------------- */

/* Each has the key of the one before it, which the peer has not heard to be gone. */
static void register_again_and_again(struct nic *nic)
{
	uint8_t *mem = pages(1);
	struct ibv_mr *mr;
	int i;

	for (i = 0; i < opt.regions; i++) {
		mr = ibv_reg_mr(nic->pd, mem, PART, REMOTE);
		must(mr, "ibv_reg_mr");
		await_shadow(mem, PART);
		must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	}
	munmap(mem, PART);
}

/* The runner stops the client at "STILL", and lets it go on behind "REGISTERED". */
void run_stopped_peer(void)
{
	struct nic nic;
	struct conn c;

	abuse_begin(&nic, &c);
	conn_talk(&c, 20);
	meet();
	say("STILL");
	hear("register");
	if (opt.server)
		register_again_and_again(&nic);
	say("REGISTERED");
	conn_talk(&c, 200);
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- all of the address space --------------------------------------------------------------- */

/* On demand, as ibv_reg_mr(3) has it: the connection's own memory is in it, and all else. */
void run_implicit(void)
{
	struct nic nic;
	struct conn c;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	must_zero(ibv_dereg_mr(c.mr), "ibv_dereg_mr");
	c.mr = ibv_reg_mr(nic.pd, NULL, SIZE_MAX, REMOTE | IBV_ACCESS_ON_DEMAND);
	must(c.mr, "ibv_reg_mr of all memory, on demand");
	conn_connect(&c);
	say("CONNECTED");
	hear("go");
	conn_talk(&c, 500);
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- not enough for shadows ----------------------------------------------------------------- */

enum { SQUEEZE = 3 << 20, SQUEEZES = 1500, SQUEEZERS = 2 };
enum { SHADOWED_US = 20000 }; /* a region that lives so long gets a shadow */

static atomic_bool squeezed; /* the runner has seen that shadows had to go */

static struct ibv_mr *fits(struct nic *nic, uint8_t *mem)
{
	struct ibv_mr *mr = ibv_reg_mr(nic->pd, mem, SQUEEZE, IBV_ACCESS_LOCAL_WRITE);

	must(mr, "ibv_reg_mr of what fits");
	return mr;
}

static void give(struct ibv_mr *mr, uint8_t *mem)
{
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	await_unreachable(mem, SQUEEZE);
}

/* The second region fits only without the shadow that the first one has by then. */
static void squeeze_out(struct nic *nic, uint8_t *first, uint8_t *second)
{
	struct ibv_mr *mr = fits(nic, first), *more;

	usleep(SHADOWED_US);
	more = fits(nic, second);
	give(more, second);
	give(mr, first);
}

/* There is room for what is registered here, always, and not for the shadows of all of it. */
static void *squeeze(void *arg)
{
	const size_t n = SQUEEZE / PART;
	uint8_t *mem = pages((int)n);
	struct nic *nic = arg;
	struct ibv_mr *mr;

	for (int i = 0; i < SQUEEZES; i++) {
		mr = fits(nic, mem);
		if (i % 4 == 0)
			usleep(1000);
		give(mr, mem);
	}
	munmap(mem, SQUEEZE);
	return NULL;
}

static void *squeeze_until_seen(void *arg)
{
	uint8_t *mem = pages(2 * (SQUEEZE / PART));

	while (!atomic_load(&squeezed))
		squeeze_out(arg, mem, mem + SQUEEZE);
	munmap(mem, 2 * SQUEEZE);
	return NULL;
}

void run_squeeze(void)
{
	pthread_t thread[SQUEEZERS];
	struct nic nic;
	struct conn c;
	int i;

	abuse_begin(&nic, &c);
	must_zero(pthread_create(&thread[0], NULL, squeeze_until_seen, &nic), "a thread");
	conn_talk(&c, 500);
	hear("squeezed");
	atomic_store(&squeezed, true);
	must_zero(pthread_join(thread[0], NULL), "pthread_join");
	for (i = 0; i < SQUEEZERS; i++)
		must_zero(pthread_create(&thread[i], NULL, squeeze, &nic), "a thread");
	for (i = 0; i < SQUEEZERS; i++)
		must_zero(pthread_join(thread[i], NULL), "pthread_join");
	say("SQUEEZED");
	hear("talk");
	conn_talk(&c, 500);
	meet();
	conn_free(&c);
	nic_close(&nic);
}

/* ---- more than there is --------------------------------------------------------------------- */

static const size_t huge = (size_t)64 << 30;

static long resident_kb(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long size, resident = 0;

	must(f && fscanf(f, "%ld %ld", &size, &resident) == 2, "/proc/self/statm");
	fclose(f);
	return resident * 4;
}

static struct ibv_mr *huge_register(struct nic *nic)
{
	void *mem = mmap(NULL, huge, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;

	must(mem != MAP_FAILED, "mmap of 64 GiB");
	mr = ibv_reg_mr(nic->pd, mem, huge, REMOTE);
	must(mr, "ibv_reg_mr of 64 GiB");
	return mr;
}

static void huge_free(struct ibv_mr *mr)
{
	void *mem = mr->addr;

	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr of 64 GiB");
	must_zero(munmap(mem, huge), "munmap");
}

/* One word to the peer's last page, and to each GiB before. */
static void huge_write(struct conn *c, struct ibv_mr *mr, uint64_t value)
{
	struct place own = { (uintptr_t)mr->addr, mr->rkey, 0 }, peer;
	struct ibv_wc wc;
	uint64_t at, got;

	swap(&own, &peer, sizeof(own));
	memcpy(c->mem, &value, sizeof(value));
	for (at = PART; at <= huge; at += (size_t)1 << 30) {
		struct ibv_sge sge = { (uintptr_t)c->mem, sizeof(value), c->mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .wr.rdma = { peer.addr + huge - at, peer.rkey } },
				   *bad;

		must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
		must(!conn_poll(c, &wc), "a good completion");
	}
	meet();
	for (at = PART; at <= huge; at += (size_t)1 << 30) {
		memcpy(&got, (uint8_t *)mr->addr + huge - at, sizeof(got));
		must(got == value, "what the peer wrote to a far page");
	}
	meet();
}

void run_huge(void)
{
	struct ibv_mr *first, *second;
	struct nic nic;
	struct conn c;
	long before;

	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect_bare(&c);
	say("CONNECTED");
	hear("register");
	before = resident_kb();
	first = huge_register(&nic);
	say("REGISTERED");
	hear("write");
	await_shadow(first->addr, huge);
	huge_write(&c, first, 1);
	hear("go");
	huge_write(&c, first, 2);
	say("RESIDENT %ld MiB more", (resident_kb() - before) >> 10);
	hear("more");
	second = huge_register(&nic);
	say("MORE");
	hear("write");
	huge_write(&c, second, 3);
	conn_free(&c);
	huge_free(second);
	huge_free(first);
	nic_close(&nic);
}
