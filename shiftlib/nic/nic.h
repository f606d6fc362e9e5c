/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The NICs of this host, and what SHIFT itself has open on each. */
#ifndef SHIFTLIB_NIC_H
#define SHIFTLIB_NIC_H

#include <infiniband/verbs.h>
#include "providers/engine_qp.h"
#include "shiftlib/backup/map.h"
#include "shiftlib/backup/nic.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/hang.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/fit.h"
#include "shiftlib/nic/netdev.h"
#include "shiftlib/nic/removal.h"
#include "shiftlib/report/event.h"
#include "shiftlib/report/metrics.h"

#define SH_MAX_NICS 32

/* By whose word a NIC is drained. */
enum sh_drain {
	SH_DRAIN_ORDER = 1, /* the operator's */
	SH_DRAIN_GRAY = 2,  /* conn/gray.c: it loses packets */
	SH_DRAIN_SLOW = 4,  /* conn/slow.c: its links are slow */
};

enum sh_nic_state { SH_NIC_CLOSED, SH_NIC_OPENING, SH_NIC_OPEN, SH_NIC_FAILED };

/* An incarnation that died: closed when nothing that was made on it is left. */
struct sh_past_nic {
	struct sh_past_nic *next;
	uint32_t incarnation, holds;
	struct ibv_context *ctx;
	struct sp_dev *dev[SP_ENGINES];
};

/* A NIC of this host and what SHIFT itself has open on it. Lives as long as the process. */
struct sh_nic {
	struct sh_busy busy;
	char name[64];		   /* of the device, when it was last opened */
	struct backup_place place; /* by which it is known when it comes back */
	uint8_t index;		   /* place in the device list: names the NIC in messages */
	enum sh_nic_state state;
	const char *why; /* FAILED: the reason */
	/*
	 * The first makes things, in order of arrival: that may take long (much memory, an address that
	 * must be asked for) on a NIC that is well. The second gives commands that a NIC which is well
	 * obeys at once: by these it is judged. What it destroys has no job with the first any more.
	 */
	struct sh_worker *worker, *prompt;
	struct sh_worker *owing; /* see object/debt.c; NULL: there was no need yet */
	/*
	 * What is open. Written on the NIC's worker with the lock held: its jobs read it without.
	 * A device that died and came back is opened anew as its next incarnation; what was made on
	 * an earlier one is dead.
	 */
	uint32_t incarnation;
	uint32_t holds; /* shadows and carriers on the present one */
	struct sh_past_nic *past;
	struct ibv_context *ctx;   /* SHIFT's own: shadows and the control QP live here */
	struct sh_removal removal; /* of that */
	struct sp_dev *
		dev[SP_ENGINES]; /* by engine: of each that drives a NIC which it is on a path of */
	struct sh_control *control;
	struct sh_limits max; /* read and written with the lock held */
	struct sh_address address;
	uint32_t revision; /* of the address: a later one of any NIC is higher (sh.nics_revision) */

	struct { /* the last one that was asked for; forgotten when the port changes */
		bool valid;
		uint8_t index;
		uint8_t gid[16];
		uint8_t kind; /* enum sh_gid_kind; 0: not known */
		uint16_t vlan;
	} gid;

	struct {
		struct sh_pkeys pkeys;	      /* of the port, also when it is dead */
		struct sh_gid_place vlan_gid; /* its worker's: the last one that was found */
		bool vlan_asked; /* vlan.c: its GID on the process' VLAN is looked for */
	} tenant;

	bool port_down;
	bool link_lost;	  /* its network interface, which may say so before the port does */
	int ifindex;	  /* of that; 0: none is monitored */
	bool ifrunning;	  /* it had its link when last heard of */
	uint32_t ifdowns; /* and had lost it so often: see link.h */
	bool fatal;	  /* dead, until it has been opened again */
	bool sick;	  /* a command hangs or a carrier did not flush, until it obeys again */
	uint8_t drained;  /* enum sh_drain, as bits: no traffic here if there is another way */
	bool asked;	  /* a job that opens it or asks its port is under way */
	bool ask_again;	  /* the port changed meanwhile */
	struct sh_hang hang;
	enum sh_event_cause dead_by;   /* fatal: of what */
	uint64_t look_at;	       /* dead or sick: when to try again; 0: it is not */
	struct {		       /* dead or sick: is it cut off from memory? See cut.c */
		int fd;		       /* pci.h; negative: not known */
		bool asked, once, off; /* off: for certain */
		bool seen, gone;       /* it was looked at; it does not answer at all */
		uint64_t look_at, interval;
		uint64_t on_at;	  /* it was not, when last seen so; 0: never since it died */
		uint32_t on_of;	  /* which incarnation that was */
		uint64_t seen_at; /* the last look at it was over, whatever it saw */
	} cut;
	struct { /* by connections, since it was drained */
		uint32_t moved;
		uint64_t resubmitted, settled;
	} left;
	struct sh_away away[SC_MAX_PATHS]; /* by path: connections whose default NIC it is */
	struct { /* shadows there have made place for the application's own: see yield.c */
		_Atomic uint64_t until; /* none is made before; 0: they may */
		_Atomic bool all;	/* not only queue pairs */
		bool closed;		/* and what SHIFT has open there: give.c */
		uint64_t interval;
	} yield;
	struct sh_handler control_handler, async_handler;
};

