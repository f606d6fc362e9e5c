/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which NIC runs atomics: some connections to one or two responders, random faults, drains and moves, messages
 * lost, doubled and overtaken. At no moment may two NICs of one be able to execute atomics (N1): by an oracle
 * that looks at the carriers themselves. When faults stop, all that wait go on, at home. Each rule broken on
 * purpose is noticed. Two responders have a connection to each other, whose ends both do atomics: a pair of
 * `conn`, which move together, as both groups want it.
 *
 * Three have connections to each other in a row or in a circle: when faults stop, one default path stays dead, and all
 * go on, those of the others too, whose homes follow; and come home when it is well again.
 *
 * Or any connections join several hosts, two of which may share the word, and any paths stay dead: then homes stand still
 * in the end, nobody waits if there is a path for all, or though its homes are not apart. Some peers are of a version before.
 *
 * Or the responders are processes of one host that share the word (core/home_board.h): no two NICs of all of them
 * may run atomics. They come late, and die at any moment: their queue pairs are there for a while longer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "shiftlib/base/util.h"
#include "shiftlib/core/home.h"
#include "shiftlib/core/home_board.h"
#include "tests/lib/random.h"

enum { MEMBERS = 24, FEW = 4, ROW = 4, CIRCLE = 6, HOSTS = 5, FEW_HOSTS = 3, PATHS = 3 };
enum { EPOCHS = 400, WIRE = 64 };
enum { ROUNDS = 4000, MUTANT_ROUNDS = 40000, STEPS = 1500, HEAL = 30000, LAME = 20000 };
enum { STABLE = 300, STILL = 40000 };

struct conn {
	struct sc_home_user user;
	struct sc_home_member member;
	uint32_t host;	   /* that responds */
	struct conn *twin; /* the same connection, as the other end responds; NULL: that does not */
	uint8_t up, steady; /* its paths */
	uint8_t lame;	    /* paths that stay dead, of many */
	bool old;	    /* of a version that tells nothing */
	uint32_t told;	    /* where the twin's group cannot be */
	bool posts;	    /* its application does atomics */
	bool foreign;	 /* it takes no part: it is where it is, and nobody can tell it anything */
	bool waits;	 /* one waits in the engine */
	bool used;	 /* one was posted */
	bool fenced;	 /* an ordered move is under way: nothing more is shown to the NIC */
	uint32_t active; /* carrier in use at the requester */
	bool gone_from;	 /* ... which has left it */
	uint32_t in_flight[EPOCHS];
	uint8_t path_of[EPOCHS];
};

struct letter {
	uint32_t conn;
	bool to_responder;
	struct sc_msg_home m;
};

struct host {
	struct sc_home_member *members[MEMBERS];
	struct sc_home_group group;
	bool busy;
	bool shares; /* the word with others */
	/* of one that does */
	struct sc_home_seat seat;
	bool dead;    /* it says and hears nothing any more */
	bool cleared; /* ... and its queue pairs are gone, or it has not come yet */
};

/* Who responds. */
enum kind {
	ALONE,
	TWO,	/* that are apart, with a connection to each other */
	THREE,	/* ... in a row, or in a circle */
	MANY,	/* ... anyhow */
	SHARED, /* processes with one word */
};

static struct world {
	struct conn conn[MEMBERS];
	struct host host[HOSTS];
	struct letter wire[WIRE];
	struct sc_home_board board;
	enum kind kind;
	uint32_t n, n_letters, places, hosts;
	bool calm;
	bool echoes; /* who said where it cannot be has heard it as another's */
	bool lame;   /* ... but for path 0 of the first connection */
	bool blind;  /* a peer's home is taken for its operator's wish */
	uint64_t random;
	uint32_t grants, lifts, ran, homes, deaths;
} w;

static bool chance(uint32_t percent)
{
	return random_below(&w.random, 100) < percent;
}

static uint8_t drained_here(const struct conn *c)
{
	return sc_home_drained(&w.host[c->host].group, &c->member);
}

static uint8_t drained_there(const struct conn *c)
{
	return c->twin ? drained_here(c->twin) : 0;
}

static bool allowed(const struct conn *c)
{
	return sc_home_may(&c->user, c->active, c->path_of[c->active]);
}

