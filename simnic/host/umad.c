/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Files of umad with their agents. In <dir>/h<N>/mad a file has its socket, <nic>-file-..., and a
 * second name of it for each agent: <nic>-tid-<high half of its transactions>, where answers are
 * sent, and <nic>-class-<class> for requests of the class that the agent serves.
 */
#include "simnic/host/umad.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fd.h"
#include "simnic/host/ctx.h"
#include "simnic/fabric/mad.h"
#include "simnic/host/real.h"

#define HEADER sizeof(struct ib_user_mad_hdr)

enum { MAX_FILES = 64, MAX_AGENTS = 32, NAME = 32 };

struct agent {
	bool used;
	uint8_t class;
	uint32_t transactions; /* high half of their numbers */
	bool serves;	       /* the agent hears requests of its class */
};

struct file {
	int fd; /* -1: free */
	ino_t inode;
	const struct sn_nic *nic;
	char name[NAME];
	struct agent agent[MAX_AGENTS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all files */
static struct file files[MAX_FILES];
static _Atomic uint32_t n_files; /* a hint without the lock: 0, there is none */
static uint32_t names_given;

/* ---- names ---------------------------------------------------------------------------------- */

static int address_of(const struct sn_nic *nic, const char *name, struct sockaddr_un *address)
{
	int n;

	address->sun_family = AF_UNIX;
	n = snprintf(address->sun_path, sizeof(address->sun_path), "%s/h%u/mad/%u-%s",
		     sn_host_fabric()->dir, nic->host, nic->index, name);
	return n < (int)sizeof(address->sun_path) ? 0 : -ENAMETOOLONG;
}

/* A second name; a process that died may have left its own there. */
static int name_also(const struct file *file, const char *name)
{
	struct sockaddr_un own, also;
	int err = address_of(file->nic, file->name, &own), probe;

	if (!err)
		err = address_of(file->nic, name, &also);
	if (err || !link(own.sun_path, also.sun_path))
		return err;
	if (errno != EEXIST)
		return -errno;
	probe = sn_real()->socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	err = connect(probe, (struct sockaddr *)&also, sizeof(also)) ? -errno : 0;
	sn_fd_close_own(probe);
	if (!err)
		return -EBUSY;
	unlink(also.sun_path);
	return link(own.sun_path, also.sun_path) ? -errno : 0;
}

static void name_drop(const struct file *file, const char *name)
{
	struct sockaddr_un address;

	if (!address_of(file->nic, name, &address))
		unlink(address.sun_path);
}

static void class_name(char name[NAME], uint8_t class)
{
	snprintf(name, NAME, "class-%02x", class);
}

static void transactions_name(char name[NAME], uint32_t transactions)
{
	snprintf(name, NAME, "tid-%08x", transactions);
}

/* Datagrams may be lost: nobody has that name, or nobody reads. */
static bool deliver(const struct sn_nic *nic, const char *name, const void *buf, size_t n)
{
	struct sockaddr_un address;
	int fd = address_of(nic, name, &address)
			 ? -1
			 : sn_real()->socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool done;

	if (fd < 0)
		return false;
	done = sendto(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
		      sizeof(address)) == (ssize_t)n;
	sn_fd_close_own(fd);
	return done;
}

/* ---- files ---------------------------------------------------------------------------------- */

static struct file *find(int fd)
{
	struct stat st;

	for (uint32_t i = 0; i < MAX_FILES; i++)
		if (files[i].nic && files[i].fd == fd)
			return !sn_real()->fstat(fd, &st) && st.st_ino == files[i].inode ? &files[i]
											 : NULL;
	return NULL;
}

static struct file *find_free(void)
{
	for (uint32_t i = 0; i < MAX_FILES; i++)
		if (!files[i].nic)
			return &files[i];
	return NULL;
}

static int socket_make(struct file *file)
{
	struct sockaddr_un address;
	char folder[sizeof(sn_host_fabric()->dir) + 16];
	struct stat st;
	int err = address_of(file->nic, file->name, &address);

	if (err)
		return err;
	file->fd = sn_real()->socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (file->fd < 0)
		return -errno;
	unlink(address.sun_path); /* another process may have had this number */
	snprintf(folder, sizeof(folder), "%s/h%u/mad", sn_host_fabric()->dir, file->nic->host);
	mkdir(folder, 0777);
	if (!bind(file->fd, (struct sockaddr *)&address, sizeof(address)) &&
	    !sn_real()->fstat(file->fd, &st)) {
		file->inode = st.st_ino;
		return 0;
	}
	err = -errno;
	sn_fd_close_own(file->fd);
	return err;
}

static int open_locked(const struct sn_nic *nic, int flags)
{
	struct file *file = find_free();
	int err;

	if (!file)
		return -EMFILE;
	memset(file, 0, sizeof(*file));
	file->nic = nic;
	snprintf(file->name, sizeof(file->name), "file-%d-%u", getpid(), names_given++);
	err = socket_make(file);
	if (!err && flags & O_NONBLOCK)
		sn_real()->fcntl(file->fd, F_SETFL, O_NONBLOCK);
	if (err) {
		file->nic = NULL;
		return err;
	}
	atomic_fetch_add(&n_files, 1);
	return file->fd;
}

int sn_umad_open(unsigned int minor, int flags)
{
	const struct sn_nic *nic = &sn_host_fabric()->nic[sn_host_number()][minor];
	int fd;

	if (atomic_load(&nic->state) == SN_NIC_DISASSOCIATED)
		return -ENXIO;
	pthread_mutex_lock(&lock);
	fd = open_locked(nic, flags);
	pthread_mutex_unlock(&lock);
	return fd;
}

bool sn_umad_is(int fd)
{
	bool is;

	if (!atomic_load_explicit(&n_files, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&lock);
	is = find(fd);
	pthread_mutex_unlock(&lock);
	return is;
}

static void agent_drop(const struct file *file, struct agent *agent)
{
	char name[NAME];

	transactions_name(name, agent->transactions);
	name_drop(file, name);
	class_name(name, agent->class);
	if (agent->serves)
		name_drop(file, name);
	agent->used = false;
}

void sn_umad_closed(int fd)
{
	struct file *file;

	if (!atomic_load_explicit(&n_files, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	file = find(fd);
	if (file) {
		for (uint32_t i = 0; i < MAX_AGENTS; i++)
			if (file->agent[i].used)
				agent_drop(file, &file->agent[i]);
		name_drop(file, file->name);
		file->nic = NULL;
		atomic_fetch_sub(&n_files, 1);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- agents --------------------------------------------------------------------------------- */

static bool on_ethernet(const struct file *file)
{
	return file->nic->link_layer == SN_LINK_ETH;
}

/* Transactions of all files of a fabric's host differ in their high half. */
static int agent_add(struct file *file, uint32_t qpn, uint8_t class, bool serves, uint32_t *id)
{
	char name[NAME];
	struct agent *agent;
	uint32_t i = 0;
	int err;

	if (qpn > 1)
		return -EINVAL;
	if (!qpn && on_ethernet(file))
		return -EPROTONOSUPPORT; /* there is no queue pair 0 */
	while (i < MAX_AGENTS && file->agent[i].used)
		i++;
	if (i == MAX_AGENTS)
		return -ENOMEM;
	agent = &file->agent[i];
	*agent = (struct agent){ true, class, (uint32_t)getpid() << 11 | (file - files) << 5 | i,
				 serves };
	transactions_name(name, agent->transactions);
	err = name_also(file, name);
	class_name(name, class);
	if (!err && serves)
		err = name_also(file, name);
	if (err) {
		agent->serves = false;
		agent_drop(file, agent);
		return err;
	}
	*id = i;
	return 0;
}

static int register_old(struct file *file, struct ib_user_mad_reg_req *request)
{
	bool serves = false;

	for (size_t i = 0; i < IB_USER_MAD_LONGS_PER_METHOD_MASK; i++)
		serves |= request->method_mask[i] != 0;
	return agent_add(file, request->qpn, request->mgmt_class, serves, &request->id);
}

static int register_new(struct file *file, struct ib_user_mad_reg_req2 *request)
{
	if (request->flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP) {
		request->flags = IB_USER_MAD_REG_FLAGS_CAP;
		return -EINVAL;
	}
	return agent_add(file, request->qpn, request->mgmt_class,
			 request->method_mask[0] || request->method_mask[1], &request->id);
}

static int unregister(struct file *file, uint32_t id)
{
	if (id >= MAX_AGENTS || !file->agent[id].used)
		return -EINVAL;
	agent_drop(file, &file->agent[id]);
	return 0;
}

static int ioctl_locked(struct file *file, unsigned long request, void *arg)
{
	switch (request) {
	case IB_USER_MAD_REGISTER_AGENT: return register_old(file, arg);
	case IB_USER_MAD_REGISTER_AGENT2: return register_new(file, arg);
	case IB_USER_MAD_UNREGISTER_AGENT: return unregister(file, *(uint32_t *)arg);
	case IB_USER_MAD_ENABLE_PKEY: return 0;
	default: return -ENOTTY;
	}
}

int sn_umad_ioctl(int fd, unsigned long request, void *arg)
{
	struct file *file;
	int err;

	pthread_mutex_lock(&lock);
	file = find(fd);
	err = file ? ioctl_locked(file, request, arg) : -EBADF;
	pthread_mutex_unlock(&lock);
	return err;
}

/* ---- sending -------------------------------------------------------------------------------- */

struct message {
	struct ib_user_mad_hdr header;
	uint8_t mad[SN_MAD_ANSWER_BYTES];
};

static void come_back(const struct file *file, struct message *message, uint32_t status, size_t n)
{
	message->header.status = status;
	message->header.length = (uint32_t)(HEADER + n);
	deliver(file->nic, file->name, message, HEADER + n);
}

/* Sends it to the process that answers it, or that asked for it. */
static bool pass_on(const struct file *file, const struct message *sent, size_t n)
{
	uint16_t lid = ntohs(sent->header.lid);
	struct message message = *sent;
	struct sn_mad_node to;
	char name[NAME];

	if (!sn_mad_find_lid(sn_host_fabric(), file->nic, lid, &to) || !to.nic ||
	    !sn_mad_reaches(sn_host_fabric(), file->nic, &to))
		return false;
	if (sent->mad[SN_MAD_METHOD] & SN_MAD_RESPONSE)
		transactions_name(name, sn_mad_get32(sent->mad + SN_MAD_TID));
	else
		class_name(name, sent->mad[SN_MAD_CLASS]);
	message.header.status = 0;
	message.header.length = (uint32_t)(HEADER + n);
	message.header.lid = htons(file->nic->lid);
	message.header.qpn = htonl(1);
	return deliver(to.nic, name, &message, HEADER + n);
}

static bool of_fabric(const uint8_t *mad)
{
	uint8_t class = mad[SN_MAD_CLASS];

	return class == SN_MAD_CLASS_LID || class == SN_MAD_CLASS_DIRECTED ||
	       class == SN_MAD_CLASS_SA || class == SN_MAD_CLASS_PERF;
}

/*
 * Requests that nobody answers come back at once, with the error of a timeout: the time itself
 * is not waited for.
 */
static void send_message(const struct file *file, struct message *message, size_t n)
{
	bool asks = !(message->mad[SN_MAD_METHOD] & SN_MAD_RESPONSE);
	struct message request = *message;
	size_t answer;

	if (asks && of_fabric(message->mad)) {
		answer = sn_mad_answer(sn_host_fabric(), file->nic, ntohs(message->header.lid),
				       message->mad);
		if (answer) {
			come_back(file, message, 0, answer);
			return;
		}
	} else if (pass_on(file, message, n)) {
		return;
	}
	if (asks)
		come_back(file, &request, ETIMEDOUT, n);
}

static ssize_t write_locked(const struct file *file, const void *buf, size_t n)
{
	struct message message = { 0 };
	const struct agent *agent;

	if (n < HEADER + SN_MAD_HEADER || n > HEADER + SN_MAD_ANSWER_BYTES)
		return -EINVAL;
	memcpy(&message, buf, n);
	if (message.header.id >= MAX_AGENTS || !file->agent[message.header.id].used ||
	    on_ethernet(file)) /* an address there has a GRH, which no program here gives */
		return -EINVAL;
	agent = &file->agent[message.header.id];
	if (!(message.mad[SN_MAD_METHOD] & SN_MAD_RESPONSE))
		sn_mad_put32(message.mad + SN_MAD_TID, agent->transactions);
	n -= HEADER;
	send_message(file, &message, n < SN_MAD_BYTES ? SN_MAD_BYTES : n);
	return 0;
}

ssize_t sn_umad_write(int fd, const void *buf, size_t n)
{
	struct file *file;
	ssize_t ret;

	pthread_mutex_lock(&lock);
	file = find(fd);
	ret = file ? write_locked(file, buf, n) : -EBADF;
	pthread_mutex_unlock(&lock);
	return ret ? ret : (ssize_t)n;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* The agent whom a datagram is for. */
static uint32_t agent_of(int fd, const uint8_t *mad)
{
	bool asks = !(mad[SN_MAD_METHOD] & SN_MAD_RESPONSE);
	uint32_t transactions = sn_mad_get32(mad + SN_MAD_TID), id = 0;
	struct file *file;

	pthread_mutex_lock(&lock);
	file = find(fd);
	for (uint32_t i = 0; file && i < MAX_AGENTS; i++) {
		const struct agent *agent = &file->agent[i];

		if (agent->used && (agent->transactions == transactions ||
				    (asks && agent->serves && agent->class == mad[SN_MAD_CLASS])))
			id = i;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

/* A datagram that does not fit stays, and the reader is told how long it is, as by a kernel. */
ssize_t sn_umad_read(int fd, void *buf, size_t n)
{
	struct message message;
	ssize_t length = recv(fd, &message, sizeof(message), MSG_PEEK);

	if (length < 0)
		return -errno;
	if ((size_t)length < HEADER + SN_MAD_HEADER || n < HEADER)
		return -EINVAL;
	message.header.id = agent_of(fd, message.mad);
	if ((size_t)length > n) {
		memcpy(buf, &message, n);
		return -ENOSPC;
	}
	/* Another thread may have been faster: then this one takes the next. */
	length = recv(fd, &message, sizeof(message), 0);
	if (length < 0)
		return -errno;
	message.header.id = agent_of(fd, message.mad);
	length = (size_t)length > n ? (ssize_t)n : length;
	memcpy(buf, &message, (size_t)length);
	return length;
}
