/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The NICs of this host, and SHIFT's own objects on each. */
#ifndef SHIFTLIB_NIC_H
#define SHIFTLIB_NIC_H

#include <infiniband/verbs.h>
#include "providers/engine_qp.h"
#include "shiftlib/backup/map.h"
#include "shiftlib/backup/nic.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/hang.h"
#include "shiftlib/core/state.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/fit.h"
#include "shiftlib/nic/netdev.h"
#include "shiftlib/nic/removal.h"
#include "shiftlib/report/event.h"
#include "shiftlib/report/metrics.h"

#define SH_MAX_NICS 32

/* Words by which a NIC is drained. */
enum sh_drain {
	SH_DRAIN_ORDER = 1, /* the operator's */
	SH_DRAIN_GRAY = 2,  /* conn/watch/gray.c: the NIC loses packets */
	SH_DRAIN_SLOW = 4,  /* conn/watch/slow.c: its links are slow */
};

enum sh_nic_state { SH_NIC_CLOSED, SH_NIC_OPENING, SH_NIC_OPEN, SH_NIC_FAILED };

/* A dead incarnation: closed when nothing that was made on it is left. */
struct sh_past_nic {
	struct sh_past_nic *next;
	uint32_t incarnation, holds;
	struct ibv_context *ctx;
	struct sp_dev *dev[SP_ENGINES];
};

/* A NIC of this host and SHIFT's own objects on it. Lives as long as the process. */
struct sh_nic {
	struct sh_busy busy;
	char name[64];		   /* name of the device when it was last opened */
	struct backup_place place; /* place by which the device is known when it comes back */
	uint8_t index;		   /* place in the device list: names the NIC in messages */
	enum sh_nic_state state;
	const char *why; /* FAILED: the reason */
	/*
	 * The first worker makes things, in order of arrival: on a well NIC that may take long too
	 * (much memory, an address that must be asked for). The second gives commands that a well
	 * NIC obeys at once: by these the NIC is judged. An object that the second destroys has no
	 * job with the first any more.
	 */
	struct sh_worker *worker, *prompt;
	struct sh_worker *owing; /* see object/debt.c; NULL: not needed yet */
	/*
	 * The open parts. Written on the NIC's worker with the lock held: its jobs read them
	 * without. A device that died and came back is opened anew as its next incarnation; objects
	 * of an earlier one are dead.
	 */
	uint32_t incarnation;
	uint32_t holds; /* shadows and carriers on the present incarnation */
	struct sh_past_nic *past;
	struct ibv_context *ctx;	/* SHIFT's own: shadows and the control QP live here */
	struct sh_removal removal;	/* removal of ctx */
	struct sp_dev *dev[SP_ENGINES]; /* devices of the engines that drive NICs whose paths lead
					 * here */
	struct sh_control *control;
	struct sh_limits max; /* read and written with the lock held */
	struct sh_address address;
	uint32_t revision; /* revision of the address: later ones of any NIC are higher
			    * (sh_nics.revision) */

	struct { /* the last GID that was asked for; forgotten when the port changes */
		bool valid;
		uint8_t index;
		uint8_t gid[16];
		uint8_t kind; /* enum sh_gid_kind; 0: not known */
		uint16_t vlan;
	} gid;

	struct {
		struct sh_pkeys pkeys;	      /* P_Keys of the port, also when it is dead */
		struct sh_gid_place vlan_gid; /* the worker's own: the last GID that was found */
		bool moved;		      /* partition.c: SHIFT's own may have another place */
		bool vlan_asked;	      /* vlan.c: looks for its GID on the process' VLAN */
	} tenant;

	bool port_down;
	bool link_lost;	  /* the network interface lost its link, maybe before the port's own
			   * event */
	int ifindex;	  /* index of that interface; 0: none is monitored */
	bool ifrunning;	  /* link of the interface when last heard of */
	uint32_t ifdowns; /* losses of that link: see link.h */
	bool fatal;	  /* dead, until opened again */
	bool sick;	  /* a command hangs or a carrier did not flush, until the NIC obeys
			   * again */
	uint8_t drained;  /* bits of enum sh_drain: no traffic here if there is another way */
	struct {
		bool under_way;	    /* a job that opens the NIC or asks its port */
		bool again;	    /* the port changed meanwhile */
		uint64_t obeyed_at; /* start of the last question that was answered; 0: none */
	} ask;
	struct sh_hang hang;
	enum sh_event_cause dead_by; /* fatal: the cause */
	uint64_t look_at;	     /* dead or sick: time of the next try; 0: well */
	struct {		     /* dead or sick: the watch of its way to memory, see cut.c */
		int fd;		     /* pci.h; negative: not known */
		struct sh_worker *eyes; /* looks, while commands hang; NULL: never needed */
		bool asked, once, off;	/* off: cut off for certain */
		bool seen, gone;	/* seen: looked at; gone: no answer at all */
		uint64_t look_at, interval;
		uint64_t on_at;	  /* last time when not cut off; 0: never since its death */
		uint32_t on_of;	  /* incarnation at that time */
		uint64_t seen_at; /* end of the last look, whatever its result */
	} cut;
	struct { /* sums over connections since the NIC was drained */
		uint32_t moved;
		uint64_t resubmitted, settled;
	} left;
	struct sh_away away[SC_MAX_PATHS]; /* connections away from this default NIC, by path */
	struct { /* the pause in which shadows leave their place to the application: see yield.c */
		_Atomic uint64_t until; /* end of the pause; 0: none */
		_Atomic bool all;	/* pause for all objects, not only queue pairs */
		bool closed;		/* SHIFT's own objects are closed too: give.c */
		uint64_t interval;
	} yield;
	struct sh_handler control_handler, async_handler;
};