/* ---- messages --------------------------------------------------------------------------------- */

static void put(uint32_t conn, bool to_responder, const struct sc_msg_home *m)
{
	uint32_t at = w.n_letters < WIRE ? w.n_letters++ : random_below(&w.random, WIRE);

	w.wire[at] = (struct letter){ conn, to_responder, *m };
}

static void requester_says(uint32_t i)
{
	static const struct sc_home_member nobody;
	struct conn *c = &w.conn[i];
	struct sc_msg_home m;

	sc_home_fill(&c->user, &nobody, &m);
	m.wants = c->waits && !allowed(c) && !c->gone_from;
	m.wants_of = c->active;
	m.ask = m.wants;
	put(i, true, &m);
}

static void responder_says(uint32_t i)
{
	static const struct sc_home_user nobody;
	struct sc_msg_home m;

	sc_home_fill(&nobody, &w.conn[i].member, &m);
	m.ask = sc_home_unheard(&w.conn[i].member);
	put(i, false, &m);
	w.conn[i].member.news = false;
}

static void requester_hears(uint32_t i, const struct sc_msg_home *m)
{
	struct conn *c = &w.conn[i];
	bool bar, word = sc_home_barred(&c->user, m, &bar);

	if (word) {
		sc_home_obey(&c->user, m, c->used);
		if (!bar && !c->gone_from)
			sc_home_takes(&c->user, c->active, c->path_of[c->active]);
	}
	w.grants += sc_home_answered(&c->user, m, c->active);
	w.lifts += word && !bar;
	if (allowed(c))
		c->waits = false;
	if (m->ask)
		requester_says(i);
}

static void deliver(void)
{
	uint32_t at;
	struct letter l;

	if (!w.n_letters)
		return;
	at = random_below(&w.random, w.n_letters);
	l = w.wire[at];
	if (w.calm || !chance(10)) /* else it will come again */
		w.wire[at] = w.wire[--w.n_letters];
	if (!w.calm && chance(20))
		return;
	if (w.conn[l.conn].foreign)
		return;
	if (l.to_responder && w.host[w.conn[l.conn].host].dead)
		return;
	if (l.to_responder)
		sc_home_heard(&w.conn[l.conn].member, &l.m);
	else
		requester_hears(l.conn, &l.m);
}

static void look(struct conn *c)
{
	c->member.ok = c->up;
	if (w.blind)
		c->member.ok &= (uint8_t)~drained_there(c);
	if (c->foreign)
		c->member.ok = 0;
	c->member.steady = c->member.ok & c->steady;
	c->member.asked = drained_there(c);
	c->member.cannot = c->told;
	c->member.from = c->twin ? c->twin->host + 1 : 0;
}

/* As conn/atomics/home.c, home_open(). */
static void open_up(struct host *h, struct sc_home_member *m)
{
	if (!m->shut || m->silent)
		return;
	if ((m->bar_no & 1) && m->heard)
		m->shut = false;
	else if (!h->busy)
		m->shut = h->shares && !sc_home_board_enter(&h->seat);
}

static void step_of_group(struct host *h)
{
	if (h->shares)
		(void)sc_home_board_step(&h->seat, &h->group);
	else
		sc_home_step(&h->group);
	h->busy = !sc_home_at_rest(&h->group) || (h->shares && sc_home_board_busy(&w.board));
}

static void step(struct host *h)
{
	uint8_t home = h->group.home;

	if (h->dead)
		return;
	for (uint32_t i = 0; i < w.n; i++)
		look(&w.conn[i]);
	step_of_group(h);
	w.homes += home != h->group.home;
	for (uint32_t i = 0; i < h->group.n; i++)
		open_up(h, h->members[i]);
	for (uint32_t i = 0; i < w.n; i++)
		if (w.conn[i].member.news && &w.host[w.conn[i].host] == h)
			responder_says(i);
}

/* In a row, nobody is further from another than there are hosts. */
static bool echoes(uint32_t told)
{
	for (uint32_t k = 0; k < PATHS && w.n == ROW; k++)
		if ((told >> (4 * k) & 15) > FEW_HOSTS)
			return true;
	return false;
}

