/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIMNIC_CTL_SIMNICCTL_H
#define SIMNIC_CTL_SIMNICCTL_H

#include "simnic/fabric/fabric.h"

/* Exit codes: 0, 1 = failed, 2 = usage. Each command gets argv from its own name on. */
enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2 };

int ctl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int ctl_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *ctl_fabric_name(void);
/* Attaches to the fabric of SIMNIC_FABRIC, or says why not. */
struct sn_fabric *ctl_attach(void);
/* Whole-string number in [min, max]; false with a message otherwise. */
bool ctl_number(const char *what, const char *text, double min, double max, double *out);

struct ctl_target {
	bool rail;
	uint32_t host, nic;
};
bool ctl_target(const struct sn_fabric *fabric, const char *text, struct ctl_target *out);

struct ctl_nic {
	struct sn_fabric *fabric;
	struct sn_nic *nic;
};
/* Attaches, and finds the NIC of that name; false with a message where there is none. */
bool ctl_nic(const char *text, struct ctl_nic *out);
int ctl_netdev_set(struct ctl_nic *nic, const char *name);

int ctl_create(int argc, char **argv);
int ctl_destroy(int argc, char **argv);
int ctl_run(int argc, char **argv);
int ctl_real(int argc, char **argv);
int ctl_fault(int argc, char **argv);
int ctl_reprobe(int argc, char **argv);
int ctl_script(int argc, char **argv);
int ctl_release(int argc, char **argv);
int ctl_heal(int argc, char **argv);
int ctl_link(int argc, char **argv);
int ctl_speed(int argc, char **argv);
int ctl_cost(int argc, char **argv);
int ctl_timeout(int argc, char **argv);
int ctl_slow(int argc, char **argv);
int ctl_retry(int argc, char **argv);
int ctl_torn_lines(int argc, char **argv);
int ctl_posted_writes(int argc, char **argv);
int ctl_clock(int argc, char **argv);
int ctl_atomic_scope(int argc, char **argv);
int ctl_limit(int argc, char **argv);
int ctl_quirk(int argc, char **argv);
int ctl_removal(int argc, char **argv);
int ctl_swap(int argc, char **argv);
int ctl_vlan(int argc, char **argv);
int ctl_pkeys(int argc, char **argv);
int ctl_mtu(int argc, char **argv);
int ctl_netdev(int argc, char **argv);
int ctl_gids(int argc, char **argv);
int ctl_move_gid(int argc, char **argv);
int ctl_status(int argc, char **argv);

#endif