struct sh_nics {
	struct sh_nic nic[SH_MAX_NICS];
	uint32_t n;
	uint32_t revision; /* the highest revision */
	bool known;
	bool limited; /* not all memory may be locked */
	bool cramped; /* no room for the largest control queue pairs, see backup/room.h */
	bool many;    /* many control datagrams may come at once */
	struct {      /* widen.c, by NIC */
		bool asked;
		uint64_t not_before; /* end of the pause behind a try that found no memory */
	} widen[SH_MAX_NICS];
	struct { /* VLAN of the first connection */
		bool known;
		uint16_t id; /* 0: none */
	} vlan;
	struct backup_map map;
	/*
	 * The engine of the application's objects, by NIC; NULL: none drives it and all its
	 * backups.
	 */
	const struct shift_provider *engine[SH_MAX_NICS];
	struct sh_netdev_monitor *netdevs;
	struct sh_handler netdev_handler;
};

extern struct sh_nics sh_nics;

/*
 * True if all that an incarnation of the NIC had taken in by `since` has reached memory: the NIC is
 * well, or had its way there for long enough after.
 */
bool sh_nic_drained(const struct sh_nic *nic, uint32_t incarnation, uint64_t since);
/* True if that cannot be said yet: the look that would tell is not over. */
bool sh_nic_drain_unknown(const struct sh_nic *nic, uint32_t incarnation, uint64_t since);
void sh_nic_drains(struct sh_nic *nic, uint64_t since); /* plans a look in time for that question */

static inline const struct shift_provider *sh_nic_engine(const struct sh_nic *nic)
{
	return sh_nics.engine[nic->index];
}

/* Returns SHIFT's own device of that engine there; NULL: none. */
static inline struct sp_dev *sh_nic_dev(const struct sh_nic *nic,
					const struct shift_provider *engine)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (nic->dev[i] && sp_engine(nic->dev[i]) == engine)
			return nic->dev[i];
	return NULL;
}

int sh_nics_load(void) SH_LOCKED; /* reads devices and backups once */
struct sh_nic *sh_nic_by_name(const char *name);
struct sh_nic *sh_nic_by_place(const char *name) SH_LOCKED; /* by the device of that name now */
void sh_nic_open(struct sh_nic *nic) SH_LOCKED;		    /* in the background */
bool sh_nic_usable(const struct sh_nic *nic);		    /* for control messages */
bool sh_nic_up(const struct sh_nic *nic); /* usable for traffic: the NIC obeys, too */
/*
 * Tries NICs: those that returned no command lately get one, and have a while to return it; then
 * sh_nic_prompt() tells.
 */
void sh_nics_try(struct sh_nic *const *nics, uint32_t n) SH_DROPS;
/* True if the NIC has returned a command since then, one of ours if there was none. */
bool sh_nic_tried(struct sh_nic *nic, uint64_t since) SH_DROPS;
/* Up, and no command of it takes long now. */
bool sh_nic_prompt(const struct sh_nic *nic) SH_LOCKED;
void sh_nic_sick(struct sh_nic *nic) SH_LOCKED;
/* Called by a context of its present incarnation. */
void sh_nic_fatal(struct sh_nic *nic) SH_LOCKED;
void sh_nic_taken(struct sh_nic *nic) SH_LOCKED; /* the device is going */
/* Count an object made on an incarnation, from hold to release. */
void sh_nic_hold(struct sh_nic *nic, uint32_t incarnation) SH_LOCKED;
void sh_nic_release(struct sh_nic *nic, uint32_t incarnation) SH_LOCKED;
void sh_nic_obeys(struct sh_nic *nic) SH_LOCKED;	  /* not sick any more */
void sh_nic_drain(struct sh_nic *nic, bool on) SH_LOCKED; /* the operator's order */
/* Drains by a judgment, or ends that. */
void sh_nic_avoid(struct sh_nic *nic, enum sh_drain by, bool on) SH_LOCKED;
/* Asks the device; lock not held. */
bool sh_device_gone(struct ibv_context *context);
/* Asks by a harmless command, and takes the answer. */
void sh_nic_ask(struct sh_nic *nic) SH_LOCKED;
/*
 * vlan.c: takes the VLAN of a connection to be introduced. False: addresses are being found; see
 * news.h, opened.
 */
bool sh_nics_on_vlan(uint16_t vlan) SH_LOCKED;
void sh_nic_link(struct sh_nic *nic, bool running) SH_LOCKED;
/* Tells how many control datagrams may come at once on a NIC. */
void sh_nics_expect(uint32_t datagrams) SH_LOCKED;
/* On its worker; idle objects there are gone. */
void sh_nic_emptied(struct sh_nic *nic) SH_LOCKED;

extern const char sh_nic_no_files[]; /* a reason of FAILED */
extern const struct sh_module sh_nics_module;

#endif
