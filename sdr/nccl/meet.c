/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "meet.h"
#include "address.h"
#include "log.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { MAGIC = 0x4e524453, VERSION = 1, TRIES = 3 };

enum plug_meet_state { PLUG_MEET_IDLE, PLUG_MEET_CALLING, PLUG_MEET_ASKED, PLUG_MEET_TOLD };

/* One connection that is being made, at either end. */
struct plug_meet {
	enum plug_meet_state meet_state;
	struct plug_link link;
	struct plug_terms terms;
	struct plug_path *path;
	uint64_t nonce;
};

struct plug_handle {
	uint32_t magic, version;
	uint64_t nonce;		     /* nobody else's connection is taken for the sender's */
	struct sockaddr_in6 address; /* or one of IPv4, which is shorter */
	struct plug_meet *meet;	     /* the sender's, between its calls */
};

_Static_assert(sizeof(struct plug_handle) <= NCCL_HANDLE_MAX, "a handle has 128 bytes");

struct plug_listener {
	const struct plug_settings *settings;
	const struct plug_device *device;
	int fd;
	uint64_t nonce;
	struct plug_meet meet;
};

/* ---- terms ----------------------------------------------------------------------------------- */

enum { WORDS = 9 };

static void terms_put(uint8_t *bytes, uint64_t nonce, const struct plug_terms *t)
{
	const uint64_t words[WORDS] = { (uint64_t)MAGIC << 32 | VERSION,
					nonce,
					t->max_message,
					t->max_parity,
					t->lifetime_ns,
					t->slots,
					t->in_flight,
					t->channels,
					t->is_near };

	plug_words_put(bytes, words, WORDS);
}

/* False: another program has come, or another version of this one. */
static bool terms_get(const struct plug_frame *frame, uint64_t nonce, struct plug_terms *t)
{
	uint64_t words[WORDS];

	if (frame->length < sizeof(words))
		return false;
	plug_words_get(frame->bytes, words, WORDS);
	*t = (struct plug_terms){ words[2],	      words[3],		  words[4],
				  (uint32_t)words[5], (uint32_t)words[6], (uint32_t)words[7],
				  words[8] == 1 };
	return words[0] == ((uint64_t)MAGIC << 32 | VERSION) && words[1] == nonce && t->slots &&
	       !(t->slots & (t->slots - 1)) && t->in_flight &&
	       !(t->in_flight & (t->in_flight - 1)) && t->channels &&
	       t->channels <= PLUG_NICS_MAX && t->max_message;
}

