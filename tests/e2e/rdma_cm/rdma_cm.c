/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program of librdmacm that is told each of its steps by lines of its standard input, and prints
 * every event. An id has the number with which it was made, or the next one for each request:
 *
 *   id tcp|udp                      makes the next id
 *   bind N ADDRESS PORT             0 as PORT: any
 *   listen N BACKLOG
 *   resolve N ADDRESS PORT MSEC     then: route N MSEC
 *   qp N                            makes its queue pair
 *   connect N TEXT, accept N TEXT, reject N TEXT
 *   disconnect N, destroy N, option N reuse|afonly|tos VALUE
 *   migrate N                       its events come by a channel of its own from now on
 *   join N ADDRESS, fork N          fork: a child uses it
 *   port N                          which one it has
 *   well                            nothing
 *
 * It answers each with "ok" or "error ERRNO", an event with "event N NAME STATUS TEXT".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_IDS	     4096
#define MAX_CHANNELS 16
#define LINE	     512

static struct rdma_event_channel *channels[MAX_CHANNELS];
static struct rdma_cm_id *ids[MAX_IDS];
static int n_channels, n_ids;

struct order {
	char word[16], a[64], text[256];
	int n, b;
};

static int failed(int ret)
{
	return ret ? errno : 0;
}

static struct sockaddr *address(const char *text, int port)
{
	static struct sockaddr_storage out;
	struct sockaddr_in *in = (void *)&out;
	struct sockaddr_in6 *in6 = (void *)&out;

	memset(&out, 0, sizeof(out));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
	}
	return (struct sockaddr *)&out;
}

static struct rdma_event_channel *channel_make(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel) {
		perror("rdma_create_event_channel");
		exit(1);
	}
	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	channels[n_channels++] = channel;
	return channel;
}

static void id_name(struct rdma_cm_id *id)
{
	id->context = (void *)(intptr_t)n_ids;
	ids[n_ids++] = id;
}

static int do_id(const struct order *order)
{
	enum rdma_port_space ps = strcmp(order->a, "udp") ? RDMA_PS_TCP : RDMA_PS_UDP;
	struct rdma_cm_id *id;

	if (rdma_create_id(channels[0], &id, NULL, ps))
		return errno;
	id_name(id);
	return 0;
}

static int do_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = id->qp_type,
	};

	return failed(rdma_create_qp(id, NULL, &attr));
}

static struct rdma_conn_param param_of(const struct order *order)
{
	return (struct rdma_conn_param){ .private_data = order->text,
					 .private_data_len = (uint8_t)strlen(order->text),
					 .responder_resources = 3,
					 .initiator_depth = 5,
					 .retry_count = 6,
					 .rnr_retry_count = 7 };
}

