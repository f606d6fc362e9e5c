/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A TCP connection between two ends, in frames. It carries what the ends tell each other before
 * their path is made, and at the end of it; its own end tells that the other process is no more.
 * No function blocks.
 */
#ifndef SDR_NCCL_LINK_H
#define SDR_NCCL_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum plug_frame_type {
	PLUG_HELLO = 1, /* sender: what it can */
	PLUG_TERMS,	/* receiver: what both do, and its path's information */
	PLUG_INFO,	/* sender: its path's information */
	PLUG_BYE	/* either: the number of messages that have ended well in order */
};

enum { PLUG_FRAME_MAX = 4096, PLUG_FRAME_HEAD = 8 };

struct plug_link {
	int fd; /* -1: none */
	uint8_t in[PLUG_FRAME_HEAD + PLUG_FRAME_MAX], out[PLUG_FRAME_HEAD + PLUG_FRAME_MAX];
	size_t n_in, n_out, out_at;
};

struct plug_frame {
	enum plug_frame_type type;
	size_t length;
	uint8_t bytes[PLUG_FRAME_MAX];
};

/* Returns a socket that listens; the port is written to the address. Or -errno. */
int plug_link_listen(struct sockaddr_storage *address);
/* Begins to connect. */
int plug_link_connect(struct plug_link *l, const struct sockaddr_storage *address,
		      uint64_t timeout_ns);
/* -EAGAIN: nobody has come. */
int plug_link_accept(struct plug_link *l, int listener, uint64_t timeout_ns);
/* -EAGAIN: the other end has not answered. */
int plug_link_is_up(struct plug_link *l);
/* -EAGAIN: an earlier frame has not left. */
int plug_link_put(struct plug_link *l, enum plug_frame_type type, const void *bytes, size_t length);
/* Goes on with what has not left. -EAGAIN: something has not. */
int plug_link_flush(struct plug_link *l);
/* -EAGAIN: no frame has come; -ECONNRESET: none will come. */
int plug_link_get(struct plug_link *l, struct plug_frame *frame);
void plug_link_close(struct plug_link *l);

/* The round trip that TCP has seen. */
uint64_t plug_link_rtt_ns(const struct plug_link *l);

/* Numbers of a frame, of 8 bytes each, little endian. */
void plug_words_put(uint8_t *bytes, const uint64_t *words, size_t n);
void plug_words_get(const uint8_t *bytes, uint64_t *words, size_t n);

#endif
