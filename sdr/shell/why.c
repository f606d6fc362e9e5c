/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The sentence about the last failure, which says more than the number of an error. */
#include "sdr/shell/internal.h"

#include <stdarg.h>
#include <stdio.h>

void sdr_why(struct sdr_qp *qp, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(qp->why, sizeof(qp->why), format, args);
	va_end(args);
}

SDR_API const char *sdr_qp_why(const struct sdr_qp *qp)
{
	return qp->why;
}
