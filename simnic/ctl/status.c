/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simnicctl status [--json] */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "simnic/ctl/simnicctl.h"

/* The counters in one place, for both forms of output. */
struct counter {
	const char *name;
	size_t offset;
};
#define COUNTER(name)                                                                              \
	{                                                                                          \
#name, offsetof(struct sn_counters, name)                                          \
	}
static const struct counter counters[] = {
	COUNTER(tx_messages),	 COUNTER(rx_messages),
	COUNTER(tx_bytes),	 COUNTER(rx_bytes),
	COUNTER(dropped),	 COUNTER(retries),
	COUNTER(rc_tx_messages), COUNTER(rc_tx_bytes),
	COUNTER(rc_rx_messages), COUNTER(rc_rx_bytes),
	COUNTER(rc_retransmits), COUNTER(ud_tx_packets),
	COUNTER(ud_tx_bytes),	 COUNTER(ud_rx_packets),
	COUNTER(ud_rx_bytes),	 COUNTER(held),
	COUNTER(late),		 COUNTER(commands),
	COUNTER(qp_queries),	 COUNTER(pkey_violations),
	COUNTER(rc_rx_packets),
};
#define N_COUNTERS (sizeof(counters) / sizeof(counters[0]))

static uint64_t counter_read(const struct sn_nic *nic, const struct counter *counter)
{
	return *(const _Atomic uint64_t *)((const char *)&nic->count + counter->offset);
}

/* A condition of a NIC besides its state, for both forms of output. */
struct condition {
	const char *name, *says;
	size_t offset;
};
#define FAULT(name, says)                                                                          \
	{                                                                                          \
#name, says, offsetof(struct sn_nic, fault.name)                                   \
	}
static const struct condition conditions[] = {
	FAULT(lose_tx, "loses tx"),
	FAULT(lose_rx, "loses rx"),
	FAULT(lose_acks, "loses acks"),
	FAULT(lose_loopback, "loses loopback"),
	FAULT(hold_requests, "holds requests"),
	FAULT(hold_acks, "holds acks"),
	FAULT(paused, "paused"),
	FAULT(blind, "does not read its host's memory"),
	FAULT(cut_next, "cuts the next message"),
	{ "quirks", "has quirks", offsetof(struct sn_nic, quirks) },
};
#define N_CONDITIONS (sizeof(conditions) / sizeof(conditions[0]))

static bool condition_read(const struct sn_nic *nic, const struct condition *condition)
{
	return *(const _Atomic uint32_t *)((const char *)nic + condition->offset);
}

static const char *json_bool(bool value)
{
	return value ? "true" : "false";
}

static void classes_json(const struct sn_nic *nic)
{
	const struct sn_class *seen = nic->tenant.sent;
	struct sn_service service;

	fputs(",\"classes\":[", stdout);
	for (uint32_t i = 0; i < SN_MAX_CLASSES && seen[i].key; i++) {
		service = sn_class_service(&seen[i]);
		printf("%s{\"pkey\":%u,\"vlan\":%u,\"sl\":%u,\"traffic_class\":%u,"
		       "\"rc_packets\":%" PRIu64 ",\"ud_packets\":%" PRIu64 "}",
		       i ? "," : "", service.pkey, service.vlan, service.sl, service.traffic_class,
		       seen[i].rc_packets, seen[i].ud_packets);
	}
	putchar(']');
}

static void nic_json(const struct sn_nic *nic)
{
	printf("{\"name\":\"%s\",\"state\":\"%s\",\"port_up\":%s,\"incarnation\":%u,"
	       "\"cmd_cost_us\":%.3f,\"posted_writes_us\":%.3f,\"mr_limit\":%u,\"netdev\":\"%s\","
	       "\"gid_index\":%d,\"atomic_scope\":\"%s\",\"clock\":{\"offset\":%" PRIu64
	       ",\"ppb\":%d}",
	       nic->ibdev, sn_nic_state_name(nic->state), json_bool(nic->port_up), nic->incarnation,
	       nic->cmd_cost_ns / 1e3, nic->posted.ns / 1e3, nic->limit[SN_LIMIT_MR], nic->netdev,
	       sn_nic_gid_index(nic, nic->link_layer == SN_LINK_ETH ? SN_GID_ROCE_V2 : SN_GID_IB),
	       nic->atomic.glob ? "glob" : "hca", nic->clock.offset, nic->clock.ppb);
	for (size_t i = 0; i < N_CONDITIONS; i++)
		printf(",\"%s\":%s", conditions[i].name,
		       json_bool(condition_read(nic, &conditions[i])));
	for (size_t i = 0; i < N_COUNTERS; i++)
		printf(",\"%s\":%" PRIu64, counters[i].name, counter_read(nic, &counters[i]));
	classes_json(nic);
	putchar('}');
}

