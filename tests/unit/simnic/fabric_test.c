/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fabric without any device: names, trees, faults, inboxes, reaping. */
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/inbox.h"
#include "simnic/fabric/path.h"
#include "tests/lib/fork.h"

static char name[64];

static int setup(void **state)
{
	struct sn_fabric_config config = {
		.n_hosts = 2, .n_nics = 2, .link_layer = SN_LINK_ETH, .seed = 1
	};
	struct sn_fabric *fabric;

	snprintf(name, sizeof(name), "unit-%d", getpid());
	sn_fabric_destroy(name);
	if (sn_fabric_create(name, &config) || sn_fabric_attach(name, &fabric))
		return -1;
	*state = fabric;
	return 0;
}

static int teardown(void **state)
{
	sn_fabric_detach(*state);
	return sn_fabric_destroy(name);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void names_are_checked(void **state)
{
	struct sn_fabric_config none = { .n_nics = 2, .link_layer = SN_LINK_ETH };
	struct sn_fabric *fabric;
	char path[300];

	assert_int_equal(sn_fabric_path("../x", path, sizeof(path)), -EINVAL);
	assert_int_equal(sn_fabric_path("", path, sizeof(path)), -EINVAL);
	assert_int_equal(sn_fabric_attach("no-such-fabric", &fabric), -ENOENT);
	assert_int_equal(sn_fabric_create("x", &none), -EINVAL);
	assert_int_equal(sn_fabric_find_host(*state, "h1"), 1);
	assert_int_equal(sn_fabric_find_host(*state, "h2"), -ENOENT);
	assert_int_equal(sn_fabric_find_host(*state, "h1x"), -ENOENT);
	assert_int_equal(sn_fabric_find_host(*state, "mlx5_0"), -ENOENT);
}

static void another_version_is_refused(void **state)
{
	struct sn_fabric *fabric = *state, *other;
	int err;

	fabric->version = SN_VERSION - 1; /* of the same size, as a member may be for another use */
	err = sn_fabric_attach(name, &other);
	fabric->version = SN_VERSION;
	assert_int_equal(err, -EPROTO);
}

static void addresses_follow_host_and_rail(void **state)
{
	struct sn_fabric *fabric = *state;
	const uint8_t gid[16] = { [10] = 0xff, 0xff, 10, 1, 0, 2 };

	assert_memory_equal(fabric->nic[1][1].gid, gid, 16);
	assert_int_equal(fabric->nic[1][1].gid_type[0], SN_GID_ROCE_V2);
	/* Key and QPN spaces begin alike everywhere, on purpose. */
	assert_int_equal(fabric->nic[0][0].next_key, fabric->nic[1][1].next_key);
	assert_int_equal(fabric->nic[0][0].next_qpn, fabric->nic[1][1].next_qpn);
}

static void expect_line(const struct sn_fabric *fabric, const char *file, const char *line)
{
	char path[600], text[128] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/h0/sys/class/%s", fabric->dir, file);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	text[strcspn(text, "\n")] = '\0';
	assert_string_equal(text, line);
}

static void tree_has_what_is_read(void **state)
{
	expect_line(*state, "infiniband_verbs/abi_version", "6");
	expect_line(*state, "infiniband_verbs/uverbs1/ibdev", "mlx5_1");
	expect_line(*state, "infiniband_verbs/uverbs1/dev", "231:193");
	expect_line(*state, "infiniband_verbs/uverbs0/device/vendor", "0x15b3");
	expect_line(*state, "infiniband/mlx5_0/device/numa_node", "-1");
	expect_line(*state, "infiniband/mlx5_0/node_type", "1: CA");
	expect_line(*state, "infiniband/mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2");
	expect_line(*state, "infiniband/mlx5_0/ports/1/gids/0",
		    "0000:0000:0000:0000:0000:ffff:0a00:0001");
}

/* Open MPI knows by the driver's name that a device is one for UCX. */
static void a_device_has_its_driver(void **state)
{
	const struct sn_fabric *fabric = *state;
	char path[600], found[600] = "", back[4096];

	snprintf(path, sizeof(path), "%s/h1/sys/class/infiniband/mlx5_1/device/driver",
		 fabric->dir);
	assert_true(readlink(path, found, sizeof(found) - 1) > 0);
	assert_string_equal(basename(found), "mlx5_core");
	/* The links lead somewhere: there, and back to the device. */
	strcat(path, "/0000:21:00.0/infiniband/mlx5_1/node_type");
	assert_non_null(realpath(path, back));
	snprintf(path, sizeof(path), "%s/h1/sys/class/infiniband/mlx5_1/device/subsystem/drivers",
		 fabric->dir);
	assert_non_null(realpath(path, back));
	expect_line(*state, "infiniband/mlx5_0/device/uevent", "DRIVER=mlx5_core");
}

/* From h0's NIC on rail 0 to h1's. */
static bool open_to_h1(struct sn_fabric *fabric, enum sn_pkt_op op)
{
	return sn_path_open(fabric, 0, 0, 1, 0, op);
}

static void faults_close_paths(void **state)
{
	static const enum sn_fault_kind kinds[] = {
		SN_FAULT_PORT_DOWN,	   SN_FAULT_CABLE_DOWN, SN_FAULT_SWITCH_DOWN,
		SN_FAULT_LOSE_TX,	   SN_FAULT_NIC_HANG,	SN_FAULT_NIC_INTERNAL_ERROR,
		SN_FAULT_NIC_DISASSOCIATE,
	};
	struct sn_fabric *fabric = *state;

	assert_true(open_to_h1(fabric, SN_PKT_SEND));
	assert_false(sn_path_open(fabric, 0, 0, 1, 1, SN_PKT_SEND)); /* another rail */
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		sn_fault_apply(fabric, kinds[i], 0, 0, 0);
		assert_false(open_to_h1(fabric, SN_PKT_SEND));
		assert_true(sn_path_open(fabric, 0, 1, 1, 1, SN_PKT_SEND));
		sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
		sn_fault_apply(fabric, SN_FAULT_SWITCH_UP, 0, 0, 0);
		assert_true(open_to_h1(fabric, SN_PKT_SEND));
	}
	assert_int_equal(fabric->nic[0][0].count.dropped, 8);
}

