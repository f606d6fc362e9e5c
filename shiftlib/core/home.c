/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The choice of the NIC that runs atomics: see home.h. */
#include <string.h>

#include "shiftlib/core/home.h"
#include "shiftlib/core/internal.h"

#ifdef SC_MUTANTS
enum sc_home_mutant sc_home_mutant;
#endif

static uint8_t home_bit(uint8_t path)
{
	return (uint8_t)(1u << path);
}

static bool home_is_odd(uint32_t word)
{
	return word & 1;
}

/* ---- who requests ---------------------------------------------------------------------------- */

static bool home_is_free(const struct sc_home_user *user, uint8_t path)
{
	return (!path && !home_is_odd(user->bar_seen)) || SC_HOME_MUTANT(GATE_OPEN);
}

bool sc_home_may(const struct sc_home_user *user, uint32_t epoch, uint8_t path)
{
	return home_is_free(user, path) ||
	       (user->granted && (user->granted_of == epoch || SC_HOME_MUTANT(GRANT_OF_ANY)));
}

void sc_home_takes(struct sc_home_user *user, uint32_t epoch, uint8_t path)
{
	if (home_is_free(user, path))
		user->free_of = epoch;
	user->why = SC_HOME_NOT_ASKED;
}

bool sc_home_barred(const struct sc_home_user *user, const struct sc_msg_home *m, bool *bar)
{
	*bar = home_is_odd(m->bar_no);
	return sc_epoch_cmp(m->bar_no, user->bar_seen) > 0;
}

void sc_home_obey(struct sc_home_user *user, const struct sc_msg_home *m, bool used)
{
	user->bar_seen = m->bar_no;
	if (!home_is_odd(m->bar_no))
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

static bool home_is_barred(const struct sc_home_member *m)
{
	return home_is_odd(m->bar_no) && (m->heard || SC_HOME_MUTANT(BAR_UNHEARD));
}

static bool home_still_runs(const struct sc_home_member *m, uint32_t epoch)
{
	uint32_t quiesced = SC_HOME_MUTANT(NOT_QUIESCED) ? m->epoch : m->quiesced;

	return sc_epoch_cmp(epoch, quiesced) >= 0;
}

/* True if the member executes nothing, whatever its peer believes. */
static bool home_is_out(const struct sc_home_member *m)
{
	return m->gone || m->shut || (m->silent && SC_HOME_MUTANT(SILENT_GONE));
}

uint8_t sc_home_may_run(const struct sc_home_member *m)
{
	uint8_t paths = 0;

	if (!home_is_out(m) && (!home_is_barred(m) || (m->left && home_still_runs(m, m->left_of))))
		paths |= 1;
	if (m->granted && home_still_runs(m, m->granted_of))
		paths |= home_bit(m->granted_path);
	return paths;
}

static void home_hear_bar(struct sc_home_member *member, const struct sc_msg_home *m)
{
	member->heard = true;
	if (!home_is_odd(m->bar_seen))
		return;
	member->left = m->used && !SC_HOME_MUTANT(USE_FORGOTTEN);
	member->left_of = m->used_of;
}

void sc_home_heard(struct sc_home_member *member, const struct sc_msg_home *m)
{
	if (m->bar_seen == member->bar_no ||
	    (m->bar_seen && home_is_odd(m->bar_seen) && SC_HOME_MUTANT(ANSWER_OF_ANY)))
		home_hear_bar(member, m);
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
static bool home_is_asked(const struct sc_home_member *m)
{
	return m->user && m->ok;
}

/* Returns the steps from the peer's group to one that cannot be on the path; 0: there is none. */
static uint8_t home_steps_to(uint32_t cannot, uint8_t path)
{
	return cannot >> (4 * path) & 15;
}

/* Returns the set of paths where the peer's group cannot be. */
static uint8_t home_paths_off(uint32_t cannot)
{
	uint8_t path, paths = 0;

	for (path = 0; path < SC_MAX_PATHS; path++)
		paths |= home_steps_to(cannot, path) ? home_bit(path) : 0;
	return SC_HOME_MUTANT(HEEDLESS) ? 0 : paths;
}

static bool home_any(const struct sc_home_group *g, bool (*is)(const struct sc_home_member *m))
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (is(g->members[i]))
			return true;
	return false;
}

static bool home_all_take_part(const struct sc_home_group *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (g->members[i]->silent && !home_is_out(g->members[i]))
			return false;
	return true;
}

/*
 * True if two groups are apart: each home would do, and neither group goes to the other's. Both
 * take the first then.
 */
static bool home_is_apart(const struct sc_home_group *g, const struct sc_home_member *m)
{
	return m->cannot && (m->asked & home_bit(g->home));
}

static void home_add_fit(struct sc_home_fits *fits, const struct sc_home_member *m, uint8_t can)
{
	fits->can &= can;
	fits->ready &= can & (m->steady | home_bit(m->path));
}

/*
 * Collects the paths of all members. heeded: without paths where their peers' groups cannot be.
 * There may be thousands of members, most with the same masks as the one before, so each is looked
 * at once. False: no member is asked.
 */
static bool home_compute_fits(const struct sc_home_group *g, struct sc_home_fits *own,
			      struct sc_home_fits *heeded)
{
	bool any = false, take_part = home_all_take_part(g), apart = false;
	uint32_t cannot = 0;
	uint8_t off = 0;
	uint32_t i;

	*own = (struct sc_home_fits){ .ready = UINT8_MAX,
				      .can = UINT8_MAX,
				      .take_part = take_part };
	*heeded = *own;
	for (i = 0; i < g->n; i++) {
		const struct sc_home_member *m = g->members[i];

		if (!home_is_asked(m))
			continue;
		any = true;
		if (m->cannot != cannot)
			off = home_paths_off(m->cannot);
		cannot = m->cannot;
		home_add_fit(own, m, m->ok);
		home_add_fit(heeded, m, m->ok & (uint8_t)~off);
		apart |= home_is_apart(g, m);
	}
	own->apart = heeded->apart = apart && !SC_HOME_MUTANT(APART);
	own->odds = true; /* set for `own` only, and meant if `own` decides */
	return any;
}

static void home_hear_far(struct sc_home_far *far, uint8_t steps, uint64_t from)
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

static void home_hear_one(struct sc_home_group *g, const struct sc_home_member *m)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++) {
		uint8_t steps = home_steps_to(m->cannot, path);

		if (steps == SC_HOME_STEPS)
			steps = SC_HOME_MUTANT(NO_END) ? SC_HOME_STEPS - 1 : 0;
		if (steps)
			home_hear_far(&g->far[path], (uint8_t)(steps + 1), m->from);
	}
}

