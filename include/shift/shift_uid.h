/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Atomics whose results survive a fault of either end: compare-and-swap and fetch-and-add on 8-byte words of a
 * responder's memory, over the verbs of any libibverbs. Link with -lshift_uid -libverbs.
 *
 * A word is first swapped for a number that is used once (UID = 0xd4 | instance | sequence); a record at
 * the responder says which value it stands for. Whoever meets a UID in a word finishes that operation for its
 * owner, and he finds in his record that it was done. So EVERYBODY who changes such a word does it by these calls, and who
 * reads it knows UIDs: shift_uid_read(), or shift_uid_value() at the responder. Values of words never have
 * 0xd4 or 0xd5 in their highest byte. See docs/promises.md.
 *
 * With SHIFT, set SHIFT_ATOMICS=uid: then a call goes on through faults that SHIFT masks. Without, or when the
 * queue pair ends all the same, a call returns ECONNRESET and shift_uid_resume() finishes it on another one.
 */
#ifndef SHIFT_UID_H
#define SHIFT_UID_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- at the responder ------------------------------------------------------------------------- */

/*
 * Records: memory of shift_uid_region_size() bytes, aligned to 32, made ready by shift_uid_region_init() before it is
 * registered with remote WRITE, READ and ATOMIC access and without relaxed ordering, in the same protection domain as the
 * words. It is the caller's, and lives as long as the words do.
 */
size_t shift_uid_region_size(void);
void shift_uid_region_init(void *region);
/* What the word holds, for a CPU there. It is read only. Any thread. */
uint64_t shift_uid_value(const void *region, const uint64_t *word);

/* ---- who requests ----------------------------------------------------------------------------- */

struct shift_uid;

struct shift_uid_attr {
	struct ibv_qp *
		qp; /* RC, in RTS, with room for 4 requests; signals what asks for it (sq_sig_all = 0) */
	struct ibv_cq
		*cq; /* its send CQ. Nobody else posts sends there, or polls it, during a call */
	uint64_t region; /* address of the records at the responder, and their key */
	uint32_t rkey;
	/* Of all that use these records, no two at a time have the same. Who takes one over does so when the queue
	 * pairs of the last one are gone at the responder; he finishes what that one has left. */
	uint8_t instance;
};

/*
 * Registers memory of its own in the protection domain of the queue pair, and reads the records of the instance. The
 * queue pair stays the caller's, and outlives the handle. NULL, errno: EINVAL: the region is not made ready, or not aligned;
 * ECONNRESET: the queue pair has ended; or of malloc() and ibv_reg_mr().
 *
 * A handle is used by one thread at a time.
 */
struct shift_uid *shift_uid_open(const struct shift_uid_attr *attr);
/* An operation that is not finished is finished by whoever meets it, or takes the instance over. */
void shift_uid_close(struct shift_uid *uid);

/*
 * Each waits for its end, polling. 0; or
 *	EINVAL		the address is not a multiple of 8, or a value is none that a word may have
 *	ERANGE		shift_uid_faa(): the sum would be none; nothing was changed
 *	EBUSY		an operation before it is not finished: shift_uid_resume()
 *	ECONNRESET	the queue pair has ended. The operation is not finished: it may have been done, or not
 */
/* *old: what the word was; it was swapped if, and only if, that is expect. */
int shift_uid_cas(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t expect,
		  uint64_t swap, uint64_t *old);
/* *old: what the word was before add was added. Not in one step: READ, then CAS, until that succeeds. */
int shift_uid_faa(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t add, uint64_t *old);
int shift_uid_read(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t *value);

/*
 * Goes on by another queue pair, with a CQ as above, in the same protection domain: behind ECONNRESET, when the old one is
 * destroyed AT BOTH ENDS, or in ERR there. A late request of it would swap a second time. Finishes the operation that is not
 * finished, if there is one, and says its result as shift_uid_cas() or shift_uid_faa() would have. Again ECONNRESET: again.
 */
int shift_uid_resume(struct shift_uid *uid, struct ibv_qp *qp, struct ibv_cq *cq, uint64_t *old);

#ifdef __cplusplus
}
#endif

#endif
