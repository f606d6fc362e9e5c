/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sdr_join_sim [--seeds N] [--seed S] [--mutant NAME]
 *
 * The way between two NICs, of which either fails now and then, in virtual time: both ends' rules (core/join.c) are the real ones;
 * NICs, queue pairs, keys and the control channel are played. Numbers of queue pairs and keys are always the same, so that
 * whatever is late finds what serves now. A failure prints its seed:
 *
 *	J1 a packet reaches only queue pairs of its own life		J2 ... by a key of its own life
 *	J3 nothing is sent to queue pairs that are not connected	J4 when faults end, the way is in use again
 *	J5 both ends fall silent when there is nothing to be done	J6 a NIC that failed is not used before it is well
 */
#include "sdr/core/join.h"
#include "sdr/core/mutants.h"
#include "sdr/tests/sim/draw.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS 1000000ull

enum { FLYING = 4096, FAILURES = 6, HEALING = 400, SILENCE = 30, FEW = 80, NO_KEYS = 255 };

enum kind { HEAD, HEAD_ASKS, JOIN, KEYS, PACKET };

struct thing {
	enum kind kind;
	bool used;
	uint8_t to, life, stage, key_life;
	uint64_t at;
};

struct end {
	struct sdr_join j;
	bool well, lost, zombie;
	uint64_t well_at; /* while it is not */
	bool has_qp, is_connected;
	uint8_t qp_life, keys_life;
	uint32_t queued; /* posted, and not yet left */
	uint8_t queued_life, queued_key;
	uint32_t job; /* enum sdr_join_todo; 0: none */
	bool job_ok;
	uint64_t job_at, ask_at;
};

static struct {
	uint64_t seed, random, now, lifetime, delay, heal_at, end_at, said; /* said: at the end */
	bool healed, stays_dead;
	uint32_t loss, failures, most; /* most: things that flew so far */
	struct end ends[2];
	struct thing things[FLYING];
	char violation[200];
} w;

static uint64_t joins, packets;

static uint64_t draw(uint64_t below)
{
	return sim_draw(&w.random, below);
}

static bool chance(uint32_t in_1000)
{
	return draw(1000) < in_1000;
}

static void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void violation(const char *format, ...)
{
	va_list args;

	if (w.violation[0])
		return;
	va_start(args, format);
	vsnprintf(w.violation, sizeof(w.violation), format, args);
	va_end(args);
}

/* ---- what flies ------------------------------------------------------------------------------ */

static void fly(struct thing t, uint64_t delay)
{
	for (uint32_t i = 0; i < FLYING; i++) {
		if (w.things[i].used)
			continue;
		w.most = i < w.most ? w.most : i + 1;
		w.things[i] = t;
		w.things[i].used = true;
		w.things[i].at = w.now + delay;
		return;
	}
	violation("J5: more is under way than there can be");
}

static void say(uint8_t from, enum kind kind)
{
	const struct sdr_join *j = &w.ends[from].j;
	struct thing t = { .kind = kind, .to = !from, .life = j->life };

	t.stage = (uint8_t)sdr_join_stage_of(j);
	if (kind == JOIN && t.stage == SDR_STAGE_NONE)
		return;
	w.said += w.now + SILENCE * w.lifetime > w.end_at;
	for (int copies = !w.healed && chance(100) ? 2 : 1; copies; copies--)
		if (w.healed || !chance(w.loss))
			fly(t, w.delay + (!w.healed && chance(200) ? draw(3 * w.lifetime) : 0));
}

/* S: what its peer could not take is a mistake, but where the peer has left meanwhile. */
static void send_packet(uint8_t from)
{
	struct end *e = &w.ends[from], *peer = &w.ends[!from];

	if (e->queued || e->keys_life == NO_KEYS)
		return;
	if (peer->j.life <= e->j.life &&
	    !(peer->has_qp && peer->is_connected && peer->qp_life == e->j.life))
		violation("J3: end %d sends in life %d, and the peer is %s in %d", from, e->j.life,
			  sdr_join_state_name(peer->j.join_state), peer->j.life);
	if (!e->well)
		violation("J6: end %d uses a NIC that is dead", from);
	e->queued = 1 + (uint32_t)draw(4);
	e->queued_life = e->j.life;
	e->queued_key = e->keys_life;
	packets += e->queued;
}

/* A NIC sends what it was given; one whose firmware is dead does, too, until it is reset. */
static void packets_leave(uint8_t from)
{
	struct end *e = &w.ends[from];
	struct thing t = { .kind = PACKET, .to = !from };

	if (!e->queued || !chance(e->well ? 700 : 100))
		return;
	e->queued--;
	t.life = e->queued_life;
	t.key_life = e->queued_key;
	fly(t, chance(100) ? w.lifetime - 1 - draw(w.lifetime / 20) : w.delay);
}

