/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How soon a path that dies is left, and how often one that lives: the rules of core/path_health.c
 * and core/silence.c in simulated time. A connection sends over path 0, through a switch's queue;
 * path 1 stands by. Weathers delay and drop what goes over path 0, pings among it; in none of them
 * may the connection move. Deaths cut path 0 in calm weather.
 *
 *     detect_sim [--runs N] [--seed S] [--table] [--beat MS]
 *
 * --table: the same for several times of silence, those that --beat (50) allows. Else that of the
 * defaults, and 1 is returned if anything moved that should not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/core/path_health.h"
#include "shiftlib/core/silence.h"
#include "tests/lib/random.h"

#define MS	1000000ull
#define S	1000000000ull
#define STEP_NS (MS / 10)

enum {
	PATHS = 2,
	QUEUE = 4096,	 /* packets of the longest queue */
	FLOWS = 12,	 /* the connection's are the first */
	OWN = 4,	 /* queue pairs */
	PACKETS_MS = 40, /* of the link that is well */
	TRIP_STEPS = 2,	 /* calm round trip */
	RETRY_MS = 67,	 /* the transport's timer, at 4.096 us * 2^14 */
	LATE = 64,	 /* packets and answers that are under way */
	RUN_S = 4,
	DEFAULT_BEATS = 4, /* the default silence, in heartbeats */
};

enum weather { CALM, INCAST, PAUSE, SLOW_RECEIVER, SLOW_LINK, WEATHERS };

static const char *const names[WEATHERS] = { "calm", "incast", "pause", "slow receiver",
					     "slow link" };

/* A packet: of a flow, or a ping of that number. */
struct packet {
	uint8_t flow; /* FLOWS: a ping */
	uint32_t number;
};

/* A flow of messages: go-back-N, with NAKs and a timer. */
struct flow {
	bool on;
	uint32_t window, message; /* packets under way at most; packets of a message */
	uint32_t sent, acked, expected;
	bool naked; /* the receiver has told of the gap */
	uint64_t progress_at;
	bool unready; /* the receiver takes nothing */
};

/* What comes back at a step: an acknowledgement, a NAK, or the answer to a ping. */
struct answer {
	uint64_t at;
	uint8_t flow, path;
	uint32_t number;
	bool nak;
};

struct sim {
	uint64_t random, now;
	enum weather weather;
	struct packet queue[QUEUE];
	uint32_t head, tail, cap, rate; /* rate: packets of a ms */
	uint64_t credit;		/* thousandths of a packet that may go */
	struct flow flow[FLOWS];
	struct answer answers[QUEUE];
	uint32_t n_answers;
	bool cut, paused, held;	    /* held: at our own port, so we know it */
	uint64_t cut_at, change_at; /* next change of the weather */
	uint64_t awake_at[2];	    /* when the threads of our end and of the peer run next */
	uint64_t gaps_at;	    /* the last NAK */
	struct sh_path_health path[PATHS];
	struct sh_path_health *paths[PATHS];
	struct sh_silence silence;
	uint64_t look_at, looked;
	uint64_t completed;
	uint64_t held_since, pause_ns;
	uint32_t pings;
};

static uint64_t between(struct sim *s, uint64_t low, uint64_t high)
{
	return low + random_next(&s->random) % (high - low + 1);
}

/* From low to high, all magnitudes alike. */
static uint64_t any_size(struct sim *s, uint64_t low, uint64_t high)
{
	uint64_t top = low;

	while (top < high && random_below(&s->random, 1 << 16) < (1 << 16) - (1 << 14))
		top *= 2;
	return between(s, low, top < high ? top : high);
}

/* ---- the network ----------------------------------------------------------------------------- */

static uint32_t queued(const struct sim *s)
{
	return s->tail - s->head;
}

static void enqueue(struct sim *s, uint8_t flow, uint32_t number)
{
	if (s->cut || queued(s) >= s->cap)
		return; /* lost */
	s->queue[s->tail++ % QUEUE] = (struct packet){ flow, number };
}

static void answer(struct sim *s, uint64_t at, uint8_t flow, uint8_t path, uint32_t number,
		   bool nak)
{
	if (s->n_answers < QUEUE)
		s->answers[s->n_answers++] = (struct answer){ at, flow, path, number, nak };
}

