/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simnicctl create, destroy, run, real */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simnic/ctl/simnicctl.h"
#include "simnic/fabric/machine.h"

struct create {
	struct sn_fabric_config config;
	const char *netdev[SN_MAX_HOSTS * SN_MAX_NICS]; /* "h0/mlx5_0=eth1" */
	int n_netdevs;
};

static bool create_option(int opt, struct create *create)
{
	struct sn_fabric_config *config = &create->config;
	double value;

	switch (opt) {
	case 'H':
		if (!ctl_number("--hosts", optarg, 1, SN_MAX_HOSTS, &value))
			return false;
		config->n_hosts = value;
		return true;
	case 'n':
		if (!ctl_number("--nics", optarg, 1, SN_MAX_NICS, &value))
			return false;
		config->n_nics = value;
		return true;
	case 'c':
		if (!ctl_number("--cmd-cost-us", optarg, 0, 1e8, &value))
			return false;
		config->cmd_cost_ns = value * 1e3;
		return true;
	case 'p':
		if (!ctl_number("--card-ports", optarg, 1, SN_MAX_NICS, &value))
			return false;
		config->card_ports = value;
		return true;
	case 'u':
		if (!ctl_number("--numa-nodes", optarg, 1, SN_MAX_NICS, &value))
			return false;
		config->numa_nodes = value;
		return true;
	case 's':
		if (!ctl_number("--seed", optarg, 0, UINT_MAX, &value))
			return false;
		config->seed = value;
		return true;
	case 'l':
		config->link_layer = !strcmp(optarg, "eth")  ? SN_LINK_ETH
				     : !strcmp(optarg, "ib") ? SN_LINK_IB
							     : 0;
		if (!config->link_layer)
			ctl_usage("--link-layer wants eth or ib, not '%s'", optarg);
		return config->link_layer;
	case 'd':
		if (create->n_netdevs == SN_MAX_HOSTS * SN_MAX_NICS || !strchr(optarg, '=')) {
			ctl_usage("--netdev wants NIC=INTERFACE, not '%s'", optarg);
			return false;
		}
		create->netdev[create->n_netdevs++] = optarg;
		return true;
	case 'j': config->joined = true; return true;
	case 'D': config->direct = true; return true;
	case 'g':
		if (!ctl_number("--gpu-switch", optarg, 1, SN_MAX_GPU_CARDS, &value))
			return false;
		config->gpu_cards = value;
		return true;
	default: ctl_usage("bad option"); return false;
	}
}

static int create_netdev(const char *option)
{
	char name[64];
	struct ctl_nic nic;
	int n = strcspn(option, "=");

	snprintf(name, sizeof(name), "%.*s", n, option);
	return ctl_nic(name, &nic) ? ctl_netdev_set(&nic, option + n + 1) : CTL_FAILED;
}

int ctl_create(int argc, char **argv)
{
	static const struct option options[] = {
		{ "hosts", required_argument, NULL, 'H' },
		{ "nics", required_argument, NULL, 'n' },
		{ "link-layer", required_argument, NULL, 'l' },
		{ "cmd-cost-us", required_argument, NULL, 'c' },
		{ "card-ports", required_argument, NULL, 'p' },
		{ "numa-nodes", required_argument, NULL, 'u' },
		{ "seed", required_argument, NULL, 's' },
		{ "netdev", required_argument, NULL, 'd' },
		{ "joined", no_argument, NULL, 'j' },
		{ "direct", no_argument, NULL, 'D' },
		{ "gpu-switch", required_argument, NULL, 'g' },
		{ NULL, 0, NULL, 0 },
	};
	struct create create = {
		.config = { .n_hosts = 2, .n_nics = 2, .link_layer = SN_LINK_ETH, .seed = 1 }
	};
	const char *name = ctl_fabric_name();
	int opt, err;

	if (!name)
		return CTL_FAILED;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!create_option(opt, &create))
			return CTL_USAGE;
	if (optind != argc)
		return ctl_usage("create: unexpected '%s'", argv[optind]);
	if (create.config.direct && (create.config.n_hosts != 2 || create.config.joined))
		return ctl_usage("--direct wants two hosts, and no --joined");
	err = sn_fabric_create(name, &create.config);
	if (err == -EEXIST)
		return ctl_fail("fabric '%s' exists; destroy it first", name);
	if (err)
		return ctl_fail("cannot create fabric '%s': %s", name, strerror(-err));
	for (int i = 0; i < create.n_netdevs && !err; i++)
		err = create_netdev(create.netdev[i]);
	if (err)
		sn_fabric_destroy(name);
	return err;
}