static void own_terms(const struct plug_settings *s, uint32_t n_nics, struct plug_terms *t)
{
	*t = (struct plug_terms){ .max_message = s->max_message,
				  .max_parity = s->max_parity,
				  .lifetime_ns = s->lifetime_ns,
				  .slots = s->slots,
				  .in_flight = s->in_flight,
				  .channels = n_nics ? n_nics : 1 };
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What both can; a packet's lifetime is the longer one, and each NIC has a channel. */
static void agree(struct plug_terms *own, const struct plug_terms *other)
{
	own->max_message = least(own->max_message, other->max_message);
	own->max_parity = least(own->max_parity, other->max_parity);
	own->lifetime_ns = most(own->lifetime_ns, other->lifetime_ns);
	own->slots = (uint32_t)least(own->slots, other->slots);
	own->in_flight = (uint32_t)least(own->in_flight, other->in_flight);
	own->in_flight = (uint32_t)least(own->in_flight, own->slots / 2);
	own->channels = (uint32_t)most(own->channels, other->channels);
	own->is_near = other->is_near;
}

/* ---- what both ends do ----------------------------------------------------------------------- */

static const struct plug_path_ops *ops_of(const struct plug_meet *m)
{
	return m->terms.is_near ? &plug_path_rc : &plug_path_sdr;
}

static void meet_drop(struct plug_meet *m)
{
	if (m->path)
		ops_of(m)->close(m->path);
	plug_link_close(&m->link);
	m->path = NULL;
	m->meet_state = PLUG_MEET_IDLE;
}

static int path_make(struct plug_meet *m, const struct plug_settings *s,
		     const struct plug_device *d, bool sends)
{
	char nics[PLUG_NICS_MAX * PLUG_NAME_MAX];
	int err = -ENODEV;

	/* A NIC may fail just now. */
	for (int i = 0; i < TRIES && err; i++) {
		plug_device_well(d, nics, sizeof(nics));
		err = ops_of(m)->open(&m->path, nics, s, &m->terms, sends);
	}
	if (err)
		PLUG_WARN("no connection over %s: %s", nics, strerror(-err));
	return err;
}

/* Says the path's information, behind the terms where they are the receiver's to say. */
static int info_say(struct plug_meet *m, enum plug_frame_type type)
{
	uint8_t bytes[8 * WORDS + PLUG_INFO_MAX];
	size_t length = PLUG_INFO_MAX, at = type == PLUG_TERMS ? 8 * WORDS : 0;
	int err = ops_of(m)->info_get(m->path, bytes + at, &length);

	if (at)
		terms_put(bytes, m->nonce, &m->terms);
	return err ? err : plug_link_put(&m->link, type, bytes, at + length);
}

static int info_take(struct plug_meet *m, const struct plug_frame *frame, size_t at)
{
	int err = ops_of(m)->connect(m->path, frame->bytes + at, frame->length - at);

	if (err)
		PLUG_WARN("the other end's NICs: %s: %s", strerror(-err), ops_of(m)->why(m->path));
	return err;
}

static struct plug_comm *comm_make(struct plug_meet *m, const struct plug_settings *s, bool sends)
{
	m->meet_state = PLUG_MEET_IDLE;
	return plug_comm_new(sends, ops_of(m), m->path, &m->link, s, &m->terms);
}

/* ---- the sender ------------------------------------------------------------------------------ */

static struct plug_meet *call(const struct plug_settings *s, const struct plug_handle *h, int *err)
{
	struct sockaddr_storage address = { 0 };
	struct plug_meet *m = calloc(1, sizeof(*m));

	*err = -ENOMEM;
	if (!m)
		return NULL;
	m->nonce = h->nonce;
	memcpy(&address, &h->address, sizeof(h->address));
	*err = plug_link_connect(&m->link, &address, s->timeout_ns);
	if (!*err) {
		m->meet_state = PLUG_MEET_CALLING;
		return m;
	}
	free(m);
	return NULL;
}

static bool is_far(const struct plug_meet *m, const struct plug_settings *s)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t size = sizeof(peer);

	/* A peer whose address nobody knows is served by what bears any distance. */
	if (getpeername(m->link.fd, (struct sockaddr *)&peer, &size))
		return true;
	return plug_is_far(&s->far, &peer, plug_link_rtt_ns(&m->link));
}

static int say_hello(struct plug_meet *m, const struct plug_settings *s,
		     const struct plug_device *d)
{
	char nics[PLUG_NICS_MAX * PLUG_NAME_MAX];
	uint8_t bytes[8 * WORDS];
	int err = plug_link_is_up(&m->link);

	if (err)
		return err;
	own_terms(s, plug_device_well(d, nics, sizeof(nics)), &m->terms);
	m->terms.is_near = !is_far(m, s);
	terms_put(bytes, m->nonce, &m->terms);
	m->meet_state = PLUG_MEET_ASKED;
	return plug_link_put(&m->link, PLUG_HELLO, bytes, sizeof(bytes));
}

/* Says what is left to say, and takes what the other end has said. */
static int hear(struct plug_meet *m, struct plug_frame *frame)
{
	int err = plug_link_flush(&m->link);

	return err ? err : plug_link_get(&m->link, frame);
}

static int hear_terms(struct plug_meet *m, const struct plug_settings *s,
		      const struct plug_device *d)
{
	static _Thread_local struct plug_frame frame;
	int err = hear(m, &frame);

	if (err)
		return err;
	if (frame.type != PLUG_TERMS || !terms_get(&frame, m->nonce, &m->terms))
		return -EPROTO;
	err = path_make(m, s, d, true);
	if (!err)
		err = info_take(m, &frame, 8 * WORDS);
	m->meet_state = PLUG_MEET_TOLD;
	return err ? err : info_say(m, PLUG_INFO);
}

/* 0: the connection is made. */
static int call_go_on(struct plug_meet *m, const struct plug_settings *s,
		      const struct plug_device *d)
{
	int err = 0;

	if (m->meet_state == PLUG_MEET_CALLING)
		err = say_hello(m, s, d);
	if (!err && m->meet_state == PLUG_MEET_ASKED)
		err = hear_terms(m, s, d);
	return err ? err : plug_link_flush(&m->link);
}