/* It comes in order, as masks do. */
static void tell_twin(struct conn *c)
{
	const struct sc_home_group *theirs = c->twin ? &w.host[c->twin->host].group : NULL;

	if (!c->twin || c->old || !(w.calm || chance(50)))
		return;
	c->told = sc_home_cannot(theirs, &c->twin->member);
	w.echoes |= w.kind == THREE && echoes(c->told);
}

static void repeat(uint32_t i)
{
	tell_twin(&w.conn[i]);
	if (w.conn[i].waits)
		requester_says(i);
	if (sc_home_unheard(&w.conn[i].member) && !w.host[w.conn[i].host].dead)
		responder_says(i);
}

/* ---- the data path ---------------------------------------------------------------------------- */

static void post(struct conn *c, uint32_t i)
{
	if (!c->posts || c->member.shut)
		return;
	if (c->gone_from || c->fenced) { /* withheld */
		c->used = true;
		return;
	}
	if (allowed(c)) {
		c->in_flight[c->active]++;
		c->used = true;
	} else if (!c->waits) {
		c->waits = true;
		c->used = true;
		requester_says(i);
	}
}

static void execute(struct conn *c)
{
	for (uint32_t e = c->member.quiesced; e <= c->active; e++)
		if (c->in_flight[e] && chance(50)) {
			c->in_flight[e] -=
				w.calm ? 1 + random_below(&w.random, c->in_flight[e]) : 1;
			w.ran++;
		}
}

/* ---- moves: the responder leaves and quiesces, then the requester arrives --------------------- */

static int target_of(struct conn *c, uint8_t drained)
{
	uint8_t others = c->up & (uint8_t) ~(1u << c->member.path);
	uint8_t first = others & (uint8_t)~drained;

	if (first)
		return __builtin_ctz(first);
	return others ? __builtin_ctz(others) : -1;
}

static bool ordered(const struct conn *c, uint8_t drained, int to)
{
	uint8_t can = c->up & (uint8_t)~drained;

	if (to < 0 || !(can & 1u << to))
		return false;
	if (drained & 1u << c->member.path)
		return true;
	return to < c->member.path && (c->steady & 1u << to);
}

static void leave_alone(struct conn *c, int to)
{
	c->member.epoch++;
	c->member.path = (uint8_t)to;
	c->path_of[c->member.epoch] = (uint8_t)to;
	if (chance(50))
		c->gone_from = true; /* else the word of it is still under way */
}

static void leave(struct conn *c, int to)
{
	leave_alone(c, to);
	if (c->twin)
		leave_alone(c->twin, to);
}

static bool has_arrived(const struct conn *c)
{
	return c->member.epoch == c->member.quiesced && c->active == c->member.epoch;
}

static void begin_move(struct conn *c)
{
	uint8_t drained = drained_here(c) | drained_there(c);
	int to = target_of(c, drained);
	struct conn *twin = c->twin;

	if (to < 0) /* whatever it was for is gone */
		(twin ? twin : c)->fenced = c->fenced = false;
	if (c->member.epoch + 1 >= EPOCHS || to < 0 || (twin && !has_arrived(twin)))
		return;
	if (!(c->up & 1u << c->member.path)) {
		leave(c, to);
		return;
	}
	c->fenced = ordered(c, drained, to) && (w.calm || chance(80));
	if (twin)
		twin->fenced = c->fenced;
	if (c->fenced && !c->in_flight[c->active] && !(twin && twin->in_flight[twin->active]))
		leave(c, to);
}

/* It comes, if it has not yet; while others are away, without its right. */
static void come(struct conn *c)
{
	struct host *h = &w.host[c->host];

	if (!c->member.shut || h->busy)
		return;
	c->member.shut = h->shares && !sc_home_board_enter(&h->seat);
}

static void move_on(struct conn *c)
{
	if (w.host[c->host].dead)
		return;
	if (c->foreign) {
		come(c);
		return;
	}
	if (c->member.epoch != c->member.quiesced) {
		if (!chance(30))
			return;
		for (uint32_t e = 0; e < c->member.epoch; e++)
			c->in_flight[e] = 0;
		c->member.quiesced = c->member.epoch;
		return;
	}
	if (c->active != c->member.epoch) {
		c->gone_from = true;
		if (!chance(30))
			return;
		c->active = c->member.epoch;
		c->gone_from = c->fenced = false;
		c->waits = false;
		sc_home_takes(&c->user, c->active, c->path_of[c->active]);
		return;
	}
	begin_move(c);
}