/* The peer's thread answers pings when it runs. */
static uint64_t peer_runs(struct sim *s)
{
	return s->awake_at[1] > s->now ? s->awake_at[1] : s->now;
}

static void arrive(struct sim *s, const struct packet *p)
{
	struct flow *f = &s->flow[p->flow];

	if (p->flow == FLOWS) {
		answer(s, peer_runs(s) + STEP_NS, FLOWS, 0, p->number, false);
		return;
	}
	if (f->unready)
		return;
	if (p->number == f->expected) {
		f->expected++;
		f->naked = false;
		answer(s, s->now + STEP_NS, p->flow, 0, f->expected, false);
	} else if ((int32_t)(p->number - f->expected) > 0 && !f->naked) {
		f->naked = true;
		answer(s, s->now + STEP_NS, p->flow, 0, f->expected, true);
	}
}

static void serve(struct sim *s)
{
	if (s->paused || s->held)
		return;
	s->credit += s->rate * 1000 * STEP_NS / MS;
	for (; s->credit >= 1000 && queued(s); s->credit -= 1000)
		arrive(s, &s->queue[s->head++ % QUEUE]);
	if (!queued(s))
		s->credit = 0;
}

static void go_back(struct flow *f, uint64_t now)
{
	f->sent = f->acked;
	f->progress_at = now;
}

static void take(struct sim *s, const struct answer *a)
{
	struct flow *f = &s->flow[a->flow];
	uint32_t before = f->acked;

	if (a->flow == FLOWS) {
		sh_path_pong(&s->path[a->path], a->number, s->now);
		return;
	}
	if ((int32_t)(a->number - f->acked) > 0) {
		f->acked = a->number;
		f->progress_at = s->now;
	}
	if (a->flow < OWN)
		s->completed += f->acked / f->message - before / f->message;
	if (a->nak) {
		go_back(f, s->now);
		if (a->flow < OWN)
			s->gaps_at = s->now;
	}
}

/* NICs take what is theirs at once; answers to pings wait for our thread. */
static void answers_take(struct sim *s)
{
	uint32_t i, kept = 0;

	for (i = 0; i < s->n_answers; i++) {
		struct answer a = s->answers[i];
		bool late = a.flow == FLOWS && s->awake_at[0] > s->now;

		if (a.at > s->now || late)
			s->answers[kept++] = a;
		else if (!s->cut || a.path)
			take(s, &a);
	}
	s->n_answers = kept;
}

static void flows_send(struct sim *s)
{
	uint32_t i, k;

	for (k = 0; k < FLOWS; k++) {
		struct flow *f = &s->flow[(k + s->now / STEP_NS) % FLOWS];

		i = (uint32_t)(f - s->flow);
		if (!f->on || (i < OWN && s->held))
			continue;
		if (f->sent != f->acked && s->now - f->progress_at > RETRY_MS * MS)
			go_back(f, s->now);
		if (f->sent == f->acked)
			f->progress_at = s->now;
		for (uint32_t n = 0; n < 8 && f->sent - f->acked < f->window; n++)
			enqueue(s, (uint8_t)i, f->sent++);
	}
}

/* ---- the weather ----------------------------------------------------------------------------- */

/* By the switch, which we do not know; or of our own port. Never for more than half of the time. */
static void pause_change(struct sim *s)
{
	uint64_t ns;

	if (s->paused || s->held) {
		s->paused = s->held = false;
		s->change_at = s->now + s->pause_ns + any_size(s, MS / 10, 50 * MS);
		return;
	}
	s->held = random_below(&s->random, 2);
	s->paused = !s->held;
	s->held_since = s->now;
	ns = any_size(s, MS / 10, (s->held ? 180 : 45) * MS);
	s->pause_ns = ns;
	s->change_at = s->now + ns;
}

static void weather_change(struct sim *s)
{
	uint32_t i;

	switch (s->weather) {
	case INCAST:
		for (i = OWN; i < FLOWS; i++)
			s->flow[i].on = random_below(&s->random, 3) != 0;
		s->change_at = s->now + any_size(s, 5 * MS, 500 * MS);
		break;
	case PAUSE: pause_change(s); break;
	case SLOW_RECEIVER:
		for (i = 0; i < OWN; i++)
			s->flow[i].unready = random_below(&s->random, 2);
		s->rate = (uint32_t)between(s, PACKETS_MS / 8, PACKETS_MS);
		s->paused = !s->paused && !random_below(&s->random, 4);
		s->change_at =
			s->now + (s->paused ? any_size(s, MS, 45 * MS) : any_size(s, MS, 400 * MS));
		break;
	case SLOW_LINK:
		s->rate = random_below(&s->random, 2) ? PACKETS_MS
						      : PACKETS_MS / (uint32_t)between(s, 4, 40);
		s->change_at = s->now + any_size(s, 50 * MS, S);
		break;
	case CALM:
	case WEATHERS: s->change_at = UINT64_MAX; break;
	}
}

