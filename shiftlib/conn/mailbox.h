/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The mailbox of a connection: the data path writes it without a lock, the background thread
 * reads it.
 */
#ifndef SHIFTLIB_CONN_MAILBOX_H
#define SHIFTLIB_CONN_MAILBOX_H

#include <stdatomic.h>
#include <stdint.h>
#include "shiftlib/loop/loop.h"

struct sh_qp;

enum sh_pending {
	SH_PENDING_ERROR = 1,
	SH_PENDING_KEY = 2,
	SH_PENDING_PROGRESS = 4,
	SH_PENDING_APP_ERROR = 8, /* withheld: the application's own or a sick NIC's? */
	SH_PENDING_GATED = 16,
	SH_PENDING_DOUBT = 32, /* withheld: the link's or the application's own? */
};

#define SH_KEY_REMOTE (1ull << 32)

/* In struct sh_qp. */
struct sh_mailbox {
	_Atomic uint32_t pending;
	_Atomic uint32_t error_epoch, error_status, error_vendor, error_withheld;
	_Atomic uint32_t app_error_epoch, app_error_status, app_error_vendor;
	_Atomic uint32_t doubt_epoch, doubt_status, doubt_vendor;
	_Atomic uint32_t progress_epoch; /* the last carrier but 0 that a send completed on */
	_Atomic uint64_t error_ns, progress_ns;
	_Atomic uint64_t
		missing; /* the key that was last asked for in vain; SH_KEY_REMOTE: the peer's */
	struct sh_qp *_Atomic next;
	struct
	{ /* Lock held. What has come of the sends; before: when retries were not answered last */
		uint64_t settled, settled_before;
		uint32_t progress_before; /* progress_epoch */
	} fruit;
};

/* Any thread, no lock. */
void sh_mailbox_push(struct sh_qp *qp, enum sh_pending what);
/* Notes the error that SH_PENDING_ERROR or SH_PENDING_APP_ERROR tells of. */
void sh_mailbox_note_error(struct sh_qp *qp, uint32_t epoch, uint32_t status, uint32_t vendor_err,
			   bool withheld);
void sh_mailbox_note_app_error(struct sh_qp *qp, uint32_t epoch, uint32_t status,
			       uint32_t vendor_err);
/* The error that SH_PENDING_APP_ERROR told of is the program's (P6), or a sick NIC's. */
void sh_mailbox_program(struct sh_qp *qp) SH_LOCKED;
void sh_mailbox_nic(struct sh_qp *qp) SH_LOCKED;
/* True if such an error has come that nobody has read yet. */
static inline bool sh_mailbox_accuses(const struct sh_mailbox *mailbox)
{
	return atomic_load(&mailbox->pending) & SH_PENDING_APP_ERROR;
}
void sh_mailbox_read(void) SH_LOCKED; /* handle what the data path reported */

extern const struct sh_module sh_mailbox_module;

#endif