static void lost_directions_are_one_way(void **state)
{
	struct sn_fabric *fabric = *state;

	sn_fault_apply(fabric, SN_FAULT_LOSE_RX, 1, 0, 0);
	assert_false(open_to_h1(fabric, SN_PKT_SEND));
	assert_true(sn_path_open(fabric, 1, 0, 0, 0, SN_PKT_SEND));
	sn_fault_apply(fabric, SN_FAULT_HEAL, 1, 0, 0);
	sn_fault_apply(fabric, SN_FAULT_LOSE_ACKS, 1, 0, 0);
	assert_true(open_to_h1(fabric, SN_PKT_SEND));
	assert_false(open_to_h1(fabric, SN_PKT_ACK));
	assert_false(open_to_h1(fabric, SN_PKT_READ_RESP));
}

static void a_port_that_is_off_is_down_at_its_own_end(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_nic *nic = &fabric->nic[0][0];

	sn_nic_switch_off(fabric, nic, true);
	sn_nic_switch_off(fabric, nic, true);
	assert_false(nic->port_up);
	assert_int_equal(nic->event_gen, 1);
	assert_true(fabric->nic[1][0].port_up);
	expect_line(fabric, "infiniband/mlx5_0/ports/1/state", "1: DOWN");
	sn_fault_apply(fabric, SN_FAULT_PORT_UP, 0, 0, 0); /* the cable was well */
	assert_false(nic->port_up);
	sn_nic_switch_off(fabric, nic, false);
	assert_true(nic->port_up);
}

/* A link without a switch is up where both ends are. */
static void a_direct_link_has_two_ends(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_nic *a = &fabric->nic[0][1], *b = &fabric->nic[1][1];

	fabric->direct = 1;
	sn_nic_switch_off(fabric, a, true);
	assert_false(a->port_up || b->port_up);
	assert_int_equal(b->event_gen, 1);
	assert_true(fabric->nic[1][0].port_up);
	sn_nic_switch_off(fabric, b, true);
	sn_nic_switch_off(fabric, a, false);
	assert_false(a->port_up || b->port_up);
	sn_nic_switch_off(fabric, b, false);
	assert_true(a->port_up && b->port_up);
	sn_fault_apply(fabric, SN_FAULT_PORT_DOWN, 1, 1, 0);
	assert_false(a->port_up || b->port_up);
	sn_fault_apply(fabric, SN_FAULT_PORT_UP, 1, 1, 0);
	assert_true(a->port_up && b->port_up);
}