static void shake(struct conn *c)
{
	if (chance(50))
		c->up ^= (uint8_t)(1u << random_below(&w.random, PATHS));
	else
		c->up = (1 << PATHS) - 1;
	c->steady = c->up & (uint8_t)random_next(&w.random);
	if (!c->twin)
		return;
	c->twin->up = c->up;
	c->twin->steady = c->steady;
}

/* ---- processes come and die -------------------------------------------------------------------- */

static void gone(struct host *h)
{
	for (uint32_t i = 0; i < h->group.n; i++) {
		struct conn *c =
			(struct conn *)((char *)h->members[i] - offsetof(struct conn, member));

		*c = (struct conn){ .host = c->host };
	}
	for (uint32_t l = w.n_letters; l-- > 0;)
		if (&w.host[w.conn[w.wire[l].conn].host] == h)
			w.wire[l] = w.wire[--w.n_letters];
	sc_home_board_clear(&w.board, h->seat.me);
	h->cleared = true;
}

/* On each, paths lead to the NICs in another order. */
static void sit_down(struct host *h)
{
	h->seat = (struct sc_home_seat){ &w.board, w.places++, PATHS, { 0, 1, 2 } };
	if (h == &w.host[1])
		h->seat.nic[1] = 2, h->seat.nic[2] = 1;
	w.board.process[h->seat.me] = (struct sc_home_process){
		.ready = ~0u, .can = ~0u, .taken = true, .takes_part = true
	};
	h->shares = true;
	h->dead = h->cleared = false;
	h->busy = true; /* until it has looked */
	h->group = (struct sc_home_group){ .members = h->members, .n = h->group.n };
}

static void connect_all(struct host *h)
{
	for (uint32_t i = 0; i < w.n; i++) {
		struct conn *c = &w.conn[i];

		if (&w.host[c->host] != h)
			continue;
		c->up = c->steady = (1 << PATHS) - 1;
		c->posts = chance(75);
		c->foreign = c->member.silent = chance(5);
		c->member.shut = c->foreign || !sc_home_board_enter(&h->seat);
	}
}

static void live_or_die(struct host *h)
{
	if (w.kind != SHARED)
		return;
	if (h->cleared && w.places < SC_HOME_PROCESSES) {
		sit_down(h);
		connect_all(h);
	} else if (h->dead && !h->cleared && chance(30)) {
		gone(h);
	} else if (!h->dead && !w.calm && chance(1)) {
		w.deaths++;
		h->dead = true;
		if (SC_HOME_MUTANT(DEAD_EARLY))
			sc_home_board_clear(&w.board, h->seat.me);
	}
}

/* ---- what must hold --------------------------------------------------------------------------- */

/* NICs that can execute an atomic now, by the carriers alone. */
static uint8_t can_execute(const struct conn *c)
{
	uint8_t nics = 0;

	for (uint32_t e = c->member.quiesced; e <= c->active; e++)
		if (c->in_flight[e])
			nics |= (uint8_t)(1u << c->path_of[e]);
	if (c->posts && !c->member.shut && c->active >= c->member.quiesced && !c->gone_from &&
	    allowed(c))
		nics |= (uint8_t)(1u << c->path_of[c->active]);
	return nics;
}

/* The same by the NICs' numbers on the board. */
static uint32_t numbers(const struct conn *c)
{
	uint8_t paths = can_execute(c);
	uint32_t nics = 0;

	for (uint32_t k = 0; k < PATHS; k++)
		if (paths & 1u << k)
			nics |= 1u << w.host[c->host].seat.nic[k];
	return nics;
}

static bool on_one_nic(void)
{
	uint32_t nics[HOSTS] = { 0 };
	bool one = true;

	for (uint32_t i = 0; i < w.n; i++)
		if (w.host[w.conn[i].host].shares)
			nics[0] |= numbers(&w.conn[i]);
		else
			nics[w.conn[i].host] |= can_execute(&w.conn[i]);
	for (uint32_t h = 0; h < HOSTS; h++)
		one = one && !(nics[h] & (nics[h] - 1));
	return one;
}

