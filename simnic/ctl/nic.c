/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The simnicctl commands that set properties of one NIC: cost, timeout, slow, retry, atomic-scope,
 * limit, mtu, quirk, removal, swap, torn-lines, netdev, gids, move-gid, vlan, pkeys.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "simnic/ctl/simnicctl.h"

bool ctl_nic(const char *text, struct ctl_nic *out)
{
	struct ctl_target target;

	out->fabric = ctl_attach();
	if (!out->fabric || !ctl_target(out->fabric, text, &target))
		return false;
	if (target.rail) {
		ctl_usage("'%s' is a switch, a NIC is wanted", text);
		return false;
	}
	out->nic = &out->fabric->nic[target.host][target.nic];
	return true;
}

int ctl_cost(int argc, char **argv)
{
	struct ctl_nic nic;
	double usec;

	if (argc != 3)
		return ctl_usage("cost wants TARGET USEC");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("cost", argv[2], 0, 1e8, &usec))
		return CTL_FAILED;
	atomic_store(&nic.nic->cmd_cost_ns, usec * 1e3);
	return CTL_OK;
}

int ctl_timeout(int argc, char **argv)
{
	struct ctl_nic nic;
	double seconds;

	if (argc != 3)
		return ctl_usage("timeout wants TARGET SECONDS");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("timeout", argv[2], 0.001, 1e6, &seconds))
		return CTL_FAILED;
	atomic_store(&nic.nic->slow.timeout_ns, seconds * 1e9);
	return CTL_OK;
}

static _Atomic uint64_t *slow_find(struct sn_nic *nic, const char *what)
{
	if (!strcmp(what, "register"))
		return &nic->slow.register_ns;
	if (!strcmp(what, "region"))
		return &nic->slow.region_ns;
	return strcmp(what, "route") ? NULL : &nic->slow.route_ns;
}

int ctl_slow(int argc, char **argv)
{
	struct ctl_nic nic;
	double usec;

	if (argc != 4)
		return ctl_usage("slow wants TARGET register|region|route USEC");
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	if (!slow_find(nic.nic, argv[2]))
		return ctl_usage("slow wants TARGET register|region|route USEC");
	if (!ctl_number("slow", argv[3], 0, 1e8, &usec))
		return CTL_FAILED;
	atomic_store(slow_find(nic.nic, argv[2]), usec * 1e3);
	return CTL_OK;
}

int ctl_retry(int argc, char **argv)
{
	struct ctl_nic nic;
	double times;

	if (argc != 3)
		return ctl_usage("retry wants TARGET TIMES");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("retry", argv[2], 0.01, 16, &times))
		return CTL_FAILED;
	atomic_store(&nic.nic->slow.retry_percent, times * 100);
	return CTL_OK;
}

int ctl_posted_writes(int argc, char **argv)
{
	struct ctl_nic nic;
	double usec;

	bool lost = argc == 4 && !strcmp(argv[3], "lost");
	bool unflushed = argc == 4 && !strcmp(argv[3], "unflushed");

	if (argc != 3 + lost + unflushed)
		return ctl_usage("posted-writes wants TARGET USEC [lost|unflushed]");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("posted-writes", argv[2], 0, 1e8, &usec))
		return CTL_FAILED;
	atomic_store(&nic.nic->posted.lost, lost);
	atomic_store(&nic.nic->posted.unflushed, unflushed);
	atomic_store(&nic.nic->posted.ns, usec * 1e3);
	return CTL_OK;
}

int ctl_torn_lines(int argc, char **argv)
{
	struct ctl_nic nic;

	if (argc != 3 || (strcmp(argv[2], "on") && strcmp(argv[2], "off")))
		return ctl_usage("torn-lines wants NIC on|off");
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	atomic_store(&nic.nic->posted.torn, !strcmp(argv[2], "on"));
	return CTL_OK;
}

int ctl_atomic_scope(int argc, char **argv)
{
	struct ctl_nic nic;

	if (argc != 3 || (strcmp(argv[2], "hca") && strcmp(argv[2], "glob")))
		return ctl_usage("atomic-scope wants NIC hca|glob");
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	atomic_store(&nic.nic->atomic.glob, !strcmp(argv[2], "glob"));
	return CTL_OK;
}