static void packet_arrives(const struct thing *t)
{
	const struct end *e = &w.ends[t->to];

	if (!e->has_qp || !e->is_connected)
		return;
	if (e->qp_life != t->life)
		violation("J1: a packet of life %d reaches a queue pair of %d", t->life,
			  e->qp_life);
	else if (t->key_life != t->life)
		violation("J2: a packet of life %d has a key of %d", t->life, t->key_life);
}

static void arrives(const struct thing *t)
{
	struct end *e = &w.ends[t->to];

	if (t->kind == PACKET) {
		packet_arrives(t);
		return;
	}
	sdr_join_hear_life(&e->j, t->life, w.now);
	if (t->kind == JOIN)
		sdr_join_hear(&e->j, t->life, (enum sdr_join_stage)t->stage, w.now);
	if (t->kind == HEAD_ASKS)
		say(t->to, HEAD);
	if (t->kind == KEYS && sdr_join_takes_keys(&e->j, t->life))
		e->keys_life = t->life;
}

/* ---- an end ---------------------------------------------------------------------------------- */

static void fails(uint8_t i)
{
	struct end *e = &w.ends[i];

	w.failures++;
	e->well = false;
	e->zombie = chance(500);
	e->well_at = w.now + draw(chance(300) ? 40 * w.lifetime : 3 * w.lifetime);
	if (!e->zombie && !chance(300))
		e->queued = 0;
}

/* A reset: what it had is gone. */
static void recovers(struct end *e)
{
	e->well = true;
	e->queued = 0;
}

/* As the shell finds it, sooner or later. */
static void is_seen(struct end *e)
{
	if (!e->well && (!e->lost || e->j.ready_at)) {
		e->lost = true;
		sdr_join_fail(&e->j, w.now);
	}
	if (e->well && !e->job && e->j.join_state > SDR_JOIN_CLOSING)
		sdr_join_ready(&e->j, w.now);
}

static void begin_job(struct end *e, uint32_t job)
{
	e->job = job;
	e->job_at = w.now + draw(chance(100) ? 2 * w.lifetime : w.lifetime / 5);
	e->job_ok = w.healed || !chance(100);
}

static void job_is_done(struct end *e)
{
	uint32_t job = e->job;
	bool ok = e->job_ok && e->well;

	e->job = 0;
	if (job == SDR_TODO_CLOSE) {
		e->has_qp = e->is_connected = false;
		if (e->well)
			e->queued = 0;
		sdr_join_closed(&e->j, w.now);
	} else if (job == SDR_TODO_MAKE) {
		e->has_qp = ok;
		e->qp_life = (uint8_t)(e->j.life + 1);
		sdr_join_made(&e->j, ok, w.now);
	} else {
		e->is_connected = ok;
		sdr_join_connected(&e->j, ok, w.now);
	}
}

static void do_now(uint8_t i, uint32_t todo)
{
	struct end *e = &w.ends[i];

	if (todo & SDR_TODO_CLOSE) {
		e->keys_life = NO_KEYS;
		e->is_connected &= e->zombie;
		begin_job(e, SDR_TODO_CLOSE);
	}
	if (todo & (SDR_TODO_MAKE | SDR_TODO_CONNECT))
		begin_job(e, todo & (SDR_TODO_MAKE | SDR_TODO_CONNECT));
	if (todo & SDR_TODO_USE) {
		joins++;
		e->lost = false;
	}
	if (todo & SDR_TODO_SAY)
		say(i, JOIN);
	if (todo & SDR_TODO_TELL)
		say(i, HEAD);
}

static void live(uint8_t i)
{
	struct end *e = &w.ends[i];
	bool up = e->j.join_state == SDR_JOIN_UP;

	if (e->well && !w.healed && w.failures < FAILURES && chance(2))
		fails(i);
	if (!e->well && w.now >= e->well_at && !(w.stays_dead && !i))
		recovers(e);
	packets_leave(i);
	if (e->job && w.now >= e->job_at)
		job_is_done(e);
	if (chance(200) || w.healed)
		is_seen(e);
	do_now(i, sdr_join_tick(&e->j, w.now));
	if (e->j.join_state != SDR_JOIN_UP && !e->j.told && w.now >= e->ask_at) {
		e->ask_at = w.now + 20 * MS;
		say(i, HEAD_ASKS);
	}
	up &= e->j.join_state == SDR_JOIN_UP;
	if (up && e->well && !w.healed && chance(200))
		say(i, KEYS);
	if (up && e->well && chance(300))
		send_packet(i);
}

