/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/command.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>

#include "simnic/cm/address.h"
#include "simnic/cm/attr.h"
#include "simnic/cm/connect.h"
#include "simnic/cm/file.h"
#include "simnic/cm/id.h"

/* A command in progress. A command that is shorter than its structure ends in zeros. */
struct call {
	struct sn_cm_file *file;
	const void *in;
	size_t n_in, n_out; /* bytes written, bytes of room for the answer */
};

static void call_read(const struct call *call, void *to, size_t size)
{
	size_t n = call->n_in < size ? call->n_in : size;

	memset(to, 0, size);
	memcpy(to, call->in, n);
}

static void answer(uint64_t to, const void *from, size_t size)
{
	memcpy((void *)(uintptr_t)to, from, size);
}

/* -ENOENT: no such id; -EINVAL: the id is another file's. */
static int id_find(const struct call *call, uint32_t handle, struct sn_cm_id **out)
{
	*out = sn_cm_id_find(handle);
	if (!*out)
		return -ENOENT;
	return (*out)->file == call->file ? 0 : -EINVAL;
}

/* -ENXIO: the id's NIC is gone. */
static int id_get(const struct call *call, uint32_t handle, struct sn_cm_id **out)
{
	int err = id_find(call, handle, out);

	return !err && (*out)->state == SN_CM_REMOVED ? -ENXIO : err;
}

/* ---- ids ------------------------------------------------------------------------------------ */

static int create_id(const struct call *call)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id cmd;
	struct sn_cm_id *id;
	uint8_t type;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	switch (cmd.ps) {
	case RDMA_PS_TCP: type = IBV_QPT_RC; break;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB: type = IBV_QPT_UD; break;
	case RDMA_PS_IB: type = cmd.qp_type; break;
	default: return -EINVAL;
	}
	err = sn_cm_id_make(call->file, cmd.ps, type, &id);
	if (err)
		return err;
	id->uid = cmd.uid;
	resp.id = id->handle;
	answer(cmd.response, &resp, sizeof(resp));
	return 0;
}

static int destroy_id(const struct call *call)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_find(call, cmd.id, &id);
	if (err)
		return err;
	resp.events_reported = sn_cm_id_destroy(id);
	answer(cmd.response, &resp, sizeof(resp));
	return 0;
}

static int migrate_id(const struct call *call)
{
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id cmd;
	struct sn_cm_file *from;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = sn_cm_file_of((int)cmd.fd, &from);
	if (err)
		return err;
	err = id_get(&(struct call){ .file = from }, cmd.id, &id);
	if (err)
		return err;
	if (from != call->file)
		sn_cm_file_move(id, call->file);
	resp.events_reported = id->events_reported;
	answer(cmd.response, &resp, sizeof(resp));
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static void address_copy(struct sockaddr_storage *to, const void *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, from, sn_cm_sockaddr_size(from));
}

/* False where an address of an older command is neither IPv4 nor IPv6. */
static bool is_ip(const struct sockaddr_in6 *address)
{
	return address->sin6_family == AF_INET || address->sin6_family == AF_INET6;
}

static int bind_ip(const struct call *call)
{
	struct sockaddr_storage address;
	struct rdma_ucm_bind_ip cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	if (!is_ip(&cmd.addr))
		return -EINVAL;
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	address_copy(&address, &cmd.addr);
	return sn_cm_bind_id(id, &address);
}

static int bind_any(const struct call *call)
{
	struct sockaddr_storage address;
	struct rdma_ucm_bind cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	if (cmd.reserved || !cmd.addr_size || cmd.addr_size != sn_cm_sockaddr_size(&cmd.addr))
		return -EINVAL;
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	address_copy(&address, &cmd.addr);
	return sn_cm_bind_id(id, &address);
}

static int resolve_ip(const struct call *call)
{
	struct sockaddr_storage source, to;
	struct rdma_ucm_resolve_ip cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	if ((cmd.src_addr.sin6_family && !is_ip(&cmd.src_addr)) || !is_ip(&cmd.dst_addr))
		return -EINVAL;
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	address_copy(&source, &cmd.src_addr);
	address_copy(&to, &cmd.dst_addr);
	return sn_cm_resolve(id, &source, &to, cmd.timeout_ms);
}