static bool claimed(void)
{
	for (uint32_t i = 0; i < w.n; i++) {
		const struct host *h = &w.host[w.conn[i].host];

		if (h->shares && (numbers(&w.conn[i]) & ~w.board.process[h->seat.me].runs))
			return false;
	}
	return true;
}

/* The module's own belief is never less than what is. */
static bool believed(void)
{
	for (uint32_t i = 0; i < w.n; i++)
		if (can_execute(&w.conn[i]) & ~sc_home_may_run(&w.conn[i].member))
			return false;
	return claimed();
}

static bool all_well(void)
{
	for (uint32_t i = 0; i < w.n; i++)
		if (w.conn[i].waits || w.conn[i].member.path ||
		    w.conn[i].active != w.conn[i].member.epoch)
			return false;
	for (uint32_t h = 0; h < HOSTS; h++)
		if (w.host[h].dead || !sc_home_at_rest(&w.host[h].group))
			return false;
	return !sc_home_board_busy(&w.board);
}

/* All that do atomics may do them where they are. */
static bool all_go_on(void)
{
	for (uint32_t i = 0; i < w.n; i++) {
		const struct conn *c = &w.conn[i];

		if (c->posts && !c->foreign &&
		    (c->waits || c->gone_from || c->fenced || !allowed(c)))
			return false;
	}
	return true;
}

static void act(void)
{
	uint32_t i = random_below(&w.random, w.n);
	struct conn *c = &w.conn[i];

	switch (random_below(&w.random, 9)) {
	case 0: post(c, i); break;
	case 1: execute(c); break;
	case 2: move_on(c); break;
	case 3: repeat(i); break;
	case 4:
		if (!w.calm && !w.host[c->host].dead && chance(8))
			shake(c);
		break;
	case 5: step(&w.host[random_below(&w.random, w.hosts)]); break;
	case 6: live_or_die(&w.host[random_below(&w.random, w.hosts)]); break;
	default: deliver(); break;
	}
}

static void join(struct conn *c, uint32_t host)
{
	struct sc_home_group *group = &w.host[host].group;

	c->host = host;
	group->members[group->n++] = &c->member;
	c->up = c->steady = (1 << PATHS) - 1;
	c->posts = chance(75);
}

static void set_up_shared(void)
{
	for (uint32_t i = 0; i < w.n; i++)
		join(&w.conn[i], i % FEW_HOSTS);
	for (uint32_t h = 0; h < FEW_HOSTS; h++) {
		w.host[h].dead = w.host[h].cleared = chance(30); /* it comes later */
		if (w.host[h].dead) {
			for (uint32_t i = h; i < w.n; i += FEW_HOSTS)
				w.conn[i] = (struct conn){ .host = h };
		} else {
			sit_down(&w.host[h]);
			connect_all(&w.host[h]);
		}
	}
}

/* 0-1, 1-2, and 2-0 or nothing. */
static void set_up_three(void)
{
	w.n = chance(50) ? ROW : CIRCLE;
	for (uint32_t i = 0; i < w.n; i++) {
		join(&w.conn[i], (i + 1) / 2 % FEW_HOSTS);
		w.conn[i].twin = &w.conn[i ^ 1];
		w.conn[i].posts = true;
	}
}

static void set_up_many(void)
{
	uint32_t lame = 20 + random_below(&w.random, 60), old = chance(20) ? 30 : 0;
	uint32_t posts = chance(30) ? 70 : 100;
	bool shared = chance(30);

	for (uint32_t h = 0; h < 2 && shared; h++) {
		sit_down(&w.host[h]);
		(void)sc_home_board_enter(&w.host[h].seat);
	}
	w.n = 2 * (2 + random_below(&w.random, chance(60) ? 4 : MEMBERS / 2 - 1));
	for (uint32_t i = 0; i < w.n; i += 2) {
		uint32_t a = random_below(&w.random, HOSTS);
		uint32_t b = (a + 1 + random_below(&w.random, HOSTS - 1)) % HOSTS;
		struct conn *c = &w.conn[i];

		join(&c[0], a);
		join(&c[1], b);
		if (chance(lame))
			c->lame = (uint8_t)random_below(&w.random, (1 << PATHS) - 1);
		c->old = chance(old);
		for (uint32_t k = 0; k < 2; k++) {
			c[k].lame = c->lame;
			c[k].old = c->old;
			c[k].twin = &c[1 - k];
			c[k].posts = chance(posts);
		}
	}
}

