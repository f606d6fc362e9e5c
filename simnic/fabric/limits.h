/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How much of everything a fabric and its NICs have. */
#ifndef SIMNIC_FABRIC_LIMITS_H
#define SIMNIC_FABRIC_LIMITS_H

#define SN_MAX_HOSTS	 8
#define SN_MAX_NICS	 8
#define SN_MAX_PROCS	 1024
#define SN_MAX_FAULTS	 256
#define SN_MAX_GIDS	 16
#define SN_MAX_PKEYS	 16
#define SN_MAX_CLASSES	 32
#define SN_IFNAME	 16
#define SN_QPN_FIRST	 0x40 /* equal on every NIC on purpose: QPNs and keys repeat across NICs */
#define SN_QPN_MAX	 0x10000
#define SN_QPN_FRAMES	 2 /* its owner has the NIC's network interface */
#define SN_MAX_QP_WR	 32768
#define SN_MAX_SGE	 30
#define SN_MAX_RD_ATOMIC 16
#define SN_MAX_CQE	 ((1 << 22) - 1)
#define SN_INBOX_SLOTS	 4096
#define SN_PKT_INLINE	 320
#define SN_PKT_MAX_SGE	 32
#define SN_BOUNCE_SLOTS	 64
#define SN_UD_MTU	 4096
#define SN_MAX_HELD	 128	      /* packets that a fabric keeps back; more of them get lost */
#define SN_HELD_BYTES	 (128 * 1024) /* payload kept of one; of a longer message that much lands */

#endif
