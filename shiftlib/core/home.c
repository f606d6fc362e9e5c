/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The choice of the NIC that runs atomics: see home.h. */
#include <string.h>

#include "shiftlib/core/home.h"
#include "shiftlib/core/internal.h"

#ifdef SC_MUTANTS
enum sc_home_mutant sc_home_mutant;
#endif

static uint8_t bit(uint8_t path)
{
	return (uint8_t)(1u << path);
}

static bool odd(uint32_t word)
{
	return word & 1;
}

/* ---- who requests ---------------------------------------------------------------------------- */

static bool is_free(const struct sc_home_user *user, uint8_t path)
{
	return (!path && !odd(user->bar_seen)) || SC_HOME_MUTANT(GATE_OPEN);
}

bool sc_home_may(const struct sc_home_user *user, uint32_t epoch, uint8_t path)
{
	return is_free(user, path) ||
	       (user->granted && (user->granted_of == epoch || SC_HOME_MUTANT(GRANT_OF_ANY)));
}

void sc_home_takes(struct sc_home_user *user, uint32_t epoch, uint8_t path)
{
	if (is_free(user, path))
		user->free_of = epoch;
	user->why = SC_HOME_NOT_ASKED;
}

bool sc_home_barred(const struct sc_home_user *user, const struct sc_msg_home *m, bool *bar)
{
	*bar = odd(m->bar_no);
	return sc_epoch_cmp(m->bar_no, user->bar_seen) > 0;
}

void sc_home_obey(struct sc_home_user *user, const struct sc_msg_home *m, bool used)
{
	user->bar_seen = m->bar_no;
	if (!odd(m->bar_no))
		return;
	user->used = used;
	user->used_of = user->free_of;
}

bool sc_home_answered(struct sc_home_user *user, const struct sc_msg_home *m, uint32_t epoch)
{
	if (m->why < SC_HOME_WHYS)
		user->why = (enum sc_home_why)m->why;
	if (!m->granted || (m->granted_of != epoch && !SC_HOME_MUTANT(GRANT_OF_ANY)))
		return false;
	user->granted = true;
	user->granted_of = m->granted_of;
	return true;
}

/* ---- who responds: what it has heard --------------------------------------------------------- */

static bool is_barred(const struct sc_home_member *m)
{
	return odd(m->bar_no) && (m->heard || SC_HOME_MUTANT(BAR_UNHEARD));
}

static bool still_there(const struct sc_home_member *m, uint32_t epoch)
{
	uint32_t quiesced = SC_HOME_MUTANT(NOT_QUIESCED) ? m->epoch : m->quiesced;

	return sc_epoch_cmp(epoch, quiesced) >= 0;
}

/* True if the member executes nothing, whatever its peer believes. */
static bool is_out(const struct sc_home_member *m)
{
	return m->gone || m->shut || (m->silent && SC_HOME_MUTANT(SILENT_GONE));
}

uint8_t sc_home_may_run(const struct sc_home_member *m)
{
	uint8_t paths = 0;

	if (!is_out(m) && (!is_barred(m) || (m->left && still_there(m, m->left_of))))
		paths |= 1;
	if (m->granted && still_there(m, m->granted_of))
		paths |= bit(m->granted_path);
	return paths;
}

static void heard_bar(struct sc_home_member *member, const struct sc_msg_home *m)
{
	member->heard = true;
	if (!odd(m->bar_seen))
		return;
	member->left = m->used && !SC_HOME_MUTANT(USE_FORGOTTEN);
	member->left_of = m->used_of;
}

void sc_home_heard(struct sc_home_member *member, const struct sc_msg_home *m)
{
	if (m->bar_seen == member->bar_no ||
	    (m->bar_seen && odd(m->bar_seen) && SC_HOME_MUTANT(ANSWER_OF_ANY)))
		heard_bar(member, m);
	member->user |= m->used || m->wants;
	member->wants = m->wants;
	member->wants_of = m->wants_of;
	member->news |= m->ask;
}