struct sh_nics {
	struct sh_nic nic[SH_MAX_NICS];
	uint32_t n;
	uint32_t revision; /* the highest */
	bool known;
	struct { /* of the first connection */
		bool known;
		uint16_t id; /* 0: none */
	} vlan;
	struct backup_map map;
	/* By NIC: of what the application has on it; NULL: none is for it and all its backups. */
	const struct shift_provider *engine[SH_MAX_NICS];
	struct sh_netdev_monitor *netdevs;
	struct sh_handler netdev_handler;
};

extern struct sh_nics sh_nics;

/*
 * What a NIC had taken in at that time, in that life, has reached memory: it is well, or still had its way there
 * for long enough behind.
 */
bool sh_nic_drained(const struct sh_nic *nic, uint32_t incarnation, uint64_t since);
/* It cannot be said yet: the look that would tell is not over. */
bool sh_nic_drain_unknown(const struct sh_nic *nic, uint32_t incarnation, uint64_t since);
void sh_nic_drains(struct sh_nic *nic,
		   uint64_t since); /* that will be asked: it is looked at in time */

static inline const struct shift_provider *sh_nic_engine(const struct sh_nic *nic)
{
	return sh_nics.engine[nic->index];
}

/* SHIFT's own there, of that engine; NULL: it has none there. */
static inline struct sp_dev *sh_nic_dev(const struct sh_nic *nic,
					const struct shift_provider *engine)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (nic->dev[i] && sp_engine(nic->dev[i]) == engine)
			return nic->dev[i];
	return NULL;
}

int sh_nics_load(void); /* lock held: list of devices and the backup map, once */
struct sh_nic *sh_nic_by_name(const char *name);
struct sh_nic *
sh_nic_by_place(const char *name);	      /* lock held: of the device that has the name now */
void sh_nic_open(struct sh_nic *nic);	      /* lock held: in the background */
bool sh_nic_usable(const struct sh_nic *nic); /* for control messages */
bool sh_nic_up(const struct sh_nic *nic);     /* for traffic: it obeys, too */
/* Lock held, given up meanwhile: those of a context that have returned no command lately are given one, and
 * have a while to return it; then sh_nic_prompt() tells. */
void sh_nics_try(struct sh_nic *const *nics, uint32_t n);
/* Lock held, given up meanwhile: it has returned a command since then, one of ours if there is none. */
bool sh_nic_tried(struct sh_nic *nic, uint64_t since);
bool sh_nic_prompt(const struct sh_nic *nic); /* likewise, and no command of it takes long now */
void sh_nic_sick(struct sh_nic *nic);
void sh_nic_fatal(struct sh_nic *nic); /* a context of its present incarnation says so */
/* Around the life of what is made on an incarnation; lock held. */
void sh_nic_hold(struct sh_nic *nic, uint32_t incarnation);
void sh_nic_release(struct sh_nic *nic, uint32_t incarnation);
void sh_nic_obeys(struct sh_nic *nic);				  /* it is not sick any more */
void sh_nic_drain(struct sh_nic *nic, bool on);			  /* the operator's order */
void sh_nic_avoid(struct sh_nic *nic, enum sh_drain by, bool on); /* it was judged so */
bool sh_device_gone(struct ibv_context *context);		  /* it is asked: lock not held */
void sh_nic_ask(struct sh_nic *nic); /* a command that does no harm; it is told of the answer */
/* vlan.c: of a connection that is to be introduced. False: addresses are being found out; see news.h, opened. */
bool sh_nics_on_vlan(uint16_t vlan);
void sh_nic_link(struct sh_nic *nic, bool running);
void sh_nic_emptied(struct sh_nic *nic); /* lock held, on its worker: what was idle there is gone */

extern const struct sh_module sh_nics_module;

#endif