/* Threads run late now and then, as where cores are busy: each for itself. */
static void threads_sleep(struct sim *s)
{
	for (int i = 0; i < 2; i++)
		if (s->awake_at[i] <= s->now && !random_below(&s->random, 400))
			s->awake_at[i] = s->now + any_size(s, MS / 10, 40 * MS);
}

/* ---- the detector ---------------------------------------------------------------------------- */

static bool congested(const struct sim *s)
{
	return s->gaps_at && s->now - s->gaps_at < 2 * S &&
	       s->now - s->path[0].silent_since < 5 * SH_PATH_BEATS * s->path[0].config->beat_ns;
}

static void look(struct sim *s)
{
	bool completes = s->completed != s->looked;

	s->look_at = s->now + s->path[0].config->beat_ns / SH_PATH_LOOKS;
	s->looked = s->completed;
	sh_path_set_work(s->paths[0], completes ? SH_PATH_COMPLETES : SH_PATH_WORKS, s->now);
	sh_paths_spare(s->paths, PATHS, s->now);
}

static void ping(struct sim *s, uint32_t i)
{
	uint32_t seq;

	if (!sh_path_ping(s->paths[i], s->now, &seq))
		return;
	s->pings++;
	if (i)
		answer(s, peer_runs(s) + TRIP_STEPS * STEP_NS, FLOWS, 1, seq, false);
	else
		enqueue(s, FLOWS, seq);
}

