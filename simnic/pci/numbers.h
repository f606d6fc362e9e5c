/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Numbers of the objects that are no more than a number to the firmware (protection domains, UARs,
 * flow tables, ...). A number is not given again before all others of its kind were, so a stale one
 * is noticed.
 */
#ifndef SIMNIC_PCI_NUMBERS_H
#define SIMNIC_PCI_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

enum sn_kind {
	SN_KIND_PD,
	SN_KIND_UAR,
	SN_KIND_XRCD,
	SN_KIND_TRANSPORT_DOMAIN,
	SN_KIND_Q_COUNTER,
	SN_KIND_TIR,
	SN_KIND_TIS,
	SN_KIND_RQT,
	SN_KIND_FLOW_TABLE,
	SN_KIND_FLOW_GROUP,
	SN_KIND_FLOW_COUNTER,
	SN_KINDS,
};

struct sn_numbers;

struct sn_numbers *sn_numbers_new(void); /* NULL: no memory */
void sn_numbers_free(struct sn_numbers *numbers);
void sn_numbers_forget(struct sn_numbers *numbers); /* all are free again */
/* 0: none is left. */
uint32_t sn_numbers_give(struct sn_numbers *numbers, enum sn_kind kind);
/* False: the number is not in use. */
bool sn_numbers_drop(struct sn_numbers *numbers, enum sn_kind kind, uint32_t number);
bool sn_numbers_used(const struct sn_numbers *numbers, enum sn_kind kind, uint32_t number);

#endif
