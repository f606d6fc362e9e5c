/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The program has a netlink socket of the protocol that the kernel leaves to programs. What it
 * sends is taken here, and answers come from a second socket of that protocol: it binds, polls and
 * receives as with the kernel's own.
 */
#include "simnic/host/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fd.h"
#include "simnic/host/ctx.h"
#include "simnic/host/real.h"

#define TYPE(command) RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)

enum { NODE_CA = 1, ANSWER_BYTES = 8192 };

/* The states of a port are those of sysfs (IBA 14.2.5.6). */
enum { DOWN = 1, ACTIVE = 4, DISABLED = 3, LINK_UP = 5 };

static _Atomic int opened = -1; /* the program has one */
static _Atomic ino_t inode;

/* An answer: messages, one behind the other. */
struct answer {
	const struct nlmsghdr *request;
	uint32_t port; /* the program's address */
	size_t n;
	_Alignas(NLMSG_ALIGNTO) uint8_t bytes[ANSWER_BYTES];
};

int sn_netlink_open(int type)
{
	int fd = sn_real()->socket(AF_NETLINK, type, NETLINK_USERSOCK);
	struct stat st;

	if (fd >= 0 && !sn_real()->fstat(fd, &st)) {
		atomic_store(&inode, st.st_ino);
		atomic_store(&opened, fd);
	}
	return fd;
}

bool sn_netlink_is(int fd)
{
	struct stat st;

	return fd >= 0 && fd == atomic_load_explicit(&opened, memory_order_relaxed) &&
	       !sn_real()->fstat(fd, &st) && st.st_ino == atomic_load(&inode);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* NULL: there is no room. */
static struct nlmsghdr *message(struct answer *answer, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *msg = (struct nlmsghdr *)(answer->bytes + answer->n);

	if (answer->n + NLMSG_HDRLEN > ANSWER_BYTES)
		return NULL;
	*msg = (struct nlmsghdr){ .nlmsg_len = NLMSG_HDRLEN,
				  .nlmsg_type = type,
				  .nlmsg_flags = flags,
				  .nlmsg_seq = answer->request->nlmsg_seq,
				  .nlmsg_pid = answer->port };
	answer->n += NLMSG_HDRLEN;
	return msg;
}

static void append(struct answer *answer, struct nlmsghdr *msg, const void *from, size_t n)
{
	size_t room = NLMSG_ALIGN(n);

	if (!msg || answer->n + room > ANSWER_BYTES)
		return;
	memset(answer->bytes + answer->n, 0, room);
	memcpy(answer->bytes + answer->n, from, n);
	answer->n += room;
	msg->nlmsg_len += room;
}

static void attribute(struct answer *answer, struct nlmsghdr *msg, uint16_t type, const void *value,
		      size_t n)
{
	uint8_t bytes[NLA_HDRLEN + 64];
	struct nlattr head = { .nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type };

	if (n > sizeof(bytes) - NLA_HDRLEN)
		return;
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + NLA_HDRLEN, value, n);
	append(answer, msg, bytes, NLA_HDRLEN + n);
}

static void put_u8(struct answer *answer, struct nlmsghdr *msg, uint16_t type, uint8_t value)
{
	attribute(answer, msg, type, &value, sizeof(value));
}

static void put_u32(struct answer *answer, struct nlmsghdr *msg, uint16_t type, uint32_t value)
{
	attribute(answer, msg, type, &value, sizeof(value));
}

static void put_u64(struct answer *answer, struct nlmsghdr *msg, uint16_t type, uint64_t value)
{
	attribute(answer, msg, type, &value, sizeof(value));
}

static void put_text(struct answer *answer, struct nlmsghdr *msg, uint16_t type, const char *text)
{
	attribute(answer, msg, type, text, strlen(text) + 1);
}

/* An error of 0 says that all was done. */
static void put_error(struct answer *answer, int err)
{
	struct nlmsghdr *msg = message(answer, NLMSG_ERROR, 0);
	struct nlmsgerr error = { .error = err, .msg = *answer->request };

	append(answer, msg, &error, sizeof(error));
}

/* The number that a request gives in an attribute; -1: none. */
static int64_t asked(const struct nlmsghdr *request, uint16_t type)
{
	const uint8_t *at = (const uint8_t *)request + NLMSG_HDRLEN;
	const uint8_t *end = (const uint8_t *)request + request->nlmsg_len;
	struct nlattr head;
	uint32_t value;

	for (; end - at >= NLA_HDRLEN; at += NLA_ALIGN(head.nla_len)) {
		memcpy(&head, at, sizeof(head));
		if (head.nla_len < NLA_HDRLEN || head.nla_len > end - at)
			return -1;
		if (head.nla_type != type || head.nla_len < NLA_HDRLEN + sizeof(value))
			continue;
		memcpy(&value, at + NLA_HDRLEN, sizeof(value));
		return value;
	}
	return -1;
}

