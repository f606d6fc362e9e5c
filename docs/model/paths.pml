/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which path a connection goes to (shiftlib/core/paths.c, standby.c), for spin; tests/model/run_model.py runs it, and
 * its wrong variants.
 *
 * The world. Two ends, three paths, each of which is up or not at each end, and may be drained by either. Side 0
 * leads: it has dealt an order of the paths (any), chooses where the next carrier is made, and gives it a number;
 * side 1 adopts. What a side says arrives at any time, any number of times or never; so does one thing that it
 * said before, whichever. A standby comes to be where its path is up, else it fails; it is lost with its path.
 * Whoever knows of a failed standby passes its path over until it comes back, another one is ready, or none is left.
 *
 * Not modelled: the move (shift.pml; here both ends take a standby that is ready at both in one step, since the
 * carrier's path has failed, is drained, or comes behind in the order), lazy standbys, paths that are up and not
 * steady, time.
 *
 * 6 here: carriers of one number are on one path at both ends; when nothing can happen any more, the connection is on
 * the path that comes first in its order of those that both ends have and neither drains, and a standby is ready on
 * the next one. P7: then nobody is without a carrier, while any path is up at both ends.
 *
 *	FIRST, CHOOSE			paths.c paths_first, sc_paths_choose
 *	hear_masks, heard		sc_paths_heard, sc_standby_message
 *	start, give_up, next_number	standby.c standby_start, standby_give_up, standby_next_number
 *	choose				sc_standby_choose, standby_replaces
 *	adopt, about_this_one		standby.c standby_adopt, standby_take_phase
 */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef HEALS
#define HEALS 1
#endif
#ifndef DRAINS
#define DRAINS 0
#endif
#ifndef LATE
#define LATE 1 /* things said before that arrive later */
#endif
#define EPOCHS 6 /* none higher is used */
#ifndef CHECK_ONLY
#define CHECK_ONLY 1023
#endif
#define PROMISE(n, x) assert(!(n) || !(CHECK_ONLY & (1 << (n))) || (x))

#define PATHS 3
#define ALL 7
#define NOWHERE PATHS
#define BIT(p) (1 << (p))

/* Phases of a standby, as they are told. */
#define NONE 0
#define MAKING 1
#define MADE 2
#define READY 3
#define FAILED 4
#define HERE(s) (phase[s] != NONE && phase[s] != FAILED)
#define PROPOSES(p) ((p) != NONE && (p) != FAILED)

#define peer (1 - s)

byte second, third; /* of the order; path 0 is the first of each */

/* Of each side: its own masks, and what it has heard of the other's. */
byte up[2] = ALL, drained[2], masks_no[2];
byte knows_up[2] = ALL, knows_drained[2], knows_no[2];
/* The standby. */
byte phase[2], of_peer[2], number[2], where[2], avoid[2];
bool fresh[2]; /* the peer's word may change something here */
/* One thing that was said before. */
bool old[2];
byte old_phase[2], old_number[2], old_where[2], old_up[2], old_drained[2], old_no[2];
/* The carrier, of both. */
byte carrier, on;
bool stranded;
byte faults, heals, drains, late = LATE;
/* What is heard, or begun, in the step that is being taken. */
hidden byte m_phase, m_number, m_where, m_up, m_drained, m_no;
hidden byte n_where, n_number;

#define BOTH_UP(s) (up[s] & knows_up[s])
#define DRAINED(s) (drained[s] | knows_drained[s])
#define IN_ORDER(m, a, b) \
	((m) & 1 -> 0 : ((m) & BIT(a) -> (a) : ((m) & BIT(b) -> (b) : NOWHERE)))
#define TRULY_FIRST(m) IN_ORDER(m, second, third)
#ifdef W_STAMPEDE
#define FIRST(m) IN_ORDER(m, 1, 2)
#define BEFORE(p, q) ((p) < (q))
#else
#define FIRST(m) TRULY_FIRST(m)
#define BEFORE(p, q) (TRULY_FIRST(BIT(p) | BIT(q)) == (p) && (p) != (q))
#endif
#ifdef W_DRAINED_LAST
#define LAST_RESORT(s) 0
#else
#define LAST_RESORT(s) BOTH_UP(s)
#endif

/* A follower that makes what it was told to make says so when it is made. */
#define TOLD(s) (s == 1 && phase[s] == MAKING -> NONE : phase[s])

/* What was said may still be on its way when something else is said. */
inline keep_old(s)
{
	if
	:: late > 0 ->
		late--;
		old[s] = true; old_phase[s] = TOLD(s); old_number[s] = number[s]; old_where[s] = where[s];
		old_up[s] = up[s]; old_drained[s] = drained[s]; old_no[s] = masks_no[s]
	:: true
	fi
}

inline told(s)
{
	fresh[peer] = true
}

inline start(s)
{
	phase[s] = MAKING;
	number[s] = n_number;
	where[s] = n_where;
	of_peer[s] = NONE
}

inline give_up(s)
{
	keep_old(s);
	avoid[s] = avoid[s] | BIT(where[s]);
	phase[s] = FAILED;
	told(s)
}

/* Is it worth to make another one? */
#define REPLACE(s, path) \
	(path != where[s] && (!(BOTH_UP(s) & BIT(where[s])) || (DRAINED(s) & BIT(where[s])) || BEFORE(path, where[s])))
#define OTHERS(s) (ALL & ~(DRAINED(s) | BIT(on)))
#define TRY(m, else_) (FIRST(m) != NOWHERE -> FIRST(m) : else_)
#define CHOOSE(s) \
	TRY(BOTH_UP(s) & OTHERS(s) & ~avoid[s], \
	TRY(BOTH_UP(s) & OTHERS(s), \
	(!stranded -> NOWHERE : TRY(BOTH_UP(s) & ~DRAINED(s), FIRST(LAST_RESORT(s))))))

#ifdef W_NUMBER_AGAIN
#define NEXT_NUMBER(s) (carrier + 1)
#else
#define NEXT_NUMBER(s) ((number[s] > carrier -> number[s] : carrier) + 1)
#endif

inline choose(s)
{
	keep_old(s);
	n_where = CHOOSE(s);
	n_number = NEXT_NUMBER(s);
	start(s);
	told(s)
}

#ifdef W_MASKS_OF_ANY
#define NEWS_OF_MASKS(s) true
#else
#define NEWS_OF_MASKS(s) (m_no > knows_no[s])
#endif

inline hear_masks(s)
{
	if
	:: NEWS_OF_MASKS(s) ->
		avoid[s] = avoid[s] & ~(m_up & ~knows_up[s]);
		knows_up[s] = m_up;
		knows_drained[s] = m_drained;
		knows_no[s] = m_no
	:: else
	fi
}

#ifdef W_OTHER_PATH
#define ADOPTED(s) (CHOOSE(s) == NOWHERE -> m_where : CHOOSE(s))
#else
#define ADOPTED(s) m_where
#endif

inline adopt(s)
{
	keep_old(s);
	if
	:: PROPOSES(m_phase) -> n_where = ADOPTED(s); n_number = m_number; start(s)
	:: else -> phase[s] = FAILED; number[s] = m_number; of_peer[s] = NONE
	fi;
	told(s)
}

inline about_this_one(s)
{
	if
	:: m_phase > of_peer[s] -> of_peer[s] = m_phase
	:: else
	fi;
	if
	:: of_peer[s] == FAILED && HERE(s) -> give_up(s)
	:: else
	fi
}

inline heard(s)
{
	hear_masks(s);
	if
	:: s == 1 && m_phase != NONE && m_number > number[s] && m_number > carrier -> adopt(s)
	:: else
	fi;
	if
	:: m_number == number[s] && m_number != carrier -> about_this_one(s)
	:: else
	fi
}

#define BOTH_READY (phase[0] == READY && phase[1] == READY && number[0] == number[1])
#define CARRIER_IS_DOWN (!(up[0] & up[1] & BIT(on)))
#define WORTH(path) \
	(stranded || CARRIER_IS_DOWN || \
	((drained[0] | drained[1]) & BIT(on) && !((drained[0] | drained[1]) & BIT(path))) || \
	(BEFORE(path, on) && !((drained[0] | drained[1]) & BIT(path))))

proctype Side(bit s)
{
	end:
	do
	/* The standby. */
	:: d_step { phase[s] == MAKING && (up[s] & BIT(where[s])) -> phase[s] = MADE; told(s) }
	:: d_step { phase[s] == MADE && of_peer[s] >= MADE && of_peer[s] != FAILED && (up[s] & BIT(where[s])) ->
		phase[s] = READY; told(s) }
	:: atomic { HERE(s) && !(up[s] & BIT(where[s])) -> give_up(s) }
	:: d_step { phase[s] == READY && of_peer[s] == READY && avoid[s] -> avoid[s] = 0 }
	/* The leader's choice, when it has heard what there was to hear: it waits a while behind each failure. */
	:: atomic { s == 0 && !fresh[s] && CHOOSE(s) != NOWHERE && NEXT_NUMBER(s) <= EPOCHS &&
		(!HERE(s) || REPLACE(s, CHOOSE(s))) -> choose(s) }
	:: atomic { s == 0 && HERE(s) && CHOOSE(s) == NOWHERE && !(BOTH_UP(s) & BIT(where[s])) -> give_up(s) }
	/* The peer's word. */
	:: atomic { fresh[s] ->
		fresh[s] = false;
		m_phase = TOLD(peer); m_number = number[peer]; m_where = where[peer];
		m_up = up[peer]; m_drained = drained[peer]; m_no = masks_no[peer];
		heard(s) }
	:: atomic { old[peer] ->
		old[peer] = false;
		m_phase = old_phase[peer]; m_number = old_number[peer]; m_where = old_where[peer];
		m_up = old_up[peer]; m_drained = old_drained[peer]; m_no = old_no[peer];
		heard(s) }
	od
}

inline masks_changed(s)
{
	keep_old(s);
	masks_no[s]++;
	told(s)
}

inline came(s, path)
{
	avoid[s] = avoid[s] & ~BIT(path)
}

active proctype World()
{
	byte s, path;

	atomic {
		if
		:: second = 1; third = 2
		:: second = 2; third = 1
		fi;
		fresh[0] = true; fresh[1] = true;
		run Side(0); run Side(1)
	}
	do
	/* Both take the standby: shift.pml says how. */
	:: atomic { BOTH_READY && WORTH(where[0]) ->
		PROMISE(6, where[0] == where[1]);
		carrier = number[0];
		on = where[0];
		stranded = false;
		phase[0] = NONE; phase[1] = NONE;
		of_peer[0] = NONE; of_peer[1] = NONE }
	:: d_step { CARRIER_IS_DOWN && !stranded && !BOTH_READY -> stranded = true }
	/* Paths fail, come back, and are drained. */
	:: atomic { faults < FAULTS ->
		faults++;
		select (s : 0 .. 1); select (path : 0 .. 2);
		if
		:: up[s] & BIT(path) -> masks_changed(s); up[s] = up[s] & ~BIT(path)
		:: else
		fi }
	:: atomic { heals < HEALS && (up[0] != ALL || up[1] != ALL) ->
		heals++;
		select (s : 0 .. 1); select (path : 0 .. 2);
		if
		:: !(up[s] & BIT(path)) -> masks_changed(s); up[s] = up[s] | BIT(path); came(s, path)
		:: else
		fi }
	:: atomic { drains < DRAINS ->
		drains++;
		select (s : 0 .. 1); select (path : 0 .. 2);
		masks_changed(s);
		drained[s] = drained[s] ^ BIT(path) }
	:: timeout -> break
	od;
	atomic {
		path = up[0] & up[1];
		s = path & ~(drained[0] | drained[1]);
		if
		:: path != 0 ->
			PROMISE(7, number[0] < EPOCHS); /* else nothing is said of what follows */
			PROMISE(7, !stranded && (path & BIT(on)));
			PROMISE(6, s == 0 || on == TRULY_FIRST(s));
			s = s & ~BIT(on);
			PROMISE(6, s == 0 || (BOTH_READY && where[0] == TRULY_FIRST(s)));
			PROMISE(6, !BOTH_READY || where[0] == where[1])
		:: else
		fi
	}
}