int ctl_swap(int argc, char **argv)
{
	struct ctl_nic a, b;

	if (argc != 3)
		return ctl_usage("swap wants NIC NIC");
	if (!ctl_nic(argv[1], &a) || !ctl_nic(argv[2], &b))
		return CTL_FAILED;
	/* each has a mapping of its own, of one fabric */
	if (sn_nic_swap_names(a.fabric, a.nic, &a.fabric->nic[b.nic->host][b.nic->index]))
		return ctl_fail("only two NICs of one host that are taken away can swap names");
	return CTL_OK;
}

int ctl_removal(int argc, char **argv)
{
	bool backwards = false, fatal_first = false;
	struct ctl_nic nic;
	double msec;

	for (int i = 3; i < argc; i++) {
		backwards |= !strcmp(argv[i], "backwards");
		fatal_first |= !strcmp(argv[i], "fatal-first");
	}
	if (argc < 3 || argc != 3 + backwards + fatal_first)
		return ctl_usage("removal wants NIC MSEC [backwards] [fatal-first]");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("removal", argv[2], 0, 1e6, &msec))
		return CTL_FAILED;
	atomic_store(&nic.nic->removal.each_ns, msec * 1e6);
	atomic_store(&nic.nic->removal.backwards, backwards);
	atomic_store(&nic.nic->removal.fatal_first, fatal_first);
	return CTL_OK;
}

int ctl_quirk(int argc, char **argv)
{
	struct ctl_nic nic;
	int quirk;

	if (argc != 3)
		return ctl_usage("quirk wants NIC NAME (none: no quirks); see simnicctl(1)");
	quirk = sn_quirk_find(argv[2]);
	if (quirk < 0 && strcmp(argv[2], "none"))
		return ctl_usage("no quirk '%s'; simnicctl(1) has them", argv[2]);
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	if (quirk < 0)
		atomic_store(&nic.nic->quirks, 0);
	else
		atomic_fetch_or(&nic.nic->quirks, 1u << quirk);
	return CTL_OK;
}

int ctl_limit(int argc, char **argv)
{
	static const struct {
		const char *name;
		size_t offset;
		double min, max;
	} limits[] = {
		{ "pds", offsetof(struct sn_nic, limit[SN_LIMIT_PD]), 0, 1e9 },
		{ "mrs", offsetof(struct sn_nic, limit[SN_LIMIT_MR]), 0, 1e9 },
		{ "cqs", offsetof(struct sn_nic, limit[SN_LIMIT_CQ]), 0, 1e9 },
		{ "qps", offsetof(struct sn_nic, limit[SN_LIMIT_QP]), 0, 1e9 },
		{ "srqs", offsetof(struct sn_nic, limit[SN_LIMIT_SRQ]), 0, 1e9 },
		{ "qp-wr", offsetof(struct sn_nic, max.qp_wr), 1, SN_MAX_QP_WR },
		{ "sge", offsetof(struct sn_nic, max.sge), 1, SN_MAX_SGE },
		{ "reads", offsetof(struct sn_nic, max.reads), 1, SN_MAX_RD_ATOMIC },
		{ "cqe", offsetof(struct sn_nic, max.cqe), 1, SN_MAX_CQE },
		{ "cq-resize", offsetof(struct sn_nic, max.resize), 0, SN_MAX_CQE },
	};
	struct ctl_nic nic;
	double count;

	for (size_t i = 0; argc == 4 && i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (strcmp(argv[2], limits[i].name))
			continue;
		if (!ctl_nic(argv[1], &nic) ||
		    !ctl_number("limit", argv[3], limits[i].min, limits[i].max, &count))
			return CTL_FAILED;
		atomic_store((_Atomic uint32_t *)((char *)nic.nic + limits[i].offset), count);
		return CTL_OK;
	}
	return ctl_usage("limit wants TARGET pds|mrs|cqs|qps|srqs|qp-wr|sge|reads|cqe|cq-resize N");
}

int ctl_clock(int argc, char **argv)
{
	struct ctl_nic nic;
	double seconds, ppb = 0;

	if (argc != 3 && argc != 4)
		return ctl_usage("clock wants NIC SECONDS [PPB]");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("clock", argv[2], 0, 1e8, &seconds))
		return CTL_FAILED;
	if (argc == 4 && !ctl_number("clock", argv[3], -SN_CLOCK_MAX_PPB, SN_CLOCK_MAX_PPB, &ppb))
		return CTL_FAILED;
	atomic_store(&nic.nic->clock.offset, (uint64_t)(seconds * SN_CLOCK_KHZ * 1e3));
	if (argc == 4)
		atomic_store(&nic.nic->clock.ppb, (int32_t)ppb);
	return CTL_OK;
}