static void direct_links_want_two_hosts(void **state)
{
	struct sn_fabric_config config = {
		.n_hosts = 3, .n_nics = 1, .link_layer = SN_LINK_ETH, .direct = true
	};
	char other[80];

	snprintf(other, sizeof(other), "%s-direct", name);
	assert_int_equal(sn_fabric_create(other, &config), -EINVAL);
}

static void events_and_incarnations_count(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_nic *nic = &fabric->nic[0][0];

	sn_fault_apply(fabric, SN_FAULT_SWITCH_DOWN, 0, 0, 0);
	assert_int_equal(nic->event_gen, 0); /* a switch dies in silence */
	sn_fault_apply(fabric, SN_FAULT_PORT_DOWN, 0, 0, 0);
	sn_fault_apply(fabric, SN_FAULT_PORT_DOWN, 0, 0, 0);
	assert_int_equal(nic->event_gen, 1);
	expect_line(fabric, "infiniband/mlx5_0/ports/1/state", "1: DOWN");
	sn_fault_apply(fabric, SN_FAULT_NIC_HANG, 0, 0, 0);
	sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
	assert_int_equal(nic->incarnation, 0); /* a hang that ends loses nothing */
	expect_line(fabric, "infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
	sn_fault_apply(fabric, SN_FAULT_NIC_INTERNAL_ERROR, 0, 0, 0);
	sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
	assert_int_equal(nic->incarnation, 1);
}

static void faults_fire_by_message_and_by_time(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_fault by_message = { .kind = SN_FAULT_PORT_DOWN, .at_message = 3 };
	struct sn_fault by_time = {
		.kind = SN_FAULT_LOSE_TX, .host = 1, .at_ns = 1000, .for_ns = 1
	};

	assert_int_equal(sn_fault_arm(fabric, &by_message), 0);
	assert_int_equal(sn_fault_arm(fabric, &by_time), 0);
	assert_int_equal(sn_fault_next_ns(fabric), 1000);
	fabric->nic[0][0].count.tx_messages = 2;
	sn_fault_poll(fabric, 999);
	assert_true(fabric->nic[0][0].port_up);
	assert_false(fabric->nic[1][0].fault.lose_tx);
	fabric->nic[0][0].count.tx_messages = 3;
	sn_fault_poll(fabric, 1000);
	assert_false(fabric->nic[0][0].port_up);
	assert_true(fabric->nic[1][0].fault.lose_tx);
	assert_int_equal(fabric->faults_armed, 1); /* the end of the second */
	sn_fault_poll(fabric, now_ns() + 1000000);
	assert_false(fabric->nic[1][0].fault.lose_tx);
	assert_int_equal(fabric->faults_armed, 0);
}

/* Seen late, all at once: the order of their times counts, then that of their arming. */
static void due_faults_keep_their_order(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_fault up = { .kind = SN_FAULT_PORT_UP, .at_ns = 2000 };
	struct sn_fault down = { .kind = SN_FAULT_PORT_DOWN, .at_ns = 1000 };
	struct sn_fault lose = { .kind = SN_FAULT_LOSE_RX, .host = 1, .at_ns = 500 };
	struct sn_fault heal = { .kind = SN_FAULT_HEAL, .host = 1, .at_ns = 500 };

	assert_int_equal(sn_fault_arm(fabric, &up), 0);
	assert_int_equal(sn_fault_arm(fabric, &down), 0);
	assert_int_equal(sn_fault_arm(fabric, &lose), 0);
	assert_int_equal(sn_fault_arm(fabric, &heal), 0);
	sn_fault_poll(fabric, 3000);
	assert_int_equal(fabric->faults_armed, 0);
	assert_true(fabric->nic[0][0].port_up);
	assert_int_equal(fabric->nic[0][0].event_gen, 2);
	assert_false(fabric->nic[1][0].fault.lose_rx);
}

/* Seen late, they began at once: the end of the first is not that of the one that stays. */
static void faults_of_a_kind_end_with_the_last(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_fault flap = { .kind = SN_FAULT_PORT_DOWN, .at_ns = 1000, .for_ns = 1 };
	struct sn_fault stays = { .kind = SN_FAULT_PORT_DOWN, .at_ns = 2000 };

	assert_int_equal(sn_fault_arm(fabric, &flap), 0);
	assert_int_equal(sn_fault_arm(fabric, &stays), 0);
	sn_fault_poll(fabric, 3000);
	sn_fault_poll(fabric, now_ns() + 1000000);
	assert_false(fabric->nic[0][0].port_up);
	assert_int_equal(fabric->faults_armed, 0);
	sn_fault_apply(fabric, SN_FAULT_SWITCH_DOWN, 0, 1, 3600000000000);
	sn_fault_apply(fabric, SN_FAULT_SWITCH_DOWN, 0, 1, 1);
	assert_int_equal(fabric->faults_armed, 1);
	sn_fault_poll(fabric, now_ns() + 1000000);
	assert_true(fabric->rail[1].down);
	sn_fault_apply(fabric, SN_FAULT_SWITCH_DOWN, 0, 1, 7200000000000);
	assert_int_equal(fabric->faults_armed, 1);
	sn_fault_poll(fabric, now_ns() + 5400000000000);
	assert_true(fabric->rail[1].down);
	sn_fault_poll(fabric, now_ns() + 7200000000000);
	assert_false(fabric->rail[1].down);
}

/* The end of one leaves what others did. */
static void faults_end_one_by_one(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_nic *nic = &fabric->nic[0][0];

	sn_fault_apply(fabric, SN_FAULT_LOSE_TX, 0, 0, 1);
	sn_fault_apply(fabric, SN_FAULT_PORT_DOWN, 0, 0, 0);
	sn_fault_apply(fabric, SN_FAULT_SWITCH_DOWN, 0, 0, 1);
	sn_fault_apply(fabric, SN_FAULT_NIC_HANG, 0, 0, 1);
	sn_fault_apply(fabric, SN_FAULT_NIC_INTERNAL_ERROR, 0, 0, 0);
	sn_fault_poll(fabric, now_ns() + 1000000);
	assert_false(nic->fault.lose_tx);
	assert_false(fabric->rail[0].down);
	assert_false(nic->port_up);
	assert_int_equal(nic->state, SN_NIC_INTERNAL_ERROR); /* worse than what ended */
	sn_fault_apply(fabric, SN_FAULT_NIC_HANG, 0, 0, 0);
	assert_int_equal(nic->state, SN_NIC_INTERNAL_ERROR);
}

static void heal_undoes_every_fault(void **state)
{
	struct sn_fabric *fabric = *state;

	for (int kind = SN_FAULT_PORT_DOWN; kind < SN_FAULT_KINDS; kind++) {
		if (sn_fault_is_rail(kind))
			continue;
		sn_fault_apply(fabric, kind, 0, 0, 0);
		sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
		assert_true(open_to_h1(fabric, SN_PKT_SEND));
		assert_true(sn_path_open(fabric, 1, 0, 0, 0, SN_PKT_ACK));
		assert_false(sn_path_paused(fabric, 0, 0, 1, 0));
		assert_false(fabric->nic[0][0].fault.hold_requests ||
			     fabric->nic[0][0].fault.hold_acks);
		assert_false(fabric->nic[0][0].fault.cut_next);
		expect_line(fabric, "infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
	}
}

static void switch_and_nic_are_cancelled_apart(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_fault rail = { .kind = SN_FAULT_SWITCH_DOWN, .at_ns = UINT64_MAX };
	struct sn_fault nic = { .kind = SN_FAULT_PORT_DOWN, .at_ns = UINT64_MAX };

	assert_int_equal(sn_fault_arm(fabric, &rail), 0);
	assert_int_equal(sn_fault_arm(fabric, &nic), 0);
	sn_fault_cancel(fabric, 0, 0);
	assert_int_equal(fabric->faults_armed, 1);
	sn_fault_cancel(fabric, SN_HOST_RAIL, 1);
	assert_int_equal(fabric->faults_armed, 1);
	sn_fault_cancel(fabric, SN_HOST_RAIL, 0);
	assert_int_equal(fabric->faults_armed, 0);
}

/* Who was killed while it applied a fault does not keep the others from theirs. */
static void faults_outlive_their_owner(void **state)
{
	struct sn_fabric *fabric = *state;
	pid_t pid = test_fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	fabric->fault_owner = pid;
	sn_fault_apply(fabric, SN_FAULT_LOSE_TX, 0, 0, 0);
	assert_true(fabric->nic[0][0].fault.lose_tx);
	assert_int_equal(fabric->fault_owner, 0);
}

static bool is_listed(const struct sn_fabric *fabric, const char *file)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/h0/%s", fabric->dir, file);
	return !access(path, F_OK);
}

static void reprobe_begins_another_life(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_nic *nic = &fabric->nic[0][0];
	uint32_t key = nic->next_key, qpn = nic->next_qpn;

	sn_fault_apply(fabric, SN_FAULT_NIC_DISASSOCIATE, 0, 0, 0);
	assert_false(is_listed(fabric, "sys/class/infiniband/mlx5_0"));
	assert_false(is_listed(fabric, "sys/class/infiniband_verbs/uverbs0"));
	assert_false(is_listed(fabric, "dev/infiniband/uverbs0"));
	assert_true(is_listed(fabric, "sys/class/infiniband_verbs/uverbs1"));
	sn_fault_apply(fabric, SN_FAULT_NIC_REPROBE, 0, 0, 0);
	assert_true(is_listed(fabric, "dev/infiniband/uverbs0"));
	expect_line(fabric, "infiniband_verbs/uverbs0/ibdev", "mlx5_0");
	for (uint32_t life = 1; life < 300; life++) {
		assert_int_equal(nic->incarnation, life);
		assert_int_not_equal(nic->next_key >> 16, key >> 16);
		assert_int_not_equal(nic->next_qpn, qpn);
		assert_in_range(nic->next_qpn, SN_QPN_FIRST, SN_QPN_MAX - 1);
		key = nic->next_key;
		qpn = nic->next_qpn;
		sn_fault_apply(fabric, SN_FAULT_NIC_REPROBE, 0, 0, 0);
	}
}

/* Tools take the first device that is listed: that is the same one after any reprobe. */
static void reprobe_keeps_the_order_of_devices(void **state)
{
	struct sn_fabric *fabric = *state;
	const char *class = "sys/class/infiniband_verbs";

	for (uint32_t n = 0; n < 4; n++) {
		char path[600], last[32] = "";
		struct dirent *entry;
		DIR *dir;

		sn_fault_apply(fabric, SN_FAULT_NIC_DISASSOCIATE, 0, n % 2, 0);
		sn_fault_apply(fabric, SN_FAULT_NIC_REPROBE, 0, n % 2, 0);
		snprintf(path, sizeof(path), "%s/h0/%s", fabric->dir, class);
		dir = opendir(path);
		assert_non_null(dir);
		while ((entry = readdir(dir)))
			if (!strncmp(entry->d_name, "uverbs", 6)) {
				assert_true(strcmp(last, entry->d_name) < 0);
				snprintf(last, sizeof(last), "%.31s", entry->d_name);
			}
		closedir(dir);
		assert_string_equal(last, "uverbs1");
	}
}

static void gid_table_changes(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_nic *nic = &fabric->nic[0][0];

	assert_int_equal(sn_nic_move_gid(fabric, nic, SN_MAX_GIDS), -EINVAL);
	assert_int_equal(nic->tenant.gid_gen, 0);
	assert_int_equal(sn_nic_move_gid(fabric, nic, 5), 0);
	assert_int_equal(nic->tenant.gid_gen, 1);
	assert_int_equal(sn_nic_gid_index(nic, SN_GID_ROCE_V2), 5);
	assert_int_equal(sn_nic_gid_index(nic, SN_GID_ROCE_V1), 1);
	expect_line(fabric, "infiniband/mlx5_0/ports/1/gid_attrs/types/5", "RoCE v2");
	expect_line(fabric, "infiniband/mlx5_0/ports/1/gid_attrs/ndevs/5", "simnic0");
	expect_line(fabric, "infiniband/mlx5_0/ports/1/gids/0",
		    "0000:0000:0000:0000:0000:0000:0000:0000");
	assert_false(is_listed(fabric, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0"));
	assert_int_equal(sn_nic_move_gid(fabric, nic, 5), 0);
	assert_int_equal(sn_nic_gid_index(nic, SN_GID_ROCE_V2), 5);
}

static void netdev_changes(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_nic *nic = &fabric->nic[0][1];

	assert_int_equal(sn_nic_set_netdev(fabric, nic, "sixteen-letters!"), -EINVAL);
	assert_int_equal(sn_nic_set_netdev(fabric, nic, ""), -EINVAL);
	assert_int_equal(sn_nic_set_netdev(fabric, nic, ".."), -EINVAL);
	assert_int_equal(sn_nic_set_netdev(fabric, nic, "veth0"), 0);
	expect_line(fabric, "infiniband/mlx5_1/device/net/veth0/dev_port", "0");
	expect_line(fabric, "infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "veth0");
	assert_int_equal(sn_nic_set_netdev(fabric, nic, "none"), 0);
	assert_false(is_listed(fabric, "sys/class/infiniband/mlx5_1/device/net/veth0"));
	assert_false(is_listed(fabric, "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0"));
}

static void hold_one(struct sn_fabric *fabric, uint32_t qpn, uint32_t psn)
{
	struct sn_held *held = sn_held_begin(fabric, 0);

	assert_non_null(held);
	held->pkt = (struct sn_pkt){ .op = SN_PKT_SEND, .dst_host = 1, .dst_qpn = qpn, .psn = psn };
	sn_held_end(fabric, held);
}

static void held_packets_go_in_order_to_their_owner(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_held *held;

	fabric->nic[1][0].qpn_owner[7] = 3 + 1;
	fabric->nic[1][0].qpn_owner[8] = 4 + 1;
	sn_fault_apply(fabric, SN_FAULT_HOLD_REQUESTS, 0, 0, 0);
	for (uint32_t psn = 0; psn < SN_MAX_HELD; psn++)
		hold_one(fabric, 7 + psn % 2, psn);
	assert_null(sn_held_begin(fabric, 0));
	assert_null(sn_held_take(fabric, 3));
	sn_fault_end(fabric, SN_FAULT_HOLD_REQUESTS, 0, 0);
	for (uint32_t psn = 0; psn < SN_MAX_HELD; psn += 2) {
		held = sn_held_take(fabric, 3);
		assert_non_null(held);
		assert_int_equal(held->pkt.psn, psn);
		sn_held_free(held);
	}
	assert_null(sn_held_take(fabric, 3));
	assert_int_equal(fabric->n_held, SN_MAX_HELD / 2);
	/* Its owner is gone: any process drops it on the way. */
	fabric->nic[1][0].qpn_owner[8] = 0;
	held = sn_held_take(fabric, 3);
	assert_non_null(held);
	assert_int_equal(held->pkt.psn, 1);
	sn_held_forget(fabric, 3); /* killed while it had it */
	assert_int_equal(held->state, SN_HELD_FREE);
}

static void fault_table_is_bounded_and_cancelled(void **state)
{
	struct sn_fabric *fabric = *state;
	struct sn_fault fault = { .kind = SN_FAULT_PORT_DOWN, .at_message = 1ULL << 60 };

	for (int i = 0; i < SN_MAX_FAULTS; i++)
		assert_int_equal(sn_fault_arm(fabric, &fault), 0);
	assert_int_equal(sn_fault_arm(fabric, &fault), -ENOSPC);
	sn_fault_cancel(fabric, 1, 1);
	assert_int_equal(fabric->faults_armed, SN_MAX_FAULTS);
	sn_fault_cancel(fabric, UINT32_MAX, 0);
	assert_int_equal(fabric->faults_armed, 0);
	assert_int_equal(sn_fault_arm(fabric, &fault), 0);
}

static void names_of_faults_round_trip(void **state)
{
	for (int kind = SN_FAULT_PORT_DOWN; kind < SN_FAULT_KINDS; kind++)
		assert_int_equal(sn_fault_find(sn_fault_name(kind)), kind);
	assert_int_equal(sn_fault_find("fire"), -EINVAL);
}

static void inbox_keeps_order_and_bounds(void **state)
{
	struct sn_fabric *fabric = *state;
	int slot = sn_proc_attach(fabric, 0);
	struct sn_proc *proc = &fabric->proc[slot];
	struct sn_pkt pkt = { .op = SN_PKT_SEND, .n_inline = 5 }, out;

	assert_true(slot >= 0);
	assert_false(sn_inbox_pop(proc, &out));
	for (uint32_t lap = 0; lap < 3; lap++) {
		for (uint32_t i = 0; i < SN_INBOX_SLOTS; i++) {
			pkt.psn = i;
			memcpy(pkt.data, "hello", 5);
			assert_int_equal(sn_inbox_push(fabric, slot, &pkt), 0);
		}
		assert_int_equal(sn_inbox_push(fabric, slot, &pkt), -ENOBUFS);
		for (uint32_t i = 0; i < SN_INBOX_SLOTS; i++) {
			assert_true(sn_inbox_pop(proc, &out));
			assert_int_equal(out.psn, i);
			assert_memory_equal(out.data, "hello", 5);
		}
		assert_false(sn_inbox_pop(proc, &out));
	}
	atomic_store(&proc->pid, 0);
	assert_int_equal(sn_inbox_push(fabric, slot, &pkt), -ESRCH);
}

enum { PRODUCERS = 3, PER_PRODUCER = 20000 };

static void produce(struct sn_fabric *fabric, uint32_t slot, uint32_t number)
{
	struct sn_pkt pkt = { .op = SN_PKT_SEND, .src_qpn = number };

	for (pkt.psn = 0; pkt.psn < PER_PRODUCER;)
		if (sn_inbox_push(fabric, slot, &pkt) == 0)
			pkt.psn++;
		else
			usleep(100);
	_exit(0);
}

/* Several processes push at once; nothing is lost, doubled or, per producer, out of order. */
static void inbox_takes_many_producers(void **state)
{
	struct sn_fabric *fabric = *state;
	uint32_t next[PRODUCERS] = { 0 }, total = 0;
	int slot = sn_proc_attach(fabric, 0);
	struct sn_pkt out;
	pid_t pid[PRODUCERS];

	for (uint32_t i = 0; i < PRODUCERS; i++) {
		pid[i] = test_fork();
		assert_true(pid[i] >= 0);
		if (!pid[i])
			produce(fabric, slot, i);
	}
	while (total < PRODUCERS * PER_PRODUCER) {
		if (!sn_inbox_pop(&fabric->proc[slot], &out)) {
			uint32_t seen = fabric->proc[slot].wake;

			fabric->proc[slot].sleeping = 1;
			if (sn_inbox_empty(&fabric->proc[slot]))
				sn_proc_sleep(&fabric->proc[slot], seen, 1000000);
			continue;
		}
		assert_true(out.src_qpn < PRODUCERS);
		assert_int_equal(out.psn, next[out.src_qpn]++);
		total++;
	}
	for (int i = 0; i < PRODUCERS; i++)
		waitpid(pid[i], NULL, 0);
}

/* A producer was killed after it took a slot: the packets behind it come through all the same. */
static void inbox_outlives_a_killed_producer(void **state)
{
	struct sn_fabric *fabric = *state;
	int slot = sn_proc_attach(fabric, 0);
	struct sn_proc *proc = &fabric->proc[slot];
	struct sn_pkt pkt = { .op = SN_PKT_SEND, .psn = 7 }, out;
	int tries = 0;

	atomic_fetch_add(&proc->head, 1);
	assert_int_equal(sn_inbox_push(fabric, slot, &pkt), 0);
	while (!sn_inbox_pop(proc, &out) && ++tries < 1000)
		usleep(2000);
	assert_int_equal(out.psn, 7);
}

/* One that only gets no core loses nothing; when it has died, even if nobody has waited for it, it does. */
/* Killed between saying that the slot is free and moving the tail; its slot has a new owner. */
static void inbox_outlives_a_killed_consumer(void **state)
{
	struct sn_fabric *fabric = *state;
	int slot = sn_proc_attach(fabric, 0);
	struct sn_proc *proc = &fabric->proc[slot];
	struct sn_pkt pkt = { .op = SN_PKT_SEND, .psn = 1 }, out;
	uint64_t tail;

	assert_int_equal(sn_inbox_push(fabric, slot, &pkt), 0);
	tail = proc->tail;
	assert_true(sn_inbox_pop(proc, &out));
	proc->tail = tail;
	pkt.psn = 2;
	assert_int_equal(sn_inbox_push(fabric, slot, &pkt), 0);
	assert_true(sn_inbox_pop(proc, &out));
	assert_int_equal(out.psn, 2);
	assert_false(sn_inbox_pop(proc, &out));
}

static void inbox_waits_for_a_slow_producer(void **state)
{
	struct sn_fabric *fabric = *state;
	int slot = sn_proc_attach(fabric, 0);
	struct sn_proc *proc = &fabric->proc[slot];
	struct sn_pkt pkt = { .op = SN_PKT_SEND, .psn = 7 }, out = { 0 };
	uint64_t head = atomic_fetch_add(&proc->head, 1), end = now_ns() + 600000000;
	struct sn_pkt *slow = &proc->inbox[head % SN_INBOX_SLOTS];
	pid_t pid;
	int tries = 0;

	slow->filler = getpid();
	assert_int_equal(sn_inbox_push(fabric, slot, &pkt), 0);
	while (now_ns() < end) {
		assert_false(sn_inbox_pop(proc, &out));
		usleep(2000);
	}
	slow->op = SN_PKT_SEND;
	slow->n_sge = slow->n_inline = 0;
	slow->psn = 6;
	slow->seq = 2 * (uint32_t)(head / SN_INBOX_SLOTS) + 1;
	assert_true(sn_inbox_pop(proc, &out));
	assert_int_equal(out.psn, 6);
	assert_true(sn_inbox_pop(proc, &out));
	assert_int_equal(out.psn, 7);

	pid = test_fork();
	if (!pid)
		_exit(0);
	head = atomic_fetch_add(&proc->head, 1);
	proc->inbox[head % SN_INBOX_SLOTS].filler = pid;
	pkt.psn = 8;
	assert_int_equal(sn_inbox_push(fabric, slot, &pkt), 0);
	while (!sn_inbox_pop(proc, &out) && ++tries < 1000)
		usleep(2000);
	assert_int_equal(out.psn, 8);
	waitpid(pid, NULL, 0);
}

static void dead_processes_are_reaped(void **state)
{
	struct sn_fabric *fabric = *state;
	int ready[2], slot;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = test_fork();
	if (!pid) {
		slot = sn_proc_attach(fabric, 1);
		fabric->nic[1][0].qpn_owner[100] = slot + 1;
		if (write(ready[1], &slot, sizeof(slot)) != sizeof(slot))
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &slot, sizeof(slot)), sizeof(slot));
	sn_proc_reap(fabric);
	assert_int_equal(fabric->proc[slot].pid, pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	sn_proc_reap(fabric);
	assert_int_equal(fabric->proc[slot].pid, 0);
	assert_int_equal(fabric->nic[1][0].qpn_owner[100], 0);
	close(ready[0]);
	close(ready[1]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_are_checked),
		TEST(another_version_is_refused),
		TEST(addresses_follow_host_and_rail),
		TEST(tree_has_what_is_read),
		TEST(a_device_has_its_driver),
		TEST(faults_close_paths),
		TEST(lost_directions_are_one_way),
		TEST(a_port_that_is_off_is_down_at_its_own_end),
		TEST(a_direct_link_has_two_ends),
		TEST(direct_links_want_two_hosts),
		TEST(events_and_incarnations_count),
		TEST(faults_fire_by_message_and_by_time),
		TEST(due_faults_keep_their_order),
		TEST(faults_of_a_kind_end_with_the_last),
		TEST(faults_end_one_by_one),
		TEST(heal_undoes_every_fault),
		TEST(switch_and_nic_are_cancelled_apart),
		TEST(faults_outlive_their_owner),
		TEST(reprobe_begins_another_life),
		TEST(reprobe_keeps_the_order_of_devices),
		TEST(gid_table_changes),
		TEST(netdev_changes),
		TEST(held_packets_go_in_order_to_their_owner),
		TEST(fault_table_is_bounded_and_cancelled),
		TEST(names_of_faults_round_trip),
		TEST(inbox_keeps_order_and_bounds),
		TEST(inbox_takes_many_producers),
		TEST(inbox_outlives_a_killed_producer),
		TEST(inbox_outlives_a_killed_consumer),
		TEST(inbox_waits_for_a_slow_producer),
		TEST(dead_processes_are_reaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