/* True: the connection leaves the path. */
static bool detect(struct sim *s)
{
	struct sh_path_health *path = s->paths[0];

	if (s->now >= s->look_at)
		look(s);
	if (s->held && s->now - s->held_since > path->config->beat_ns / 8)
		sh_path_held(path, s->now);
	sh_paths_hurry(s->paths, PATHS);
	ping(s, 0);
	ping(s, 1);
	if (sh_path_up(path) && sh_path_lost(path, s->paths[1], s->now) && !congested(s))
		sh_path_fall(path, s->now);
	if (sh_path_up(path) && !sh_path_suspect(path)) {
		sh_silence_over(&s->silence);
		return false;
	}
	return sh_silence_stands(&s->silence, s->completed, s->now) && !sh_path_up(path) &&
	       sh_silence_dead(&s->silence, path->config->loss_ns / 2, s->now);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void begin(struct sim *s, const struct sh_path_config *config, enum weather weather,
		  uint64_t seed)
{
	uint32_t i, seq;

	memset(s, 0, sizeof(*s));
	s->random = seed;
	s->weather = weather;
	s->now = S;
	s->rate = PACKETS_MS;
	s->cap = (uint32_t)(weather == INCAST	   ? any_size(s, 24, 400)
			    : weather == SLOW_LINK ? any_size(s, 100, 1000)
						   : 1000);
	for (i = 0; i < FLOWS; i++) {
		s->flow[i].on = i < OWN;
		s->flow[i].window = (uint32_t)between(s, 2, 32);
		s->flow[i].message = (uint32_t)any_size(s, 1, 32);
	}
	for (i = 0; i < PATHS; i++) {
		s->paths[i] = &s->path[i];
		sh_path_init(&s->path[i], config, (uint32_t)random_next(&s->random));
		sh_path_set_need(&s->path[i], SH_PATH_BUSY, s->now);
		sh_path_enable(&s->path[i], true, s->now);
		(void)sh_path_ping(&s->path[i], s->now, &seq);
		(void)sh_path_pong(&s->path[i], seq, s->now);
	}
	s->cut_at = weather == CALM ? 3 * S + between(s, 0, S) : UINT64_MAX;
	s->change_at = 2 * S + S / 2;
}

/* Returns when the connection left, or 0. */
static uint64_t run(struct sim *s)
{
	for (; s->now < (3 + RUN_S) * S; s->now += STEP_NS) {
		s->cut |= s->now >= s->cut_at;
		if (s->now >= s->change_at)
			weather_change(s);
		threads_sleep(s);
		serve(s);
		answers_take(s);
		flows_send(s);
		if (s->awake_at[0] <= s->now && detect(s))
			return s->now;
	}
	return 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t moves_of(const struct sh_path_config *config, enum weather weather, uint32_t runs,
			 uint64_t *seed)
{
	static struct sim s;
	uint32_t i, moves = 0;

	for (i = 0; i < runs; i++) {
		uint64_t own = random_next(seed);

		begin(&s, config, weather, own);
		if (run(&s)) {
			moves++;
			if (getenv("DETECT_SIM_VERBOSE"))
				fprintf(stderr, "%s: seed %llu moved at %llu ms\n", names[weather],
					(unsigned long long)own, (unsigned long long)(s.now / MS));
		}
	}
	return moves;
}

/* Times from the death to the verdict, in us: median and 99 of 100; pings a second before it. */
static void deaths_of(const struct sh_path_config *config, uint32_t runs, uint64_t *seed,
		      uint64_t out[3])
{
	static struct sim s;
	uint64_t *took = calloc(runs, sizeof(*took)), pings = 0, ns = 0, left;
	uint32_t i;

	for (i = 0; i < runs; i++) {
		begin(&s, config, CALM, random_next(seed));
		left = run(&s);
		took[i] = left ? left - s.cut_at : UINT64_MAX;
		pings += s.pings;
		ns += s.cut_at - S;
	}
	qsort(took, runs, sizeof(*took), by_size);
	out[0] = took[runs / 2] / 1000;
	out[1] = took[runs - 1 - runs / 100] / 1000;
	out[2] = pings * S / ns;
	free(took);
}

/* Returns how many moves were false. */
static uint32_t row(uint64_t beat_ms, uint64_t loss_ms, uint32_t runs, uint64_t seed)
{
	const struct sh_path_config config = { .heartbeat = true,
					       .beat_ns = beat_ms * MS,
					       .loss_ns = loss_ms * MS,
					       .idle_ns = 10 * S,
					       .probe_min_ns = 20 * MS,
					       .probe_max_ns = S,
					       .hold_min_ns = S,
					       .hold_max_ns = 120 * S,
					       .calm_ns = 60 * S };
	uint64_t death[3];
	uint32_t moves[WEATHERS], all = 0;
	int w;

	deaths_of(&config, runs, &seed, death);
	for (w = INCAST; w < WEATHERS; w++)
		all += moves[w] = moves_of(&config, (enum weather)w, runs, &seed);
	printf("%6llu %6llu %10.1f %10.1f %8llu %8u %8u %14u %10u\n", (unsigned long long)beat_ms,
	       (unsigned long long)loss_ms, (double)death[0] / 1e3, (double)death[1] / 1e3,
	       (unsigned long long)death[2], moves[INCAST], moves[PAUSE], moves[SLOW_RECEIVER],
	       moves[SLOW_LINK]);
	fflush(stdout);
	return all;
}

int main(int argc, char **argv)
{
	static const uint64_t losses[] = { 400, 300, 200, 150, 125, 100, 85, 75, 65, 55 };
	uint32_t runs = 1000, i;
	uint64_t seed = 0, beat_ms = 50;
	bool table = false;

	for (i = 1; i < (uint32_t)argc; i++) {
		if (!strcmp(argv[i], "--table"))
			table = true;
		else if (!strcmp(argv[i], "--runs") && i + 1 < (uint32_t)argc)
			runs = (uint32_t)strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--seed") && i + 1 < (uint32_t)argc)
			seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--beat") && i + 1 < (uint32_t)argc)
			beat_ms = strtoull(argv[++i], NULL, 0);
		else
			return 2;
	}
	if (!seed)
		seed = random_seed("detect_sim");
	printf("%6s %6s %10s %10s %8s %8s %8s %14s %10s\n", "beat", "loss", "median ms", "99 % ms",
	       "pings/s", names[1], names[2], names[3], names[4]);
	if (!table)
		return row(50, 75, runs, seed) != 0;
	for (i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		if (losses[i] > beat_ms && losses[i] <= DEFAULT_BEATS * beat_ms)
			row(beat_ms, losses[i], runs, seed);
	return 0;
}