int ctl_mtu(int argc, char **argv)
{
	struct ctl_nic nic;
	double bytes;
	uint32_t mtu;

	if (argc != 3)
		return ctl_usage("mtu wants TARGET BYTES");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("mtu", argv[2], 256, 4096, &bytes))
		return CTL_FAILED;
	for (mtu = SN_MTU_256; sn_mtu_bytes(mtu) < bytes;)
		mtu++;
	if (sn_mtu_bytes(mtu) != bytes)
		return ctl_usage("a port's MTU is 256, 512, 1024, 2048 or 4096, not %s", argv[2]);
	atomic_store(&nic.nic->mtu, mtu);
	return CTL_OK;
}

int ctl_netdev_set(struct ctl_nic *nic, const char *name)
{
	int err = sn_nic_set_netdev(nic->fabric, nic->nic, name);

	if (err == -EOPNOTSUPP)
		return ctl_fail("only a fabric with --link-layer eth has network interfaces");
	if (err)
		return ctl_usage("'%s' cannot be the name of an interface", name);
	return CTL_OK;
}

int ctl_netdev(int argc, char **argv)
{
	struct ctl_nic nic;

	if (argc != 3)
		return ctl_usage("netdev wants TARGET INTERFACE (none: no interface)");
	return ctl_nic(argv[1], &nic) ? ctl_netdev_set(&nic, argv[2]) : CTL_FAILED;
}

int ctl_gids(int argc, char **argv)
{
	bool ipv6 = argc == 4 && !strcmp(argv[3], "ipv6"), v1, v2;
	struct ctl_nic nic;

	if ((argc != 3 && argc != 4) || (argc == 4 && !ipv6 && strcmp(argv[3], "ipv4")))
		return ctl_usage("gids wants NIC v1|v2|both [ipv4|ipv6]");
	v1 = !strcmp(argv[2], "v1") || !strcmp(argv[2], "both");
	v2 = !strcmp(argv[2], "v2") || !strcmp(argv[2], "both");
	if (!v1 && !v2)
		return ctl_usage("a port has GIDs of type v1, v2 or both, not '%s'", argv[2]);
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	if (sn_nic_set_gids(nic.fabric, nic.nic, v1, v2, ipv6))
		return ctl_fail("only a fabric with --link-layer eth has RoCE GIDs");
	return CTL_OK;
}

int ctl_move_gid(int argc, char **argv)
{
	struct ctl_nic nic;
	double index;

	if (argc != 3)
		return ctl_usage("move-gid wants TARGET INDEX");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("move-gid", argv[2], 0, SN_MAX_GIDS - 1, &index))
		return CTL_FAILED;
	if (sn_nic_move_gid(nic.fabric, nic.nic, index))
		return ctl_fail("only a fabric with --link-layer eth has RoCE GIDs to move");
	return CTL_OK;
}

int ctl_vlan(int argc, char **argv)
{
	struct ctl_nic nic;
	double index, vlan;

	if (argc != 4)
		return ctl_usage("vlan wants NIC INDEX VLAN (0: the entry is empty)");
	if (!ctl_nic(argv[1], &nic) || !ctl_number("vlan", argv[2], 0, SN_MAX_GIDS - 1, &index) ||
	    !ctl_number("vlan", argv[3], 0, SN_VLAN_MAX, &vlan))
		return CTL_FAILED;
	if (sn_nic_set_vlan(nic.fabric, nic.nic, index, vlan))
		return ctl_fail("only a fabric with --link-layer eth has VLANs");
	return CTL_OK;
}

int ctl_pkeys(int argc, char **argv)
{
	uint16_t pkeys[SN_MAX_PKEYS];
	struct ctl_nic nic;
	double value;

	if (argc < 3 || argc > 2 + SN_MAX_PKEYS)
		return ctl_usage("pkeys wants NIC P_KEY... (at most %d)", SN_MAX_PKEYS);
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	for (int i = 2; i < argc; i++) {
		if (!ctl_number("pkeys", argv[i], 0, UINT16_MAX, &value))
			return CTL_FAILED;
		pkeys[i - 2] = value;
	}
	if (sn_nic_set_pkeys(nic.fabric, nic.nic, pkeys, argc - 2))
		return ctl_fail("only a fabric with --link-layer ib has partitions");
	return CTL_OK;
}