static int resolve_addr(const struct call *call)
{
	struct sockaddr_storage source = { 0 }, to;
	struct rdma_ucm_resolve_addr cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	if (cmd.reserved || (cmd.src_size && cmd.src_size != sn_cm_sockaddr_size(&cmd.src_addr)) ||
	    !cmd.dst_size || cmd.dst_size != sn_cm_sockaddr_size(&cmd.dst_addr))
		return -EINVAL;
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	if (cmd.src_size)
		address_copy(&source, &cmd.src_addr);
	address_copy(&to, &cmd.dst_addr);
	return sn_cm_resolve(id, &source, &to, cmd.timeout_ms);
}

static int resolve_route(const struct call *call)
{
	struct rdma_ucm_resolve_route cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	return err ? err : sn_cm_resolve_route(id, cmd.timeout_ms);
}

/* ---- queries -------------------------------------------------------------------------------- */

static int query_route(const struct call *call)
{
	struct rdma_ucm_query_route_resp resp;
	struct rdma_ucm_query cmd;
	struct sn_cm_id *id;
	uint32_t size;
	int err;

	/* Older programs have no room for the device's number. */
	if (call->n_out < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	size = sn_cm_query_route(id, &resp);
	answer(cmd.response, &resp, size < call->n_out ? size : call->n_out);
	return 0;
}

/* An answer to a query, with room for a path. */
union query_resp {
	struct rdma_ucm_query_addr_resp addr;
	struct rdma_ucm_query_path_resp path;
	uint8_t room[sizeof(struct rdma_ucm_query_path_resp) + sizeof(struct ib_path_rec_data)];
};

static int query(const struct call *call)
{
	size_t room = sizeof(union query_resp), least;
	union query_resp resp;
	struct rdma_ucm_query cmd;
	struct sn_cm_id *id;
	uint32_t size;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	least = cmd.option == RDMA_USER_CM_QUERY_PATH
			? sizeof(resp.path)
			: offsetof(struct rdma_ucm_query_addr_resp, ibdev_index);
	if (call->n_out < least)
		return -ENOSPC;
	room = call->n_out < room ? call->n_out : room;
	switch (cmd.option) {
	case RDMA_USER_CM_QUERY_ADDR: size = sn_cm_query_addr(id, &resp.addr); break;
	case RDMA_USER_CM_QUERY_GID: size = sn_cm_query_gid(id, &resp.addr); break;
	case RDMA_USER_CM_QUERY_PATH:
		size = sn_cm_query_path(id, &resp.path, (uint32_t)room);
		break;
	default: return -ENOSYS;
	}
	answer(cmd.response, &resp, size < call->n_out ? size : call->n_out);
	return 0;
}

static int init_qp_attr(const struct call *call)
{
	struct rdma_ucm_init_qp_attr cmd;
	struct ib_uverbs_qp_attr attr;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	if (cmd.qp_state > IBV_QPS_ERR)
		return -EINVAL;
	err = id_get(call, cmd.id, &id);
	if (!err)
		err = sn_cm_qp_attr(id, cmd.qp_state, &attr);
	if (!err)
		answer(cmd.response, &attr, sizeof(attr));
	return err;
}

/* ---- connections ---------------------------------------------------------------------------- */

static int connect_id(const struct call *call)
{
	struct rdma_ucm_connect cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	return err ? err : sn_cm_connect(id, &cmd);
}

static int listen_id(const struct call *call)
{
	struct rdma_ucm_listen cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	return err ? err : sn_cm_listen(id, cmd.backlog);
}

static int accept_id(const struct call *call)
{
	struct rdma_ucm_accept cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	return err ? err : sn_cm_accept(id, &cmd);
}

static int reject_id(const struct call *call)
{
	struct rdma_ucm_reject cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	return err ? err : sn_cm_reject(id, &cmd);
}

static int disconnect_id(const struct call *call)
{
	struct rdma_ucm_disconnect cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	return err ? err : sn_cm_disconnect(id);
}

static int notify_id(const struct call *call)
{
	struct rdma_ucm_notify cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	return err ? err : sn_cm_notify(id, cmd.event);
}

/* A fabric has no multicast: the answer of a kernel whose port has none. */
static int join_mcast(const struct call *call)
{
	struct rdma_ucm_join_mcast cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	if (!id->nic || id->qp_type != IBV_QPT_UD)
		return -EINVAL;
	return id->state == SN_CM_BOUND || id->state == SN_CM_ADDR_RESOLVED ? -ENOSYS : -EINVAL;
}

static int join_ip_mcast(const struct call *call)
{
	struct rdma_ucm_join_ip_mcast cmd;
	struct rdma_ucm_join_mcast as_new = { 0 };

	call_read(call, &cmd, sizeof(cmd));
	as_new.id = cmd.id;
	return join_mcast(&(struct call){ call->file, &as_new, sizeof(as_new), call->n_out });
}

static int leave_mcast(const struct call *call)
{
	return -ENOENT; /* there is no membership */
}

/* ---- options -------------------------------------------------------------------------------- */

#define OPTION_RNR_TIMER 4 /* RDMA_OPTION_ID_RNR_RETRY_TIMER, of newer kernels */

static int option_flag(const struct rdma_ucm_set_option *cmd, bool *to)
{
	int value;

	if (cmd->optlen != sizeof(value))
		return -EINVAL;
	memcpy(&value, (const void *)(uintptr_t)cmd->optval, sizeof(value));
	*to = value;
	return 0;
}

static int option_byte(const struct rdma_ucm_set_option *cmd, uint8_t *to)
{
	if (cmd->optlen != 1)
		return -EINVAL;
	memcpy(to, (const void *)(uintptr_t)cmd->optval, 1);
	return 0;
}

/* An option of connections only. */
static int option_stream(const struct sn_cm_id *id, const struct rdma_ucm_set_option *cmd,
			 uint8_t *to)
{
	return id->qp_type == IBV_QPT_UD ? -EINVAL : option_byte(cmd, to);
}

static int option_reuse(struct sn_cm_id *id, const struct rdma_ucm_set_option *cmd)
{
	bool reuse;
	int err = option_flag(cmd, &reuse);

	if (!err && !reuse && id->state != SN_CM_IDLE)
		err = -EINVAL;
	if (!err)
		id->options.reuse = reuse;
	return err;
}

static int option_afonly(struct sn_cm_id *id, const struct rdma_ucm_set_option *cmd)
{
	int err = id->state > SN_CM_BOUND ? -EINVAL : option_flag(cmd, &id->options.afonly);

	id->options.afonly_is_set |= !err;
	return err;
}

static int set_option(const struct call *call)
{
	struct rdma_ucm_set_option cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	if (cmd.level != RDMA_OPTION_ID)
		return -ENOSYS;
	switch (cmd.optname) {
	case RDMA_OPTION_ID_TOS: return option_byte(&cmd, &id->options.tos);
	case RDMA_OPTION_ID_REUSEADDR: return option_reuse(id, &cmd);
	case RDMA_OPTION_ID_AFONLY: return option_afonly(id, &cmd);
	case RDMA_OPTION_ID_ACK_TIMEOUT: return option_stream(id, &cmd, &id->options.ack_timeout);
	case OPTION_RNR_TIMER: return option_stream(id, &cmd, &id->options.min_rnr_timer);
	default: return -ENOSYS;
	}
}

/* ---- events --------------------------------------------------------------------------------- */

/* Programs of before ECE have room for an answer without it. */
#define EVENT_LEAST offsetof(struct rdma_ucm_event_resp, reserved)

int sn_cm_get_event(struct sn_cm_file *file, const struct rdma_ucm_cmd_hdr *hdr, const void *in)
{
	struct call call = { file, in, hdr->in, hdr->out };
	struct rdma_ucm_get_event cmd;
	struct sn_cm_event *event;

	if (hdr->out < EVENT_LEAST)
		return -ENOSPC;
	call_read(&call, &cmd, sizeof(cmd));
	event = sn_cm_file_first(file);
	if (!event)
		return -EAGAIN;
	if (event->request)
		event->of->backlog++;
	event->of->events_reported++;
	answer(cmd.response, &event->resp,
	       hdr->out < sizeof(event->resp) ? hdr->out : sizeof(event->resp));
	sn_cm_event_free(event);
	return 0;
}

/* Of Linux 6.18: its number, and what comes before the argument. */
enum { WRITE_CM_EVENT = 24 };
struct write_cm_event {
	uint32_t id, reserved, event, status;
	union {
		struct rdma_ucm_conn_param conn;
		uint64_t arg;
	};
};

/* Appends an event that the program itself tells, as librdmacm does after it has asked DNS. */
static int write_event(const struct call *call)
{
	struct rdma_ucm_event_resp *told;
	struct write_cm_event cmd;
	struct sn_cm_id *id;
	int err;

	call_read(call, &cmd, sizeof(cmd));
	if (cmd.event != SN_CM_EVENT_USER && cmd.event != SN_CM_EVENT_INTERNAL)
		return -EINVAL;
	err = id_get(call, cmd.id, &id);
	if (err)
		return err;
	told = sn_cm_tell(id, cmd.event, (int32_t)cmd.status);
	memcpy(&told->param, &cmd.arg, sizeof(cmd.arg));
	return 0;
}

int sn_cm_command(struct sn_cm_file *file, const struct rdma_ucm_cmd_hdr *hdr, const void *in)
{
	static const struct {
		int (*run)(const struct call *call);
		size_t out; /* bytes of the answer, where they are the same for all programs */
	} commands[] = {
		[RDMA_USER_CM_CMD_CREATE_ID] = { create_id,
						 sizeof(struct rdma_ucm_create_id_resp) },
		[RDMA_USER_CM_CMD_DESTROY_ID] = { destroy_id,
						  sizeof(struct rdma_ucm_destroy_id_resp) },
		[RDMA_USER_CM_CMD_BIND_IP] = { bind_ip, 0 },
		[RDMA_USER_CM_CMD_RESOLVE_IP] = { resolve_ip, 0 },
		[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = { resolve_route, 0 },
		[RDMA_USER_CM_CMD_QUERY_ROUTE] = { query_route, 0 },
		[RDMA_USER_CM_CMD_CONNECT] = { connect_id, 0 },
		[RDMA_USER_CM_CMD_LISTEN] = { listen_id, 0 },
		[RDMA_USER_CM_CMD_ACCEPT] = { accept_id, 0 },
		[RDMA_USER_CM_CMD_REJECT] = { reject_id, 0 },
		[RDMA_USER_CM_CMD_DISCONNECT] = { disconnect_id, 0 },
		[RDMA_USER_CM_CMD_INIT_QP_ATTR] = { init_qp_attr,
						    sizeof(struct ib_uverbs_qp_attr) },
		[RDMA_USER_CM_CMD_SET_OPTION] = { set_option, 0 },
		[RDMA_USER_CM_CMD_NOTIFY] = { notify_id, 0 },
		[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = { join_ip_mcast,
						     sizeof(struct rdma_ucm_create_id_resp) },
		[RDMA_USER_CM_CMD_LEAVE_MCAST] = { leave_mcast,
						   sizeof(struct rdma_ucm_destroy_id_resp) },
		[RDMA_USER_CM_CMD_MIGRATE_ID] = { migrate_id,
						  sizeof(struct rdma_ucm_migrate_resp) },
		[RDMA_USER_CM_CMD_QUERY] = { query, 0 },
		[RDMA_USER_CM_CMD_BIND] = { bind_any, 0 },
		[RDMA_USER_CM_CMD_RESOLVE_ADDR] = { resolve_addr, 0 },
		[RDMA_USER_CM_CMD_JOIN_MCAST] = { join_mcast,
						  sizeof(struct rdma_ucm_create_id_resp) },
		[WRITE_CM_EVENT] = { write_event, 0 },
	};

	if (hdr->cmd >= sizeof(commands) / sizeof(commands[0]))
		return -EINVAL;
	if (!commands[hdr->cmd].run)
		return -ENOSYS; /* GET_OPTION: no kernel has it; records of services: none here */
	if (hdr->out < commands[hdr->cmd].out)
		return -ENOSPC;
	return commands[hdr->cmd].run(&(struct call){ file, in, hdr->in, hdr->out });
}