static void hosts_json(const struct sn_fabric *fabric)
{
	for (uint32_t host = 0; host < fabric->n_hosts; host++) {
		printf("%s{\"name\":\"h%u\",\"nics\":[", host ? "," : "", host);
		for (uint32_t n = 0; n < fabric->n_nics; n++) {
			if (n)
				putchar(',');
			nic_json(&fabric->nic[host][n]);
		}
		fputs("]}", stdout);
	}
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void fault_target(const struct sn_fault *fault, char *buf, size_t len)
{
	if (sn_fault_is_rail(fault->kind))
		snprintf(buf, len, "rail%u", fault->nic);
	else
		snprintf(buf, len, "h%u/mlx5_%u", fault->host, fault->nic);
}

static double fault_in_seconds(const struct sn_fault *fault)
{
	return fault->at_ns ? ((double)fault->at_ns - (double)now_ns()) / 1e9 : 0;
}

static void faults_json(const struct sn_fabric *fabric)
{
	const char *comma = "";
	char target[64];

	for (uint32_t i = 0; i < SN_MAX_FAULTS; i++) {
		const struct sn_fault *fault = &fabric->fault[i];

		if (fault->state != SN_SLOT_ARMED)
			continue;
		fault_target(fault, target, sizeof(target));
		printf("%s{\"kind\":\"%s\",\"ends\":%s,\"target\":\"%s\",\"in_s\":%.3f,"
		       "\"at_message\":%" PRIu64 "}",
		       comma, sn_fault_name(fault->kind), json_bool(fault->ends), target,
		       fault_in_seconds(fault), fault->at_message);
		comma = ",";
	}
}

static void procs_json(const struct sn_fabric *fabric)
{
	const char *comma = "";

	for (uint32_t i = 0; i < fabric->proc_slots; i++) {
		const struct sn_proc *proc = &fabric->proc[i];

		if (proc->pid <= 0)
			continue;
		printf("%s{\"pid\":%d,\"host\":\"h%u\"}", comma, proc->pid, proc->host);
		comma = ",";
	}
}

/* Lists the ports on which programs listen by rdma_cm. */
static void listeners_json(const struct sn_fabric *fabric)
{
	const char *comma = "";
	struct sn_cm_want want;
	bool listens;

	for (uint32_t i = 0; i < SN_CM_BINDS; i++) {
		if (!sn_cm_bind_at(fabric, i, &want, &listens) || !listens)
			continue;
		printf("%s{\"host\":\"h%u\",\"pid\":%d,\"port_space\":%u,\"port\":%u}", comma,
		       want.host, fabric->proc[want.proc].pid, want.ps, want.addr.port);
		comma = ",";
	}
}

static void status_json(const struct sn_fabric *fabric)
{
	printf("{\"fabric\":\"%s\",\"link_layer\":\"%s\",\"seed\":%u,\"hosts\":[", fabric->name,
	       fabric->link_layer == SN_LINK_ETH ? "eth" : "ib", fabric->seed);
	hosts_json(fabric);
	fputs("],\"rails\":[", stdout);
	for (uint32_t n = 0; n < fabric->n_nics; n++)
		printf("%s{\"name\":\"rail%u\",\"up\":%s}", n ? "," : "", n,
		       json_bool(!fabric->rail[n].down));
	printf("],\"held_packets\":%u,\"scheduled\":[", fabric->n_held);
	faults_json(fabric);
	fputs("],\"processes\":[", stdout);
	procs_json(fabric);
	fputs("],\"listeners\":[", stdout);
	listeners_json(fabric);
	puts("]}");
}

static void nic_text(const struct sn_nic *nic)
{
	printf("h%u/%s  %s, port %s", nic->host, nic->ibdev, sn_nic_state_name(nic->state),
	       nic->port_up ? "up" : "down");
	for (size_t i = 0; i < N_CONDITIONS; i++)
		if (condition_read(nic, &conditions[i]))
			printf(", %s", conditions[i].says);
	for (size_t i = 0; i < N_COUNTERS; i++)
		if (counter_read(nic, &counters[i]))
			printf("  %s %" PRIu64, counters[i].name, counter_read(nic, &counters[i]));
	putchar('\n');
}

/* The end of one is scheduled as --for wants it. */
static void fault_text(const struct sn_fault *fault)
{
	const char *what = fault->ends ? "end of " : "";
	char target[64];

	fault_target(fault, target, sizeof(target));
	if (fault->at_ns)
		printf("scheduled  %s%s %s in %.3f s\n", what, sn_fault_name(fault->kind), target,
		       fault_in_seconds(fault));
	else
		printf("scheduled  %s %s at message %" PRIu64 "\n", sn_fault_name(fault->kind),
		       target, fault->at_message);
}

static void status_text(const struct sn_fabric *fabric)
{
	printf("fabric %s, %s\n", fabric->name,
	       fabric->link_layer == SN_LINK_ETH ? "Ethernet" : "InfiniBand");
	for (uint32_t host = 0; host < fabric->n_hosts; host++)
		for (uint32_t n = 0; n < fabric->n_nics; n++)
			nic_text(&fabric->nic[host][n]);
	for (uint32_t n = 0; n < fabric->n_nics; n++)
		printf("rail%u  %s\n", n, fabric->rail[n].down ? "down" : "up");
	for (uint32_t i = 0; i < SN_MAX_FAULTS; i++)
		if (fabric->fault[i].state == SN_SLOT_ARMED)
			fault_text(&fabric->fault[i]);
	for (uint32_t i = 0; i < fabric->proc_slots; i++)
		if (fabric->proc[i].pid > 0)
			printf("process %d on h%u\n", fabric->proc[i].pid, fabric->proc[i].host);
}

int ctl_status(int argc, char **argv)
{
	bool json = argc == 2 && !strcmp(argv[1], "--json");
	struct sn_fabric *fabric;

	if (argc > 1 && !json)
		return ctl_usage("status: unexpected '%s'", argv[1]);
	fabric = ctl_attach();
	if (!fabric)
		return CTL_FAILED;
	sn_proc_reap(fabric);
	sn_fault_poll(fabric, now_ns());
	if (json)
		status_json(fabric);
	else
		status_text(fabric);
	return CTL_OK;
}