int ctl_destroy(int argc, char **argv)
{
	const char *name = ctl_fabric_name();
	int err;

	if (!name)
		return CTL_FAILED;
	if (argc > 1)
		return ctl_usage("destroy: unexpected '%s'", argv[1]);
	err = sn_fabric_destroy(name);
	if (err == -ENOENT)
		return ctl_fail("no fabric '%s'", name);
	return err ? ctl_fail("cannot remove fabric '%s': %s", name, strerror(-err)) : CTL_OK;
}

/* The library lies beside the program, bin/simnicctl and lib/libsimnic.so, or is installed. */
static bool library_path(char *buf, size_t len)
{
	char exe[PATH_MAX - 64], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return false;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	*slash = '\0';
	snprintf(buf, len, "%s/../lib/libsimnic.so", exe);
	if (!access(buf, R_OK))
		return true;
	snprintf(buf, len, "%s", SN_INSTALLED_LIBRARY);
	if (!access(buf, R_OK))
		return true;
	ctl_fail("the library is missing: %s", buf);
	return false;
}

static bool preload_set(void)
{
	char library[PATH_MAX], value[2 * PATH_MAX];
	const char *old = getenv("LD_PRELOAD");

	if (!library_path(library, sizeof(library)))
		return false;
	/* A sanitizer's run time has to be the first object in the process. */
	snprintf(value, sizeof(value), "%s%s%s%s", SN_SANITIZER_PRELOAD, library,
		 old && *old ? ":" : "", old ? old : "");
	return !setenv("LD_PRELOAD", value, 1);
}

int ctl_run(int argc, char **argv)
{
	struct sn_fabric *fabric;
	const char *host;

	if (argc < 4 || strcmp(argv[1], "--host"))
		return ctl_usage("run wants --host h<N> -- COMMAND");
	host = argv[2];
	argv += 3;
	if (*argv && !strcmp(*argv, "--"))
		argv++;
	if (!*argv)
		return ctl_usage("run: the command is missing");
	fabric = ctl_attach();
	if (!fabric)
		return CTL_FAILED;
	if (sn_fabric_find_host(fabric, host) < 0)
		return ctl_fail("no host '%s'; this fabric has h0..h%u", host, fabric->n_hosts - 1);
	if (!preload_set())
		return CTL_FAILED;
	setenv("SIMNIC_HOST", host, 1);
	/* a NIC here has no network interface, whose routes UCX would ask the kernel for */
	setenv("UCX_IB_ROCE_REACHABILITY_MODE", "all", 0);
	execvp(argv[0], argv);
	return ctl_fail("cannot run %s: %s", argv[0], strerror(errno));
}

/* ---- the machine's own devices -------------------------------------------------------------- */

static int real_failed(const char *device, uint32_t host, int err)
{
	if (err == -ENODEV)
		return ctl_fail("this machine has no RDMA device '%s'; rdma link shows those it "
				"has",
				device);
	if (err == -EEXIST)
		return ctl_fail("h%u has a software NIC '%s'; rename the real device with rdma dev "
				"set",
				host, device);
	if (err == -ENOENT)
		return ctl_fail("programs cannot open '%s'; is the module ib_uverbs loaded?",
				device);
	return ctl_fail("cannot add '%s' to h%u: %s", device, host, strerror(-err));
}

int ctl_real(int argc, char **argv)
{
	struct sn_fabric *fabric;
	int host = -1, err;

	if (argc != 2 && (argc != 4 || strcmp(argv[2], "--host")))
		return ctl_usage("real wants DEVICE, and perhaps --host h<N>");
	fabric = ctl_attach();
	if (!fabric)
		return CTL_FAILED;
	if (argc == 4) {
		host = sn_fabric_find_host(fabric, argv[3]);
		if (host < 0)
			return ctl_fail("no host '%s'; this fabric has h0..h%u", argv[3],
					fabric->n_hosts - 1);
	}
	for (uint32_t h = 0; h < fabric->n_hosts; h++) {
		if (host >= 0 && h != (uint32_t)host)
			continue;
		err = sn_machine_add(fabric, h, "", argv[1]);
		if (err)
			return real_failed(argv[1], h, err);
	}
	return CTL_OK;
}