/* ---- where the home is ----------------------------------------------------------------------- */

/*
 * True if the member is asked for its paths. A member without any path has nothing to offer; what
 * it may still run counts all the same.
 */
static bool is_asked(const struct sc_home_member *m)
{
	return m->user && m->ok;
}

/* Returns the steps from the peer's group to one that cannot be on the path; 0: there is none. */
static uint8_t steps_to(uint32_t cannot, uint8_t path)
{
	return cannot >> (4 * path) & 15;
}

/* Returns the set of paths where the peer's group cannot be. */
static uint8_t told_off(uint32_t cannot)
{
	uint8_t path, paths = 0;

	for (path = 0; path < SC_MAX_PATHS; path++)
		paths |= steps_to(cannot, path) ? bit(path) : 0;
	return SC_HOME_MUTANT(HEEDLESS) ? 0 : paths;
}

static bool anybody(const struct sc_home_group *g, bool (*is)(const struct sc_home_member *m))
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (is(g->members[i]))
			return true;
	return false;
}

static bool all_take_part(const struct sc_home_group *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (g->members[i]->silent && !is_out(g->members[i]))
			return false;
	return true;
}

/*
 * True if two groups are apart: each home would do, and neither group goes to the other's. Both
 * take the first then.
 */
static bool is_apart(const struct sc_home_group *g, const struct sc_home_member *m)
{
	return m->cannot && (m->asked & bit(g->home));
}

static void add(struct sc_home_fits *fits, const struct sc_home_member *m, uint8_t can)
{
	fits->can &= can;
	fits->ready &= can & (m->steady | bit(m->path));
}

/*
 * Collects the paths of all members. heeded: without paths where their peers' groups cannot be.
 * There may be thousands of members, most with the same masks as the one before, so each is looked
 * at once. False: no member is asked.
 */
static bool fits_of(const struct sc_home_group *g, struct sc_home_fits *own,
		    struct sc_home_fits *heeded)
{
	bool any = false, take_part = all_take_part(g), apart = false;
	uint32_t cannot = 0;
	uint8_t off = 0;
	uint32_t i;

	*own = (struct sc_home_fits){ .ready = UINT8_MAX,
				      .can = UINT8_MAX,
				      .take_part = take_part };
	*heeded = *own;
	for (i = 0; i < g->n; i++) {
		const struct sc_home_member *m = g->members[i];

		if (!is_asked(m))
			continue;
		any = true;
		if (m->cannot != cannot)
			off = told_off(m->cannot);
		cannot = m->cannot;
		add(own, m, m->ok);
		add(heeded, m, m->ok & (uint8_t)~off);
		apart |= is_apart(g, m);
	}
	own->apart = heeded->apart = apart && !SC_HOME_MUTANT(APART);
	own->odds = true; /* set for `own` only, and meant if `own` decides */
	return any;
}

static void hear_far(struct sc_home_far *far, uint8_t steps, uint64_t from)
{
	if (!far->steps || steps < far->steps) {
		if (far->steps && far->from != from)
			far->others = far->steps;
		far->steps = steps;
		far->from = from;
	} else if (far->from != from && (!far->others || steps < far->others)) {
		far->others = steps;
	}
}

static void hear(struct sc_home_group *g, const struct sc_home_member *m)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++) {
		uint8_t steps = steps_to(m->cannot, path);

		if (steps == SC_HOME_STEPS)
			steps = SC_HOME_MUTANT(NO_END) ? SC_HOME_STEPS - 1 : 0;
		if (steps)
			hear_far(&g->far[path], (uint8_t)(steps + 1), m->from);
	}
}

static void hear_all(struct sc_home_group *g)
{
	const struct sc_home_member *before = NULL;
	uint32_t i;

	for (i = 0; i < g->n; i++) {
		const struct sc_home_member *m = g->members[i];

		if (!m->cannot || !is_asked(m))
			continue;
		if (!before || m->cannot != before->cannot || m->from != before->from)
			hear(g, m);
		before = m;
	}
}