/* ---- a schedule ------------------------------------------------------------------------------ */

static void begin(uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.random = seed * 0x2545f4914f6cdd1dull + 1;
	w.now = MS;
	w.lifetime = 100 * MS + draw(900 * MS);
	w.delay = MS + draw(w.lifetime / 4);
	w.loss = (uint32_t)draw(500);
	w.heal_at = (10 + draw(80)) * w.lifetime;
	w.end_at = w.heal_at + HEALING * w.lifetime;
	w.stays_dead = chance(200);
	for (int i = 0; i < 2; i++) {
		sdr_join_init(&w.ends[i].j, w.lifetime);
		w.ends[i].well = w.ends[i].has_qp = w.ends[i].is_connected = true;
		w.ends[i].keys_life = 0;
	}
}

static void heal(void)
{
	w.healed = true;
	if (w.stays_dead && w.ends[0].well)
		fails(0);
	for (int i = w.stays_dead; i < 2; i++)
		if (!w.ends[i].well)
			w.ends[i].well_at = w.now;
}

static void judge(void)
{
	const struct sdr_join *a = &w.ends[0].j, *b = &w.ends[1].j;
	bool up = a->join_state == SDR_JOIN_UP && b->join_state == SDR_JOIN_UP;

	if (w.stays_dead && (a->join_state == SDR_JOIN_UP || b->join_state == SDR_JOIN_UP))
		violation("J6: a way is in use whose NIC is dead");
	else if (!w.stays_dead && (!up || a->life != b->life))
		violation("J4: %s in life %d, %s in %d", sdr_join_state_name(a->join_state),
			  a->life, sdr_join_state_name(b->join_state), b->life);
	else if (w.said > (w.stays_dead ? FEW : 0)) /* whose NIC is well may try now and then */
		violation("J5: it is not silent, but says %llu things", (unsigned long long)w.said);
}

static void run(uint64_t seed)
{
	uint64_t step;

	begin(seed);
	step = w.lifetime / 100;
	for (; w.now < w.end_at && !w.violation[0]; w.now += 1 + draw(step)) {
		if (w.now >= w.heal_at && !w.healed)
			heal();
		for (uint32_t i = 0; i < w.most; i++) {
			struct thing t = w.things[i];

			if (!t.used || t.at > w.now)
				continue;
			w.things[i].used = false;
			arrives(&t);
		}
		live((uint8_t)draw(2));
	}
	if (!w.violation[0])
		judge();
}

static const struct {
	const char *name;
	enum sdr_mutant mutant;
} mutants[] = {
	{ "join-without-rest", SDR_MUTANT_JOIN_NO_REST },
	{ "join-unconnected", SDR_MUTANT_JOIN_UNCONNECTED },
	{ "join-late-head", SDR_MUTANT_JOIN_LATE_HEAD },
	{ "join-old-keys", SDR_MUTANT_JOIN_OLD_KEYS },
};

static int usage(void)
{
	fprintf(stderr, "usage: sdr_join_sim [--seeds N] [--seed S] [--mutant NAME]\n");
	return 2;
}

static bool choose(const char *name)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(*mutants); i++)
		if (!strcmp(mutants[i].name, name))
			sdr_mutant = mutants[i].mutant;
	return sdr_mutant != SDR_MUTANT_NONE;
}

int main(int argc, char **argv)
{
	uint64_t seeds = 300, seed = (uint64_t)time(NULL) * 1000003 & 0xffffffffff;
	const char *mutant = NULL;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seeds"))
			seeds = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--mutant") && choose(argv[i + 1]))
			mutant = argv[i + 1];
		else
			return usage();
	}
	printf("first seed %llu\n", (unsigned long long)seed);
	for (uint64_t n = 0; n < seeds && !w.violation[0]; n++)
		run(seed + n);
	printf("%llu times joined, %llu packets\n", (unsigned long long)joins,
	       (unsigned long long)packets);
	if (w.violation[0])
		printf("seed %llu breaks %s\n  replay: --seed %llu --seeds 1%s%s\n",
		       (unsigned long long)w.seed, w.violation, (unsigned long long)w.seed,
		       mutant ? " --mutant " : "", mutant ? mutant : "");
	if (!mutant)
		return w.violation[0] || !joins;
	printf("mutant %s %s\n", mutant, w.violation[0] ? "caught" : "SURVIVED");
	return !w.violation[0];
}