static void set_up(uint64_t seed, enum kind kind)
{
	memset(&w, 0, sizeof(w));
	w.random = seed;
	w.kind = kind;
	w.n = 2 + random_below(&w.random, FEW - 1);
	w.hosts = kind == MANY ? HOSTS : FEW_HOSTS;
	for (uint32_t h = 0; h < HOSTS; h++)
		w.host[h].group.members = w.host[h].members;
	if (kind == SHARED)
		set_up_shared();
	if (kind == THREE)
		set_up_three();
	if (kind == MANY)
		set_up_many();
	for (uint32_t i = 0; i < w.n && kind < THREE; i++) {
		struct conn *c = &w.conn[i];

		join(c, kind == TWO ? (i < 2 ? i : random_below(&w.random, 2)) : 0);
		if (kind == TWO && i < 2)
			c->twin = &w.conn[1 - i];
		else
			c->foreign = c->member.silent = c->member.shut = chance(8);
	}
}

static void calm_down(void)
{
	w.calm = true;
	for (uint32_t i = 0; i < w.n; i++)
		w.conn[i].up = w.conn[i].steady = (1 << PATHS) - 1;
	if (w.lame && w.kind == THREE)
		w.conn[0].lame = w.conn[1].lame = 1;
	for (uint32_t i = 0; i < w.n && w.lame; i++)
		w.conn[i].up = w.conn[i].steady &= (uint8_t)~w.conn[i].lame;
}

/* One default path stays dead: nobody waits for ever. */
static const char *limp(void)
{
	uint32_t since = 0;

	w.lame = true;
	calm_down();
	for (uint32_t s = 0; s < LAME && since < STABLE; s++) {
		act();
		if (!on_one_nic())
			return "two NICs can execute atomics, while a path stays dead";
		since = all_go_on() ? since + 1 : 0;
	}
	w.lame = false;
	return since < STABLE ? "it waits for a home that nobody takes" : NULL;
}

/* Those that connections join, and that share, have a path that would do for all; each tells where it cannot be. */
static bool would_do(void)
{
	uint8_t common[HOSTS];

	memset(common, (1 << PATHS) - 1, sizeof(common));
	for (uint32_t i = 0; i < w.n * HOSTS; i++) {
		const struct conn *c = &w.conn[i % w.n];
		uint8_t *a = &common[c->host], *b = &common[c->twin->host];

		*a = *b = *a & *b & (uint8_t)~c->lame;
		if (!*a || c->old || w.host[c->host].shares)
			return false;
	}
	return true;
}

/* A home of which nobody has reason to be elsewhere, or a right to run atomics there, which is not taken back. */
static bool good_home(const struct host *h)
{
	uint8_t home = (uint8_t)(1u << h->group.home);

	for (uint32_t i = 0; i < w.n; i++) {
		const struct sc_home_member *m = &w.conn[i].member;

		if (&w.host[w.conn[i].host] != h)
			continue;
		if ((w.conn[i].lame & home) || w.conn[i].old ||
		    (m->granted && (sc_home_may_run(m) & ~home & ~1)))
			return false;
	}
	return !h->shares;
}

static bool waits_for_nothing(const struct conn *c)
{
	const struct host *a = &w.host[c->host], *b = &w.host[c->twin->host];

	return c->posts && !allowed(c) && a->group.home == b->group.home && good_home(a) &&
	       good_home(b);
}