/* Sets g->far. Path 0 must be steady, too: before, the home does not go back. */
static void look_afar(struct sc_home_group *g, const struct sc_home_fits *own)
{
	uint32_t can = (own->can & ~1u) | (own->ready & 1);
	uint8_t path;

	memset(g->far, 0, sizeof(g->far));
	if (g->any || !own->take_part)
		return;
	hear_all(g);
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (!(can & bit(path)))
			g->far[path] = (struct sc_home_far){ .steps = 1, .others = 1 };
}

static uint8_t nearer(uint8_t a, uint8_t b)
{
	return !a || (b && b < a) ? b : a;
}

uint32_t sc_home_cannot(const struct sc_home_group *g, const struct sc_home_member *m)
{
	uint32_t cannot = 0;
	uint8_t path;

	if (!g->home || !m->user)
		return 0;
	for (path = 0; path < SC_MAX_PATHS; path++) {
		const struct sc_home_far *far = &g->far[path];
		uint8_t steps =
			far->from == m->from && !SC_HOME_MUTANT(ECHO) ? far->others : far->steps;

		if (!path)
			steps = nearer(steps, g->far_beside);
		cannot |= (uint32_t)steps << (4 * path);
	}
	return cannot;
}

bool sc_home_fit(struct sc_home_group *g, struct sc_home_fits *own, struct sc_home_fits *heeded)
{
	bool asked = fits_of(g, own, heeded);

	look_afar(g, own);
	return asked;
}

uint8_t sc_home_choose(const struct sc_home_fits *fits, uint8_t home)
{
	if (!fits->take_part)
		return 0;
	if (fits->odds && (fits->can & 1u << home))
		return home;
	if (fits->ready & 1)
		return 0;
	if ((fits->ready & 1u << home) && !fits->apart)
		return home;
	if (fits->ready)
		return (uint8_t)__builtin_ctz(fits->ready);
	if (fits->can && !(fits->can & 1u << home))
		return (uint8_t)__builtin_ctz(fits->can);
	return home;
}

static uint8_t choose(struct sc_home_group *g)
{
	struct sc_home_fits own, heeded;

	(void)sc_home_fit(g, &own, &heeded);
	return sc_home_choose(heeded.can ? &heeded : &own, g->home);
}

/* ---- the step -------------------------------------------------------------------------------- */

static bool has_bar(const struct sc_home_member *m)
{
	return odd(m->bar_no);
}

static bool has_granted(const struct sc_home_member *m)
{
	return m->granted && m->granted_of == m->epoch;
}

/*
 * True if a grant is wanted for the carrier in use, or for one that this end has not reached yet.
 * On path 0 without a bar nobody needs a grant: the peer asked before it heard so.
 */
static bool has_want(const struct sc_home_member *m)
{
	return m->wants && sc_epoch_cmp(m->wants_of, m->epoch) >= 0 && !has_granted(m) &&
	       (m->path || odd(m->bar_no));
}

bool sc_home_at_rest(const struct sc_home_group *g)
{
	return !g->home && !anybody(g, has_bar) && !anybody(g, has_want);
}

static void word(struct sc_home_member *m)
{
	m->bar_no++;
	m->heard = false;
	m->left = false;
	m->news = true;
}

static void bar_all(struct sc_home_group *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (!odd(g->members[i]->bar_no) && !g->members[i]->silent)
			word(g->members[i]);
}

static void lift_all(struct sc_home_group *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (odd(g->members[i]->bar_no))
			word(g->members[i]);
}

static void grant(struct sc_home_member *m)
{
	m->granted = true;
	m->granted_of = m->epoch;
	m->granted_path = m->path;
	m->why = SC_HOME_NOT_ASKED;
	m->news = true;
}

