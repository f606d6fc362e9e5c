/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The other end: where an agent answers questions. */
#ifndef PROBE_PEER_H
#define PROBE_PEER_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pr_addr;
struct pr_dev;

#define PR_PROTOCOL 1
#define PR_PORT	    "18600"
#define PR_SLOTS    4u /* queue pairs that an agent keeps */
#define PR_ANSWER_S 60 /* a peer that is silent for longer is gone */

struct pr_peer {
	int fd;
	pid_t child; /* 0: another host */
	bool gone;
	size_t used;
	char buf[1 << 16];
};

int pr_peer_connect(struct pr_peer *peer, const char *host, const char *port);
/* Waits for one client. */
int pr_peer_listen(struct pr_peer *peer, const char *port);
/* A child on the same NIC. */
int pr_peer_spawn(struct pr_peer *peer, const struct pr_dev *dev);
void pr_peer_end(struct pr_peer *peer);
int pr_send(struct pr_peer *peer, json_t *message); /* takes the reference */
json_t *pr_receive(struct pr_peer *peer);
/* The operator wants it to end: what waits for him does not go on. */
extern volatile sig_atomic_t pr_interrupted;
bool pr_answer_waits(const struct pr_peer *peer);
/* A question of json_pack(), and its answer; NULL: pr_why(). */
json_t *pr_ask(struct pr_peer *peer, const char *fmt, ...);
int pr_tell(struct pr_peer *peer, const char *fmt, ...);
long long pr_int(const json_t *object, const char *name);
json_t *pr_addr_pack(const struct pr_addr *addr);
int pr_addr_unpack(const json_t *json, struct pr_addr *addr);

/* agent.c. Obeys until the client goes: 0, or -1. */
int pr_agent_serve(struct pr_peer *peer, struct pr_dev *dev);

#endif
