/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Compare-and-swap in two stages. Pure: the caller sends the requests (struct uid_line).
 *
 *	record.swap, addr, rkey := ...			WRITE
 *	record.state: what it was -> UID		CAS
 *	word: expect -> UID				CAS, the one that decides
 *	record.state: UID -> its committed form		CAS
 *	word: UID -> swap				CAS
 *
 * No UID and no state comes twice, so all but the third may be repeated at any time and to no
 * effect. The third is not repeated: if its answer is lost, the word is read, and then the record.
 * Whoever takes a UID out of a word has committed its record before. So the operation was done if
 * the UID is in the word or the record is committed. Else it was not, and never will be, as the
 * queue pair that carried it executes nothing any more; it is tried again with another UID.
 *
 * U1: a UID in a word has its record. The UID is taken out only when the record is committed, and
 * its slot is not used again while the UID is there.
 */
#ifndef UID_PROTOCOL_H
#define UID_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef SHIFT_UID_MUTANTS
enum { UID_SLOTS = 2 }; /* fewer slots, which are used again sooner */
#else
enum { UID_SLOTS = 64 };
#endif
enum { UID_INSTANCES = 256, UID_REQUESTS = 3 };

/* highest byte of a UID; the state of a record that is not committed is a UID, too */
#define UID_MARK      0xd4ull
#define UID_COMMITTED 0xd5ull

#ifdef SHIFT_UID_MUTANTS
/* Rules broken on purpose; tests/unit/uid/protocol_test.c must catch each. */
enum uid_mutant {
	UID_MUTANT_NONE,
	UID_MUTANT_SLOT_REUSED, /* a UID is the number of a slot, and comes again */
	/* the UID leaves the word before the record is committed */
	UID_MUTANT_CONFIRM_BEFORE_COMMIT,
	UID_MUTANT_COMMIT_BY_WRITE, /* a later owner of the slot may find its record committed */
	UID_MUTANT_RECORD_FIRST,    /* the record is read before the word */
	UID_MUTANT_RECORD_BY_WRITE, /* the state is written, and may be written again */
	UID_MUTANT_UNKNOWN_IS_LOST, /* an operation without an answer counts as not done */
	UID_MUTANT_LEFT_ALONE,	    /* the new owner of an instance leaves what is not finished */
	UID_MUTANTS,
};
extern enum uid_mutant uid_mutant;
#define UID_IS_MUTANT(name) (uid_mutant == UID_MUTANT_##name)
#else
#define UID_IS_MUTANT(name) false
#endif

/* The records at the responder, in slots: instance * UID_SLOTS + sequence % UID_SLOTS. */
struct uid_record {
	uint64_t state;
	uint64_t swap; /* swap, addr and rkey are WRITTEN together, before the state is set */
	uint64_t addr;
	uint64_t rkey;
};

enum uid_verb { UID_READ, UID_WRITE, UID_CAS };

struct uid_request {
	enum uid_verb verb;
	uint64_t addr;
	uint32_t rkey;
	uint64_t compare, swap; /* operands of a CAS */
	/* READ and WRITE: the record of which `bytes` bytes are moved, beginning at `from` */
	struct uid_record *data;
	uint32_t from, bytes;
	/* CAS: the word's old value, out; unchanged if it completed without its answer */
	uint64_t old;
};

/*
 * Runs all requests in order, n <= UID_REQUESTS, and waits for them. Returns 0, or ECONNRESET: any
 * of them may have run.
 */
struct uid_line {
	int (*run)(struct uid_line *line, struct uid_request *requests, uint32_t n);
};

enum uid_stage {
	UID_IDLE,
	UID_BEGIN,   /* nothing of the operation may be in the word */
	UID_UNKNOWN, /* the operation's UID may be in the word */
	UID_DONE,    /* the word was swapped; the UID may still be in it */
};

struct uid_op {
	enum uid_stage stage;
	bool faa;
	uint64_t addr, expect, swap, add, uid, old;
	uint32_t rkey;
};

struct uid_machine {
	struct uid_line *line;
	uint64_t region;
	uint32_t rkey;
	uint8_t instance;
	uint64_t sequence;	    /* last number that was used */
	uint64_t states[UID_SLOTS]; /* states of the instance's records */
	struct uid_op op;
};

/* True if a word may have that value. */
bool uid_is_value(uint64_t value);
bool uid_is_uid(uint64_t word);
uint64_t uid_first_state(uint8_t instance);
/* Place of the record of a UID. */
uint32_t uid_place(uint64_t uid);

/* All return 0, or an error as in shift/shift_uid.h. */
int uid_open(struct uid_machine *m);
int uid_begin_cas(struct uid_machine *m, uint64_t addr, uint32_t rkey, uint64_t expect,
		  uint64_t swap);
int uid_begin_faa(struct uid_machine *m, uint64_t addr, uint32_t rkey, uint64_t add);
/* Finishes the operation that was begun. old: as in shift/shift_uid.h. */
int uid_finish(struct uid_machine *m, uint64_t *old);
int uid_read(struct uid_machine *m, uint64_t addr, uint32_t rkey, uint64_t *value);

#endif