/* True if the grant is wanted for the carrier in use, to which both ends have come. */
static bool is_settled(const struct sc_home_member *m)
{
	return m->wants && m->wants_of == m->epoch && m->quiesced == m->epoch;
}

static void grant_all(struct sc_home_group *g, bool anywhere)
{
	uint32_t i;

	for (i = 0; i < g->n; i++) {
		struct sc_home_member *m = g->members[i];

		if (has_want(m) && is_settled(m) && (anywhere || m->path == g->home))
			grant(m);
	}
}

static bool not_heard(const struct sc_home_member *m)
{
	return odd(m->bar_no) && !m->heard;
}

static enum sc_home_why why_not(const struct sc_home_group *g, const struct sc_home_member *m)
{
	if (!all_take_part(g) || g->others_silent)
		return SC_HOME_SILENT;
	if (m->path != g->home)
		return SC_HOME_ELSEWHERE;
	return anybody(g, not_heard) ? SC_HOME_UNHEARD : SC_HOME_LEAVING;
}

static void say_why(struct sc_home_group *g)
{
	enum sc_home_why why;
	uint32_t i;

	for (i = 0; i < g->n; i++) {
		if (!has_want(g->members[i]))
			continue;
		why = why_not(g, g->members[i]);
		g->members[i]->news |= why != g->members[i]->why;
		g->members[i]->why = why;
	}
}

uint8_t sc_home_may_run_any(const struct sc_home_group *g)
{
	uint8_t paths = 0;
	uint32_t i;

	for (i = 0; i < g->n; i++)
		paths |= sc_home_may_run(g->members[i]);
	return paths;
}

static bool all_at_home(const struct sc_home_group *g)
{
	return !(sc_home_may_run_any(g) & ~bit(g->home)) &&
	       !(g->elsewhere && !SC_HOME_MUTANT(OTHERS_UNSEEN));
}

void sc_home_step(struct sc_home_group *g)
{
	if (g->any) {
		grant_all(g, true);
		return;
	}
	if (sc_home_at_rest(g))
		return;
	if (!g->shared)
		g->home = choose(g);
	if (g->home)
		bar_all(g);
	if (SC_HOME_MUTANT(SPLIT)) {
		grant_all(g, true);
	} else if (all_at_home(g) || (!g->home && SC_HOME_MUTANT(LIFTED_EARLY))) {
		grant_all(g, false);
		if (!g->home)
			lift_all(g);
	}
	say_why(g);
}

/*
 * Returns the paths of the peer's group, if the member goes there: the first of two possible homes,
 * path 0 last. Else each group would keep the connection at its own home, maybe on path 0, and all
 * other members of both would wait for it.
 */
static uint8_t gives_way_to(const struct sc_home_group *g, const struct sc_home_member *m)
{
	uint8_t theirs = m->ok & (uint8_t) ~(m->asked | bit(0));

	if (!(m->asked & bit(g->home)) || !theirs || SC_HOME_MUTANT(NO_WAY))
		return 0;
	return !g->home || !(m->ok & bit(g->home)) || __builtin_ctz(theirs) < g->home ? theirs : 0;
}

uint8_t sc_home_drained(const struct sc_home_group *g, const struct sc_home_member *m)
{
	if (g->any || !m->user || (!g->home && !odd(m->bar_no)))
		return 0;
	return (uint8_t) ~(bit(g->home) | gives_way_to(g, m));
}

/* ---- both ------------------------------------------------------------------------------------ */

bool sc_home_unheard(const struct sc_home_member *m)
{
	return m->bar_no && !m->heard;
}

void sc_home_fill(const struct sc_home_user *user, const struct sc_home_member *member,
		  struct sc_msg_home *m)
{
	*m = (struct sc_msg_home){
		.bar_no = member->bar_no,
		.bar_seen = user->bar_seen,
		.used_of = user->used_of,
		.granted_of = member->granted_of,
		.used = user->used,
		.granted = member->granted,
		.why = (uint8_t)member->why,
	};
}
