/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Atomics whose results survive a fault of either end: compare-and-swap and fetch-and-add on
 * 8-byte words of a responder's memory, over the verbs of any libibverbs. Link with -lshift_uid
 * -libverbs.
 *
 * A word is first swapped for a number that is used once (UID = 0xd4 | instance | sequence). A
 * record at the responder says which value the UID stands for. Whoever meets a UID in a word
 * finishes that operation for its owner, and the owner finds in the record that it was done. So
 * EVERYBODY who changes such a word does it by these calls, and every reader of it knows UIDs:
 * shift_uid_read(), or shift_uid_value() at the responder. Values of words never have 0xd4 or 0xd5
 * in their highest byte. See docs/promises.md.
 *
 * With SHIFT, set SHIFT_ATOMICS=uid: then a call goes on through faults that SHIFT masks. Without
 * SHIFT, or when the queue pair ends all the same, a call returns ECONNRESET and
 * shift_uid_resume() finishes the operation on another queue pair.
 */
#ifndef SHIFT_UID_H
#define SHIFT_UID_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- at the responder ------------------------------------------------------------------------ */

/*
 * The records: memory of shift_uid_region_size() bytes, aligned to 32. shift_uid_region_init()
 * makes it ready before it is registered with remote WRITE, READ and ATOMIC access and without
 * relaxed ordering, in the same protection domain as the words. The memory is the caller's, and
 * lives as long as the words do.
 */
size_t shift_uid_region_size(void);
void shift_uid_region_init(void *region);
/* Returns the value that the word stands for, to a CPU of the responder. Only reads. Any thread. */
uint64_t shift_uid_value(const void *region, const uint64_t *word);

/* ---- at the requester ------------------------------------------------------------------------ */

struct shift_uid;

struct shift_uid_attr {
	/*
	 * RC, in RTS, with room for 4 requests and sq_sig_all = 0: only requests that ask for a
	 * completion have one
	 */
	struct ibv_qp *qp;
	/* send CQ of qp; during a call nobody else polls it, or posts sends that complete in it */
	struct ibv_cq *cq;
	uint64_t region; /* address of the records at the responder; their key is rkey */
	uint32_t rkey;
	/*
	 * Number of this requester. No two handles on the same records have the same number at a
	 * time. A number is taken over when the queue pairs of its last owner are gone at the
	 * responder; the new owner finishes what that one has left.
	 */
	uint8_t instance;
};

/*
 * Opens a handle: registers memory of its own in the protection domain of the queue pair, and
 * reads the records of the instance. The queue pair stays the caller's, and outlives the handle.
 *
 * Returns NULL and sets errno: EINVAL (the region is not made ready, or not aligned), ECONNRESET
 * (the queue pair has ended), or an error of malloc() or ibv_reg_mr(). One thread at a time uses a
 * handle.
 */
struct shift_uid *shift_uid_open(const struct shift_uid_attr *attr);
/*
 * Frees the handle. An unfinished operation is finished by whoever meets its UID, or takes the
 * instance over.
 */
void shift_uid_close(struct shift_uid *uid);

/*
 * The calls poll until the operation has ended. They return 0 or
 *	EINVAL		the address is not a multiple of 8, or no word may have such a value
 *	ERANGE		shift_uid_faa(): no word may have the sum as its value; nothing was changed
 *	EBUSY		an operation before it is not finished: shift_uid_resume()
 *	ECONNRESET	the queue pair has ended; the operation may have been done, or not
 */
/* *old: the word's value before. The word was swapped if, and only if, *old is @expect. */
int shift_uid_cas(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t expect,
		  uint64_t swap, uint64_t *old);
/*
 * *old: the word's value before @add was added. Not one step: READ, then CAS, until the CAS
 * succeeds.
 */
int shift_uid_faa(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t add, uint64_t *old);
int shift_uid_read(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t *value);

/*
 * Goes on by another queue pair in the same protection domain, with a CQ as above. Call it after
 * ECONNRESET, when the old queue pair is destroyed AT BOTH ENDS, or in ERR there: a late request
 * of the old one would swap a second time.
 *
 * Finishes the unfinished operation, if there is one, and returns its result as shift_uid_cas() or
 * shift_uid_faa() would have. After another ECONNRESET, call it again.
 */
int shift_uid_resume(struct shift_uid *uid, struct ibv_qp *qp, struct ibv_cq *cq, uint64_t *old);

#ifdef __cplusplus
}
#endif

#endif