/* Whatever stays dead. */
static const char *settle(void)
{
	uint32_t since = 0, still = 0, homes;

	w.lame = true;
	calm_down();
	for (uint32_t s = 0;
	     s < 10 * STILL && still < STILL && (since < STABLE || still < STILL / 4); s++) {
		homes = w.homes;
		act();
		if (!on_one_nic())
			return "two NICs can execute atomics, while paths stay dead";
		since = all_go_on() ? since + 1 : 0;
		still = homes == w.homes ? still + 1 : 0;
	}
	w.lame = false;
	if (since >= STABLE)
		return NULL;
	if (still < STILL)
		return "homes never stand still";
	for (uint32_t i = 0; i < w.n; i++)
		if (waits_for_nothing(&w.conn[i]))
			return "it waits though its homes are not apart";
	return would_do() ? "it waits though a path would do for all" : NULL;
}

/* NULL, or what does not hold. safety: whether it comes home is not looked at. */
static const char *round_of(bool safety)
{
	uint32_t heal = w.kind == MANY ? 20 * HEAL : HEAL;
	bool well = false;

	for (uint32_t s = 0; s < STEPS + heal && !well; s++) {
		if (s == STEPS) {
			const char *wrong = w.kind == THREE  ? limp()
					    : w.kind == MANY ? settle()
							     : NULL;

			if (wrong)
				return wrong;
			calm_down();
		}
		act();
		if (!on_one_nic())
			return "two NICs can execute atomics";
		if (!believed())
			return "what can execute is not known";
		if (w.echoes)
			return "what a group has said came back to it";
		well = w.calm && s > STEPS + 200 && all_well();
	}
	return well || safety ? NULL : "it did not come home";
}

static void rounds(uint64_t seed, enum kind kind)
{
	/* those of more hosts are longer */
	uint32_t n = kind == MANY ? ROUNDS / 80 : kind == THREE ? ROUNDS / 4 : ROUNDS;
	uint32_t grants = 0, lifts = 0, homes = 0, deaths = 0;
	const char *wrong;

	for (uint32_t r = 0; r < n; r++) {
		set_up(seed + r, kind);
		wrong = round_of(false);
		if (wrong)
			fail_msg("round %u (SHIFT_TEST_SEED=%llu): %s", r,
				 (unsigned long long)(seed + r), wrong);
		grants += w.grants;
		lifts += w.lifts;
		homes += w.homes;
		deaths += w.deaths;
	}
	printf("%u grants, %u lifted bars, %u changes of home, %u deaths in %u rounds\n", grants,
	       lifts, homes, deaths, n);
	assert_true(grants > n && lifts > n && homes > n);
	assert_true(kind != SHARED || deaths > n);
}

static void one_nic_at_a_time(void **state)
{
	rounds(random_seed("home"), ALONE);
}

/* Their homes may be opposite: neither may keep the other away from its default NIC when faults are over. */
static void both_ends_respond(void **state)
{
	rounds(random_seed("home of two"), TWO);
}

static void homes_in_a_row_or_a_circle(void **state)
{
	rounds(random_seed("home of three"), THREE);
}

static void homes_of_many(void **state)
{
	rounds(random_seed("home of many"), MANY);
}

static void processes_share_a_word(void **state)
{
	rounds(random_seed("home of processes"), SHARED);
}

/* conn/atomics/home.c, home_ok(): what the peer's group wants is not what its operator wants. */
static void homes_that_look_at_each_other(void **state)
{
	uint64_t seed = random_seed("blind homes");
	const char *wrong = NULL;

	for (uint32_t r = 0; r < ROUNDS && !wrong; r++) {
		set_up(seed + r, TWO);
		w.blind = true;
		wrong = round_of(false);
	}
	assert_string_equal(wrong ? wrong : "nothing", "it did not come home");
}

/* Among which it can be noticed. */
static enum kind kind_for(enum sc_home_mutant mutant)
{
	if (mutant >= SC_HOME_MUTANT_HEEDLESS)
		return mutant == SC_HOME_MUTANT_NO_WAY ? MANY : THREE;
	return mutant >= SC_HOME_MUTANT_OTHERS_UNSEEN ? SHARED : ALONE;
}

