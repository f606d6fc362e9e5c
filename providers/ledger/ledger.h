/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ledger engine, as the table of engines names it. */
#ifndef LED_LEDGER_H
#define LED_LEDGER_H

#include "providers/provider.h"

extern const struct shift_provider shift_provider_ledger;

#endif