int plug_connect(const struct plug_settings *s, int device, void *handle, struct plug_comm **comm)
{
	const struct plug_device *d = plug_device_at(device);
	struct plug_handle *h = handle;
	struct plug_meet *m = h->meet;
	int err = 0;

	*comm = NULL;
	if (!d || h->magic != MAGIC || h->version != VERSION)
		return -EINVAL;
	if (!m)
		m = h->meet = call(s, h, &err);
	if (!err)
		err = call_go_on(m, s, d);
	if (err == -EAGAIN)
		return 0;
	h->meet = NULL;
	if (err) {
		PLUG_WARN("cannot connect: %s", strerror(-err));
		if (m)
			meet_drop(m);
	} else {
		*comm = comm_make(m, s, true);
		err = *comm ? 0 : -ENOMEM;
	}
	free(m);
	return err;
}

/* ---- the receiver ---------------------------------------------------------------------------- */

int plug_listen(const struct plug_settings *s, int device, void *handle,
		struct plug_listener **listener)
{
	const struct plug_device *d = plug_device_at(device);
	struct plug_listener *l = calloc(1, sizeof(*l));
	struct plug_handle h = { .magic = MAGIC, .version = VERSION };
	struct sockaddr_storage address;
	int err = d && l ? 0 : l ? -EINVAL : -ENOMEM;

	if (!err && getrandom(&h.nonce, sizeof(h.nonce), 0) != sizeof(h.nonce))
		err = -EIO;
	if (!err)
		err = plug_address_own(s->ifname, &address);
	if (!err) {
		l->fd = plug_link_listen(&address);
		err = l->fd < 0 ? l->fd : 0;
	}
	if (err) {
		PLUG_WARN("cannot listen: %s", strerror(-err));
		free(l);
		return err;
	}
	memcpy(&h.address, &address, sizeof(h.address));
	memset(handle, 0, NCCL_HANDLE_MAX);
	memcpy(handle, &h, sizeof(h));
	l->settings = s;
	l->device = d;
	l->nonce = l->meet.nonce = h.nonce;
	l->meet.link.fd = -1;
	*listener = l;
	return 0;
}

static int hear_hello(struct plug_listener *l)
{
	static _Thread_local struct plug_frame frame;
	char nics[PLUG_NICS_MAX * PLUG_NAME_MAX];
	struct plug_meet *m = &l->meet;
	struct plug_terms other;
	int err = plug_link_get(&m->link, &frame);

	if (err)
		return err;
	if (frame.type != PLUG_HELLO || !terms_get(&frame, l->nonce, &other))
		return -EPROTO;
	own_terms(l->settings, plug_device_well(l->device, nics, sizeof(nics)), &m->terms);
	agree(&m->terms, &other);
	err = path_make(m, l->settings, l->device, false);
	m->meet_state = PLUG_MEET_TOLD;
	return err ? err : info_say(m, PLUG_TERMS);
}

static int hear_info(struct plug_meet *m)
{
	static _Thread_local struct plug_frame frame;
	int err = hear(m, &frame);

	if (err)
		return err;
	return frame.type == PLUG_INFO ? info_take(m, &frame, 0) : -EPROTO;
}

/* 0: the connection is made. */
static int accept_go_on(struct plug_listener *l)
{
	struct plug_meet *m = &l->meet;
	int err = 0;

	if (m->meet_state == PLUG_MEET_IDLE) {
		err = plug_link_accept(&m->link, l->fd, l->settings->timeout_ns);
		if (!err)
			m->meet_state = PLUG_MEET_ASKED;
	}
	if (!err && m->meet_state == PLUG_MEET_ASKED)
		err = hear_hello(l);
	return err ? err : hear_info(m);
}

/* Whoever is not the sender, or has gone again, is left alone, and the next one awaited. */
static bool is_strangers(const struct plug_meet *m, int err)
{
	return m->meet_state == PLUG_MEET_ASKED && (err == -EPROTO || err == -ECONNRESET);
}

int plug_accept(struct plug_listener *l, struct plug_comm **comm)
{
	int err = accept_go_on(l);

	*comm = NULL;
	if (err == -EAGAIN)
		return 0;
	if (err) {
		bool stranger = is_strangers(&l->meet, err);

		PLUG_WARN("cannot accept%s: %s", stranger ? " this program" : "", strerror(-err));
		meet_drop(&l->meet);
		return stranger ? 0 : err;
	}
	*comm = comm_make(&l->meet, l->settings, false);
	l->meet.path = NULL;
	l->meet.link.fd = -1;
	return *comm ? 0 : -ENOMEM;
}

void plug_listener_close(struct plug_listener *l)
{
	meet_drop(&l->meet);
	close(l->fd);
	free(l);
}
