/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "shiftlib/nic/counters.h"
#include "shiftlib/nic/netdev.h"

/*
 * A counter's file below ports/1, and the count that it adds to. Of several names of one count a
 * driver has one.
 */
struct file {
	const char *name;
	size_t to;
};

#define TO(member) offsetof(struct sh_gray_counts, member)

/*
 * The counters of mlx5, and of the kernel's software RDMA (rxe), which counts no timeouts.
 * symbol_error is not among them: links with forward error correction have such errors all the
 * time, and repair them.
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

#define N_FILES (sizeof(files) / sizeof(files[0]))

_Static_assert(N_FILES < 32, "each has a bit, and so has the network interface");

/* Reads a counter. False: no file, not readable now, or no number in it. */
static bool value_of(int port, const char *name, uint64_t *value)
{
	char text[32], *end;
	int fd = openat(port, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	*value = strtoull(text, &end, 10);
	return end != text;
}

static void count(struct sh_gray_counts *out, size_t file, size_t to, uint64_t value)
{
	out->files |= 1u << file;
	*(uint64_t *)((char *)out + to) += value;
}

static int port_open(const char *sysfs, const char *device)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/1", sysfs, device);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool sh_counters_read(const char *sysfs, const char *device, struct sh_gray_counts *out)
{
	uint64_t value;
	int port;

	memset(out, 0, sizeof(*out));
	port = port_open(sysfs, device);
	if (port < 0)
		return false;
	for (size_t i = 0; i < N_FILES; i++)
		if (value_of(port, files[i].name, &value))
			count(out, i, files[i].to, value);
	close(port);
	if (sh_netdev_damaged(sysfs, device, &value))
		count(out, N_FILES, TO(damaged), value);
	return out->packets != 0;
}

/*
 * The pause counters of the interface (ethtool's rx_prio*_pause) are not among them: the kernel
 * answers for them under the lock of its whole network, which the reset of another NIC may hold
 * for a minute.
 */
bool sh_counters_read_held(const char *sysfs, const char *device, struct sh_counters_held *out)
{
	int port = port_open(sysfs, device);

	memset(out, 0, sizeof(*out));
	if (port < 0)
		return false;
	out->has_waits = value_of(port, "counters/port_xmit_wait", &out->waits);
	out->has_rnr_naks = value_of(port, "hw_counters/rnr_nak_retry_err", &out->rnr_naks) ||
			    value_of(port, "hw_counters/rcvd_rnr_err", &out->rnr_naks);
	close(port);
	return out->has_waits || out->has_rnr_naks;
}
