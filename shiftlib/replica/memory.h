/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains and memory regions of the application, and their shadows. */
#ifndef SHIFTLIB_REPLICA_MEMORY_H
#define SHIFTLIB_REPLICA_MEMORY_H

#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/context.h"

/* The kinds of memory that only the application's NIC can have. */
enum sh_alone {
	SH_ALONE_NOT,
	SH_ALONE_PAGED,	 /* paged on demand: another NIC may not page at all, or by other tables */
	SH_ALONE_DEVICE, /* the NIC's own memory */
	SH_ALONE_DEVX,	 /* made by a command that SHIFT cannot repeat */
	SH_ALONE_BUFFER, /* a buffer's, with flags that are not known */
	SH_ALONE_KINDS,
};

enum sh_shadow_state { SH_SHADOW_NONE, SH_SHADOW_QUEUED, SH_SHADOW_MADE, SH_SHADOW_FAILED };

/*
 * The shadows: what SHIFT has made of an object of the application in its own context of the NIC
 * of path k; of k = 0 too, as the application's own context may be dead when its NIC is back.
 * Together they are the replica k of an application's context. Each has one incarnation of its
 * NIC.
 */
struct sh_shadow_pd {
	enum sh_shadow_state state;
	_Atomic uint32_t incarnation;
	struct ibv_pd *_Atomic pd;
	_Atomic bool mr_failed; /* an MR could not be shadowed: what uses the PD cannot go there */
	/* Incarnation on which all MRs were asked for, if none failed since; 0: not. */
	uint32_t asked;
	uint32_t yield_turn;
	bool doubtful;	      /* an MR could not once, and no standby was made since */
	struct list_node mrs; /* QUEUED ones, by their links there */
	bool replaying;	      /* a job takes them in turn */
};

struct sh_shadow_mr {
	struct list_node link; /* QUEUED: in the PD's list, or alone in a job's hands */
	enum sh_shadow_state state;
	uint32_t incarnation;
	struct ibv_mr *mr;
};

struct sh_pd {
	struct sh_busy busy;
	struct list_node link; /* sh_ctx.pds */
	struct ibv_pd *pd;
	struct sh_ctx *ctx;
	struct sh_shadow_pd shadow[SC_MAX_PATHS];
	/*
	 * True if memory of it is not shadowed: what uses it is not protected, while some of
	 * `alone` are not 0 or, with another reason, for good.
	 */
	_Atomic bool unprotected;
	/* True if it has, or had, memory where a WRITE may be seen before an earlier one. */
	bool unordered;
	const char *why;		/* set before */
	uint32_t alone[SH_ALONE_KINDS]; /* regions and keys */
	uint32_t foreign;		/* regions in other devices' memory: sh_push_concerns() */
	struct sh_pushers *pushers;	/* push.c; NULL: none was needed yet */
	struct list_node mrs, parents, devx;
};

struct sh_parent {
	struct list_node link; /* sh_pd.parents */
	struct ibv_pd *real;
	struct sh_pd *pd;
};

struct sh_mr {
	struct sh_busy busy;
	struct list_node link; /* sh_pd.mrs */
	struct ibv_mr *mr;
	struct sh_pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;
	unsigned int access;
	bool plain;	  /* reg_mr_iova2 was not used: iova = addr */
	bool placeholder; /* true if its NIC was dead: mr is ours */
	/* True for the buffer behind fd, which is ours to close; addr is nothing. */
	bool dmabuf;
	bool foreign; /* true if this process could not read it when it was registered */
	int fd;
	uint64_t offset;
	uint32_t direct; /* flags that the engine's provider had for it */
	enum sh_alone alone;
	bool readable; /* true if this process was seen to read it */
	/* Identity of the memory (base/mapped.h) when it was registered; 0: not known. */
	uint64_t mapped;
	bool leaving; /* being freed, while the lock is given up: no replay makes a shadow of it */
	struct list_node young; /* young.c; alone: it is not, or not any more */
	uint64_t young_until;
	struct sh_shadow_mr shadow[SC_MAX_PATHS];
};

void sh_replica_want(struct sh_ctx *ctx, uint8_t path) SH_LOCKED;
void sh_replica_want_again(void) SH_LOCKED; /* wants again, for all contexts, what has failed */
/*
 * Says that a standby is made there: its regions do not wait for a pause in the set-up, now and
 * from now on.
 */
void sh_replica_need(struct sh_ctx *ctx, uint8_t path) SH_LOCKED;
/* Registers the regions of all contexts that do wait. */
void sh_replica_setup_over(void) SH_LOCKED;
bool sh_pd_wanted(const struct sh_pd *pd, uint8_t path) SH_LOCKED;
void sh_pd_replay(struct sh_pd *pd, uint8_t path) SH_LOCKED;
/* Gives up the regions in line. */
void sh_pd_replay_give_up(struct sh_pd *pd, uint8_t path) SH_LOCKED;
/* Says that no user of it can go there. */
void sh_pd_lose_path(struct sh_pd *pd, uint8_t path) SH_LOCKED;
void sh_mr_replay(struct sh_mr *mr, uint8_t path) SH_LOCKED;
void sh_mr_replay_never(struct sh_mr *mr) SH_LOCKED;
/*
 * Takes the shadow, which has no key any more and is the caller's to deregister. NULL: there is
 * none.
 */
struct ibv_mr *sh_mr_take_shadow(struct sh_mr *mr, uint8_t path) SH_LOCKED;
/*
 * True if other memory is mapped at its address than when it was registered, as far as can be
 * known. No lock; system calls.
 */
bool sh_mr_is_another(const struct sh_mr *mr);
bool sh_pd_shadowed(const struct sh_pd *pd, uint8_t path); /* called on the NIC's worker; no lock */

/* Makes a region as requested, with a key that no other has. NULL: no memory. placeholder.c. */
struct ibv_mr *sh_mr_placeholder(struct ibv_pd *pd, const struct sh_mr *request) SH_LOCKED;
/*
 * refuses: standbys on that path cannot be made, as far as is known. queued: its replica there,
 * of this incarnation, is made or in line.
 */
bool sh_pd_refuses(const struct sh_pd *pd, uint8_t path) SH_LOCKED;
bool sh_pd_queued(const struct sh_pd *pd, uint8_t path) SH_LOCKED;
/* Also by a parent domain; NULL: not known. */
struct sh_pd *sh_pd_find(struct ibv_pd *pd) SH_LOCKED;

#endif