static int do_option(struct rdma_cm_id *id, const struct order *order)
{
	uint8_t tos = (uint8_t)order->b;
	int flag = order->b;

	if (!strcmp(order->a, "tos"))
		return failed(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	return failed(rdma_set_option(id, RDMA_OPTION_ID,
				      strcmp(order->a, "reuse") ? RDMA_OPTION_ID_AFONLY
								: RDMA_OPTION_ID_REUSEADDR,
				      &flag, sizeof(flag)));
}

static int do_destroy(int n)
{
	struct rdma_cm_id *id = ids[n];
	int err;

	if (id->qp)
		rdma_destroy_qp(id);
	err = failed(rdma_destroy_id(id));
	if (!err)
		ids[n] = NULL;
	return err;
}

/* The error that a child gets of its parent's id; ENOTRECOVERABLE if it cannot have its own. */
static int child(struct rdma_cm_id *id)
{
	int err = failed(rdma_listen(id, 1));
	struct rdma_cm_id *own;

	if (rdma_create_id(rdma_create_event_channel(), &own, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(own, address("0.0.0.0", 0)) || rdma_listen(own, 1))
		return ENOTRECOVERABLE;
	return err;
}

static int do_fork(struct rdma_cm_id *id)
{
	int status;

	fflush(stdout);
	if (!fork())
		_exit(child(id));
	wait(&status);
	return WEXITSTATUS(status);
}

static int act(const struct order *order)
{
	struct rdma_conn_param param = param_of(order);
	struct rdma_cm_id *id = order->n < n_ids ? ids[order->n] : NULL;

	if (!strcmp(order->word, "id"))
		return do_id(order);
	if (!strcmp(order->word, "well"))
		return 0;
	if (!id)
		return EBADF;
	if (!strcmp(order->word, "bind"))
		return failed(rdma_bind_addr(id, address(order->a, order->b)));
	if (!strcmp(order->word, "listen"))
		return failed(rdma_listen(id, order->b));
	if (!strcmp(order->word, "resolve"))
		return failed(rdma_resolve_addr(id, NULL, address(order->a, order->b),
						atoi(order->text)));
	if (!strcmp(order->word, "route"))
		return failed(rdma_resolve_route(id, order->b));
	if (!strcmp(order->word, "qp"))
		return do_qp(id);
	if (!strcmp(order->word, "connect"))
		return failed(rdma_connect(id, &param));
	if (!strcmp(order->word, "accept"))
		return failed(rdma_accept(id, &param));
	if (!strcmp(order->word, "reject"))
		return failed(rdma_reject(id, order->text, (uint8_t)strlen(order->text)));
	if (!strcmp(order->word, "disconnect"))
		return failed(rdma_disconnect(id));
	if (!strcmp(order->word, "destroy"))
		return do_destroy(order->n);
	if (!strcmp(order->word, "option"))
		return do_option(id, order);
	if (!strcmp(order->word, "migrate"))
		return failed(rdma_migrate_id(id, channel_make()));
	if (!strcmp(order->word, "join"))
		return failed(rdma_join_multicast(id, address(order->a, 0), NULL));
	if (!strcmp(order->word, "fork"))
		return do_fork(id);
	if (!strcmp(order->word, "port")) {
		printf("port %d\n", ntohs(rdma_get_src_port(id)));
		return 0;
	}
	return ENOSYS;
}

/* "connect 3 hello", "bind 0 10.0.0.1 7000", "resolve 0 10.0.0.1 7000 2000" */
static void read_order(char *line, struct order *order)
{
	char rest[LINE] = "";

	memset(order, 0, sizeof(*order));
	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "id %63s", order->a) == 1) {
		strcpy(order->word, "id");
		return;
	}
	sscanf(line, "%15s %d %511[^\n]", order->word, &order->n, rest);
	snprintf(order->text, sizeof(order->text), "%.255s", rest);
	if (!strcmp(order->word, "listen") || !strcmp(order->word, "route"))
		order->b = atoi(rest);
	else if (sscanf(rest, "%63s %d", order->a, &order->b) == 2)
		sscanf(rest, "%*s %*d %255s", order->text);
}

static void obey(char *line)
{
	struct order order;
	int err;

	read_order(line, &order);
	err = act(&order);
	if (err)
		printf("error %d\n", err);
	else
		printf("ok\n");
}

static void show(const struct rdma_cm_event *event)
{
	bool ud = event->id->qp_type == IBV_QPT_UD;
	const char *text = ud ? event->param.ud.private_data : event->param.conn.private_data;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		id_name(event->id);
	printf("event %d %s %d %.200s\n", (int)(intptr_t)event->id->context,
	       rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"), event->status,
	       text ? text : "");
}

static void hear(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(channel, &event)) {
		show(event);
		rdma_ack_cm_event(event);
	}
	if (errno != EAGAIN)
		printf("error of rdma_get_cm_event: %d\n", errno);
}

int main(void)
{
	char line[LINE];

	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	channel_make();
	for (;;) {
		struct pollfd fds[1 + MAX_CHANNELS] = { { STDIN_FILENO, POLLIN, 0 } };

		for (int i = 0; i < n_channels; i++)
			fds[1 + i] = (struct pollfd){ channels[i]->fd, POLLIN, 0 };
		if (poll(fds, (nfds_t)(1 + n_channels), -1) < 0)
			continue;
		for (int i = 0; i < n_channels; i++)
			if (fds[1 + i].revents)
				hear(channels[i]);
		if (fds[0].revents && !fgets(line, sizeof(line), stdin))
			return 0;
		if (fds[0].revents)
			obey(line);
	}
}