static void home_hear_all(struct sc_home_group *g)
{
	const struct sc_home_member *before = NULL;
	uint32_t i;

	for (i = 0; i < g->n; i++) {
		const struct sc_home_member *m = g->members[i];

		if (!m->cannot || !home_is_asked(m))
			continue;
		if (!before || m->cannot != before->cannot || m->from != before->from)
			home_hear_one(g, m);
		before = m;
	}
}

/* Sets g->far. Path 0 must be steady, too: before, the home does not go back. */
static void home_update_far(struct sc_home_group *g, const struct sc_home_fits *own)
{
	uint32_t can = (own->can & ~1u) | (own->ready & 1);
	uint8_t path;

	memset(g->far, 0, sizeof(g->far));
	if (g->any || !own->take_part)
		return;
	home_hear_all(g);
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (!(can & home_bit(path)))
			g->far[path] = (struct sc_home_far){ .steps = 1, .others = 1 };
}

static uint8_t home_nearer(uint8_t a, uint8_t b)
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
			steps = home_nearer(steps, g->far_beside);
		cannot |= (uint32_t)steps << (4 * path);
	}
	return cannot;
}

bool sc_home_fit(struct sc_home_group *g, struct sc_home_fits *own, struct sc_home_fits *heeded)
{
	bool asked = home_compute_fits(g, own, heeded);

	home_update_far(g, own);
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

static uint8_t home_choose_again(struct sc_home_group *g)
{
	struct sc_home_fits own, heeded;

	(void)sc_home_fit(g, &own, &heeded);
	return sc_home_choose(heeded.can ? &heeded : &own, g->home);
}

/* ---- the step -------------------------------------------------------------------------------- */

static bool home_has_bar(const struct sc_home_member *m)
{
	return home_is_odd(m->bar_no);
}

static bool home_has_granted(const struct sc_home_member *m)
{
	return m->granted && m->granted_of == m->epoch;
}

/*
 * True if a grant is wanted for the carrier in use, or for one that this end has not reached yet.
 * On path 0 without a bar nobody needs a grant: the peer asked before it heard so.
 */
static bool home_has_want(const struct sc_home_member *m)
{
	return m->wants && sc_epoch_cmp(m->wants_of, m->epoch) >= 0 && !home_has_granted(m) &&
	       (m->path || home_is_odd(m->bar_no));
}

bool sc_home_at_rest(const struct sc_home_group *g)
{
	return !g->home && !home_any(g, home_has_bar) && !home_any(g, home_has_want);
}

static void home_say_word(struct sc_home_member *m)
{
	m->bar_no++;
	m->heard = false;
	m->left = false;
	m->news = true;
}

static void home_bar_all(struct sc_home_group *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (!home_is_odd(g->members[i]->bar_no) && !g->members[i]->silent)
			home_say_word(g->members[i]);
}

static void home_lift_all(struct sc_home_group *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		if (home_is_odd(g->members[i]->bar_no))
			home_say_word(g->members[i]);
}

static void home_grant_one(struct sc_home_member *m)
{
	m->granted = true;
	m->granted_of = m->epoch;
	m->granted_path = m->path;
	m->why = SC_HOME_NOT_ASKED;
	m->news = true;
}

/* True if the grant is wanted for the carrier in use, to which both ends have come. */
static bool home_is_settled(const struct sc_home_member *m)
{
	return m->wants && m->wants_of == m->epoch && m->quiesced == m->epoch;
}

static void home_grant_all(struct sc_home_group *g, bool anywhere)
{
	uint32_t i;

	for (i = 0; i < g->n; i++) {
		struct sc_home_member *m = g->members[i];

		if (home_has_want(m) && home_is_settled(m) && (anywhere || m->path == g->home))
			home_grant_one(m);
	}
}

static bool home_is_unheard(const struct sc_home_member *m)
{
	return home_is_odd(m->bar_no) && !m->heard;
}

static enum sc_home_why home_find_why(const struct sc_home_group *g, const struct sc_home_member *m)
{
	if (!home_all_take_part(g) || g->others_silent)
		return SC_HOME_SILENT;
	if (m->path != g->home)
		return SC_HOME_ELSEWHERE;
	return home_any(g, home_is_unheard) ? SC_HOME_UNHEARD : SC_HOME_LEAVING;
}

static void home_say_why(struct sc_home_group *g)
{
	enum sc_home_why why;
	uint32_t i;

	for (i = 0; i < g->n; i++) {
		if (!home_has_want(g->members[i]))
			continue;
		why = home_find_why(g, g->members[i]);
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

static bool home_all_at_home(const struct sc_home_group *g)
{
	return !(sc_home_may_run_any(g) & ~home_bit(g->home)) &&
	       !(g->elsewhere && !SC_HOME_MUTANT(OTHERS_UNSEEN));
}

void sc_home_step(struct sc_home_group *g)
{
	if (g->any) {
		home_grant_all(g, true);
		return;
	}
	if (sc_home_at_rest(g))
		return;
	if (!g->shared)
		g->home = home_choose_again(g);
	if (g->home)
		home_bar_all(g);
	if (SC_HOME_MUTANT(SPLIT)) {
		home_grant_all(g, true);
	} else if (home_all_at_home(g) || (!g->home && SC_HOME_MUTANT(LIFTED_EARLY))) {
		home_grant_all(g, false);
		if (!g->home)
			home_lift_all(g);
	}
	home_say_why(g);
}

/*
 * Returns the paths of the peer's group, if the member goes there: the first of two possible homes,
 * path 0 last. Else each group would keep the connection at its own home, maybe on path 0, and all
 * other members of both would wait for it.
 */
static uint8_t home_give_way_to(const struct sc_home_group *g, const struct sc_home_member *m)
{
	uint8_t theirs = m->ok & (uint8_t) ~(m->asked | home_bit(0));

	if (!(m->asked & home_bit(g->home)) || !theirs || SC_HOME_MUTANT(NO_WAY))
		return 0;
	return !g->home || !(m->ok & home_bit(g->home)) || __builtin_ctz(theirs) < g->home ? theirs
											   : 0;
}

uint8_t sc_home_drained(const struct sc_home_group *g, const struct sc_home_member *m)
{
	if (g->any || !m->user || (!g->home && !home_is_odd(m->bar_no)))
		return 0;
	return (uint8_t) ~(home_bit(g->home) | home_give_way_to(g, m));
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