static void each_broken_rule_is_noticed(void **state)
{
	uint64_t seed = random_seed("home mutants");
	uint32_t r;

	for (int m = SC_HOME_MUTANT_NONE + 1; m < SC_HOME_MUTANTS; m++) {
		const char *wrong = NULL;

		sc_home_mutant = (enum sc_home_mutant)m;
		for (r = 0; r < MUTANT_ROUNDS && !wrong; r++) {
			set_up(seed + r, kind_for((enum sc_home_mutant)m));
			wrong = round_of(w.kind != THREE && w.kind != MANY);
		}
		sc_home_mutant = SC_HOME_MUTANT_NONE;
		if (!wrong)
			fail_msg("nothing notices mutant %d", m);
		printf("mutant %d: round %u, %s\n", m, r, wrong);
	}
}

static void another_that_takes_no_part_is_named(void **state)
{
	struct sc_home_board board = { 0 };
	const struct sc_home_seat seat = { .board = &board, .me = 1 };

	board.process[1].taken = 1; /* itself has not said so either */
	assert_int_equal(sc_home_board_silent(&seat), -1);
	board.process[0] = (struct sc_home_process){ .taken = 1, .takes_part = 1 };
	board.process[5].taken = 1;
	assert_int_equal(sc_home_board_silent(&seat), 5);
	board.process[5].takes_part = 1;
	assert_int_equal(sc_home_board_silent(&seat), -1);
}

/* Two processes with one member each, which uses atomics. */
struct two {
	struct sc_home_board board;
	struct sc_home_member member[2], *members[2];
	struct sc_home_seat seat[2];
	struct sc_home_group group[2];
};

static void two_come(struct two *two, uint8_t home)
{
	memset(two, 0, sizeof(*two));
	two->board.home = home;
	for (uint32_t i = 0; i < 2; i++) {
		two->member[i] = (struct sc_home_member){
			.bar_no = 1, .heard = true, .user = true, .path = home, .ok = 7, .steady = 7
		};
		two->members[i] = &two->member[i];
		two->seat[i] = (struct sc_home_seat){ &two->board, i, PATHS, { 0, 1, 2 } };
		two->group[i] = (struct sc_home_group){ .members = &two->members[i], .n = 1 };
		two->board.process[i] = (struct sc_home_process){
			.ready = ~0u, .can = ~0u, .taken = 1, .takes_part = 1
		};
	}
}

static void two_go(struct two *two, uint8_t home)
{
	for (uint32_t s = 0; s < 8; s++)
		(void)sc_home_board_step(&two->seat[s & 1], &two->group[s & 1]);
	assert_int_equal(two->board.home, home);
}

/* One's peer cannot be on path 0, the other's not on 2: when path 1 dies, better apart from one of them than from both. */
static void processes_whose_peers_are_at_odds(void **state)
{
	struct two two;

	two_come(&two, 1);
	two.member[0].cannot = 1;
	two.member[1].cannot = 1 << 8;
	two_go(&two, 1);
	two.member[0].ok = two.member[0].steady = 5;
	two_go(&two, 0);
}

/* It has no reason not to be where they are, nor have they: both take the first but 0. */
static void processes_come_to_a_peer_that_is_apart(void **state)
{
	struct two two;

	two_come(&two, 2);
	two.member[0].cannot = 1;
	two_go(&two, 2);
	two.member[0].asked = (uint8_t)~2u;
	two_go(&two, 1);
}

/* No NIC is left where all peers can be: it stays, as on path 0 it would say nothing, and all begin anew. */
static void at_odds_it_stays(void **state)
{
	struct two two;

	two_come(&two, 1);
	two.member[0].cannot = 0x111;
	two.group[0].home = 1;
	sc_home_step(&two.group[0]);
	assert_int_equal(two.group[0].home, 1);
	two_go(&two, 1);
	two.member[0].cannot = 0;
	two_go(&two, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_that_takes_no_part_is_named),
		cmocka_unit_test(one_nic_at_a_time),
		cmocka_unit_test(both_ends_respond),
		cmocka_unit_test(homes_in_a_row_or_a_circle),
		cmocka_unit_test(homes_of_many),
		cmocka_unit_test(processes_share_a_word),
		cmocka_unit_test(processes_whose_peers_are_at_odds),
		cmocka_unit_test(processes_come_to_a_peer_that_is_apart),
		cmocka_unit_test(at_odds_it_stays),
		cmocka_unit_test(homes_that_look_at_each_other),
		cmocka_unit_test(each_broken_rule_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