/* ---- devices and ports ---------------------------------------------------------------------- */

static void put_handle(struct answer *answer, struct nlmsghdr *msg, const struct sn_nic *nic)
{
	put_u32(answer, msg, RDMA_NLDEV_ATTR_DEV_INDEX, nic->index);
	put_text(answer, msg, RDMA_NLDEV_ATTR_DEV_NAME, nic->ibdev);
	put_u32(answer, msg, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
}

static void put_device(struct answer *answer, const struct sn_nic *nic, uint16_t flags)
{
	struct nlmsghdr *msg = message(answer, TYPE(RDMA_NLDEV_CMD_GET), flags);

	put_handle(answer, msg, nic);
	put_text(answer, msg, RDMA_NLDEV_ATTR_FW_VERSION, "20.35.1012");
	put_u64(answer, msg, RDMA_NLDEV_ATTR_NODE_GUID, nic->node_guid);
	put_u64(answer, msg, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, nic->image_guid);
	put_u8(answer, msg, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, NODE_CA);
}

static void put_port(struct answer *answer, const struct sn_nic *nic, uint16_t flags)
{
	struct nlmsghdr *msg = message(answer, TYPE(RDMA_NLDEV_CMD_PORT_GET), flags);
	bool up = atomic_load(&nic->port_up);

	put_handle(answer, msg, nic);
	if (nic->link_layer == SN_LINK_IB) {
		put_u64(answer, msg, RDMA_NLDEV_ATTR_SUBNET_PREFIX, 0xfe80000000000000ULL);
		put_u32(answer, msg, RDMA_NLDEV_ATTR_LID, nic->lid);
		put_u32(answer, msg, RDMA_NLDEV_ATTR_SM_LID, 1);
		put_u8(answer, msg, RDMA_NLDEV_ATTR_LMC, 0);
	}
	put_u8(answer, msg, RDMA_NLDEV_ATTR_PORT_STATE, up ? ACTIVE : DOWN);
	put_u8(answer, msg, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, up ? LINK_UP : DISABLED);
}

static const struct sn_nic *nic_at(int64_t index)
{
	const struct sn_nic *nic = &sn_host_fabric()->nic[sn_host_number()][index];

	return atomic_load(&nic->state) == SN_NIC_DISASSOCIATED ? NULL : nic;
}

static void get(struct answer *answer,
		void (*put)(struct answer *, const struct sn_nic *, uint16_t flags))
{
	const struct nlmsghdr *request = answer->request;
	int64_t index = asked(request, RDMA_NLDEV_ATTR_DEV_INDEX);
	bool all = (request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	int done = 0;

	for (uint32_t i = 0; i < sn_host_fabric()->n_nics; i++)
		if ((index == i || (all && index < 0)) && nic_at(i))
			put(answer, nic_at(i), all ? NLM_F_MULTI : 0);
	if (all)
		append(answer, message(answer, NLMSG_DONE, NLM_F_MULTI), &done, sizeof(done));
	else if (!answer->n)
		put_error(answer, -ENODEV);
	else if (request->nlmsg_flags & NLM_F_ACK)
		put_error(answer, 0);
}

static void fill(struct answer *answer)
{
	switch (answer->request->nlmsg_type) {
	case TYPE(RDMA_NLDEV_CMD_GET): get(answer, put_device); return;
	case TYPE(RDMA_NLDEV_CMD_PORT_GET): get(answer, put_port); return;
	default: put_error(answer, -EOPNOTSUPP);
	}
}

/* ---- sending -------------------------------------------------------------------------------- */

static int answer_send(const struct answer *answer)
{
	struct sockaddr_nl to = { .nl_family = AF_NETLINK, .nl_pid = answer->port };
	int fd = sn_real()->socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK), err = 0;

	if (fd < 0)
		return -errno;
	if (sn_real()->sendto(fd, answer->bytes, answer->n, 0, (struct sockaddr *)&to, sizeof(to)) <
	    0)
		err = -errno;
	sn_fd_close_own(fd);
	return err;
}

ssize_t sn_netlink_send(int fd, const void *buf, size_t n)
{
	_Alignas(NLMSG_ALIGNTO) uint8_t request[1024];
	struct answer answer = { .request = (struct nlmsghdr *)request };
	struct sockaddr_nl own;
	socklen_t size = sizeof(own);
	int err;

	if (n < NLMSG_HDRLEN || n > sizeof(request))
		return -EINVAL;
	memcpy(request, buf, n);
	if (answer.request->nlmsg_len < NLMSG_HDRLEN || answer.request->nlmsg_len > n)
		return -EINVAL;
	if (getsockname(fd, (struct sockaddr *)&own, &size))
		return -errno;
	answer.port = own.nl_pid;
	fill(&answer);
	err = answer_send(&answer);
	return err ? err : (ssize_t)n;
}
