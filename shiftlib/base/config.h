/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The settings SHIFT_*, read once. docs/man/shift.7 describes each variable. */
#ifndef SHIFTLIB_CONFIG_H
#define SHIFTLIB_CONFIG_H

#include <stdint.h>
#include "shiftlib/core/config.h"
#include "shiftlib/core/gray.h"
#include "shiftlib/core/hang.h"
#include "shiftlib/core/path_health.h"

struct sh_on_event_config {
	const char *command; /* SHIFT_ON_EVENT; NULL: none */
	const char *kinds;   /* SHIFT_ON_EVENT_KINDS; NULL: not said */
	uint64_t timeout_ns; /* SHIFT_ON_EVENT_TIMEOUT_MS */
};

enum sh_gray_mode {
	SH_GRAY_OFF,
	SH_GRAY_WATCH, /* told, and nothing is done */
	SH_GRAY_ON,
};

/* The home of atomics of connections to this process. */
enum sh_atomic_home {
	SH_ATOMIC_HOME_OFF,
	SH_ATOMIC_HOME_ON,
	SH_ATOMIC_HOME_FIXED, /* other processes serve atomics on the same memory */
};

struct sh_config {
	const char *kv_url;	      /* SHIFT_KV; NULL: the user's file */
	const char *backup;	      /* SHIFT_BACKUP; NULL: auto */
	const char *engine;	      /* SHIFT_ENGINE; NULL: auto */
	const char *kv_password_file; /* SHIFT_KV_PASSWORD_FILE; NULL: none */
	const char *secret_file;      /* SHIFT_SECRET_FILE; NULL: values in the KV have no MAC */
	const char *job;	      /* SHIFT_JOB, or what the launcher says; NULL: the user */
	const char *stats;	      /* SHIFT_STATS; NULL: none */
	const char *run_dir;	      /* SHIFT_RUN_DIR; NULL: the user's */
	const char *atomic_group;     /* SHIFT_ATOMIC_GROUP; NULL: none */
	unsigned int kv_timeout_ms;
	unsigned int lease_ms;
	bool pool;		/* SHIFT_LAZY=pool */
	bool any_vlan;		/* SHIFT_ANY_VLAN */
	bool atomics_owner;	/* SHIFT_ATOMICS=owner */
	bool atomics_uid;	/* SHIFT_ATOMICS=uid */
	bool crash_note;	/* SHIFT_CRASH_NOTE */
	bool hold_hung;		/* SHIFT_HOLD_HUNG */
	bool push;		/* SHIFT_PUSH */
	bool trust_unplaced;	/* SHIFT_UNPLACED=trust */
	uint32_t wqe_log;	/* SHIFT_WQE_LOG; 0: off */
	uint64_t watch_ns;	/* period of the look at rings that nobody polls */
	uint64_t yield_ns;	/* SHIFT_YIELD_MS: how long shadows stay away, at first */
	uint64_t flush_wait_ns; /* how long a carrier may take to flush before it counts as sick */
	enum sh_atomic_home atomic_home;
	struct sh_path_config path;
	struct sh_hang_config hang;
	struct sh_on_event_config on_event;
	struct {
		enum sh_gray_mode mode; /* SHIFT_GRAY */
		struct sh_gray_config rules;
	} gray;
	struct sc_config core; /* retry_time_ns is set per connection */
};

enum { SH_WQE_LOG_MAX = 1 << 16 }; /* requests for one log WQE */
enum { SH_ATOMIC_GROUP_MAX = 64 }; /* characters of a name */

void sh_config_read(struct sh_config *config);

#endif
