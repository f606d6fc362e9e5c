/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "shiftlib/nic/counters.h"

/* Below ports/1. Of several names of one thing a driver has one. */
struct file {
	const char *name;
	size_t to;
};

#define TO(member) offsetof(struct sh_gray_counts, member)

/*
 * mlx5; and the software RDMA of the kernel (rxe), which counts neither timeouts nor damage. symbol_error is not among
 * them: links with forward error correction have such errors all the time, and repair them.
 */
static const struct file files[] = {
	{ "counters/port_xmit_packets", TO(packets) },
	{ "counters/port_rcv_packets", TO(packets) },
	{ "counters/port_rcv_errors", TO(damaged) },
	{ "hw_counters/packet_seq_err", TO(naks) },
	{ "hw_counters/implied_nak_seq_err", TO(naks) },
	{ "hw_counters/out_of_sequence", TO(gaps) },
	{ "hw_counters/local_ack_timeout_err", TO(timeouts) },
	{ "hw_counters/duplicate_request", TO(duplicates) },
	{ "hw_counters/rnr_nak_retry_err", TO(unready) },
	{ "hw_counters/out_of_buffer", TO(unready) },
	{ "hw_counters/np_ecn_marked_roce_packets", TO(marks) },
	{ "hw_counters/rp_cnp_handled", TO(marks) },
	{ "hw_counters/sent_pkts", TO(packets) },
	{ "hw_counters/rcvd_pkts", TO(packets) },
	{ "hw_counters/rcvd_seq_err", TO(naks) },
	{ "hw_counters/out_of_seq_request", TO(gaps) },
	{ "hw_counters/rcvd_rnr_err", TO(unready) },
	{ "hw_counters/send_rnr_err", TO(unready) },
};

static uint64_t value_of(int port, const char *name)
{
	char text[32];
	int fd = openat(port, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return strtoull(text, NULL, 10);
}

bool sh_counters_read(const char *sysfs, const char *device, struct sh_gray_counts *out)
{
	char path[256];
	int port;

	memset(out, 0, sizeof(*out));
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/1", sysfs, device);
	port = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (port < 0)
		return false;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		*(uint64_t *)((char *)out + files[i].to) += value_of(port, files[i].name);
	close(port);
	return out->packets != 0;
}
