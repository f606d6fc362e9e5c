/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/control/auth.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAC_BYTES    16u
#define WINDOW_WORDS (SH_AUTH_WINDOW / 64)

struct wire_auth {
	uint64_t number;
	uint8_t from, to, reserved[2];
	uint8_t mac[MAC_BYTES];
} __attribute__((packed));
static_assert(sizeof(struct wire_auth) == SH_AUTH_BYTES, "wire form");
static_assert(MAC_BYTES <= KV_MAC_LEN, "half of it");

#define SIGNED_BYTES offsetof(struct wire_auth, mac)

/* The numbers that came over a pair of NICs: bit n % SH_AUTH_WINDOW of those near the highest. */
struct auth_window {
	struct sh_auth_pair pair;
	uint64_t highest;
	uint64_t seen[WINDOW_WORDS];
};

struct sh_auth {
	struct list_node link; /* sh_auths.resting */
	uint64_t peer;
	struct kv_mac *out, *in; /* NULL while it rests */
	struct auth_window *windows;
	uint32_t n_windows;
};

const char *sh_refusal_name(enum sh_refusal refusal)
{
	static const char *const names[SH_REFUSALS] = {
		[SH_REFUSED_NOT] = "accepted",	[SH_REFUSED_DAMAGED] = "damaged",
		[SH_REFUSED_ASTRAY] = "astray", [SH_REFUSED_UNSIGNED] = "unsigned",
		[SH_REFUSED_FORGED] = "forged", [SH_REFUSED_REPLAYED] = "replayed",
	};

	return names[refusal];
}

/* ---- keys ----------------------------------------------------------------------------------- */

void sh_auths_init(struct sh_auths *auths, uint64_t own)
{
	*auths = (struct sh_auths){ .own = own };
	list_init(&auths->resting);
}

int sh_auths_begin(struct sh_auths *auths, const uint8_t key[KV_MAC_LEN])
{
	if (!auths->root)
		auths->root = kv_mac_new(key);
	return auths->root ? 0 : -ENOMEM;
}

static struct kv_mac *auth_key(const struct sh_auths *auths, uint64_t from, uint64_t to)
{
	uint64_t text[] = { htole64(from), htole64(to) };
	uint8_t key[KV_MAC_LEN];
	struct kv_mac *mac;

	if (kv_mac_make(auths->root, text, sizeof(text), key))
		return NULL;
	mac = kv_mac_new(key);
	explicit_bzero(key, sizeof(key));
	return mac;
}

static void auth_free_keys(struct sh_auth *auth)
{
	kv_mac_free(auth->in);
	kv_mac_free(auth->out);
	auth->in = auth->out = NULL;
}

static void auth_free(struct sh_auth *auth)
{
	auth_free_keys(auth);
	free(auth->windows);
	free(auth);
}

static struct sh_auth *auth_wake(struct sh_auths *auths, uint64_t peer)
{
	struct sh_auth *auth;

	list_for_each (&auths->resting, auth, struct sh_auth, link) {
		if (auth->peer != peer)
			continue;
		list_del(&auth->link);
		auths->n_resting--;
		return auth;
	}
	auth = calloc(1, sizeof(*auth));
	if (auth)
		auth->peer = peer;
	return auth;
}

static void auths_drop_first(struct sh_auths *auths)
{
	struct sh_auth *first = list_entry(auths->resting.next, struct sh_auth, link);

	list_del(&first->link);
	auths->n_resting--;
	auth_free(first);
}

void sh_auth_rest(struct sh_auths *auths, struct sh_auth *auth)
{
	if (!auth)
		return;
	auth_free_keys(auth);
	list_add_tail(&auths->resting, &auth->link);
	if (++auths->n_resting > SH_AUTH_RESTING_MAX)
		auths_drop_first(auths);
}

struct sh_auth *sh_auth_new(struct sh_auths *auths, uint64_t peer)
{
	struct sh_auth *auth = auth_wake(auths, peer);

	if (!auth)
		return NULL;
	auth->out = auth_key(auths, auths->own, peer);
	auth->in = auth_key(auths, peer, auths->own);
	if (auth->out && auth->in)
		return auth;
	sh_auth_rest(auths, auth);
	return NULL;
}

void sh_auths_uninit(struct sh_auths *auths)
{
	while (!list_empty(&auths->resting))
		auths_drop_first(auths);
	kv_mac_free(auths->root);
	auths->root = NULL;
}

/* ---- MACs ----------------------------------------------------------------------------------- */

size_t sh_auth_sign(struct sh_auth *auth, struct sh_auth_pair pair, uint64_t number, uint8_t *buf,
		    size_t length)
{
	struct wire_auth wire = { .number = htole64(number), .from = pair.from, .to = pair.to };
	uint8_t mac[KV_MAC_LEN];

	memcpy(buf + length, &wire, SIGNED_BYTES);
	if (kv_mac_make(auth->out, buf, length + SIGNED_BYTES, mac))
		return 0;
	memcpy(buf + length + SIGNED_BYTES, mac, MAC_BYTES);
	return length + sizeof(wire);
}

static enum sh_refusal auth_read(struct kv_mac *key, const uint8_t *buf, size_t datagram,
				 size_t length, struct wire_auth *wire)
{
	uint8_t mac[KV_MAC_LEN];

	if (length - datagram < sizeof(*wire))
		return SH_REFUSED_UNSIGNED;
	memcpy(wire, buf + datagram, sizeof(*wire));
	if (kv_mac_make(key, buf, datagram + SIGNED_BYTES, mac) ||
	    !kv_mac_same(mac, wire->mac, MAC_BYTES))
		return SH_REFUSED_FORGED;
	return SH_REFUSED_NOT;
}

enum sh_refusal sh_auth_stranger(const struct sh_auths *auths, uint64_t peer, const uint8_t *buf,
				 size_t datagram, size_t length)
{
	struct kv_mac *key = auth_key(auths, peer, auths->own);
	enum sh_refusal refusal = SH_REFUSED_FORGED;
	struct wire_auth wire;

	if (key)
		refusal = auth_read(key, buf, datagram, length, &wire);
	kv_mac_free(key);
	return refusal;
}

/* ---- windows -------------------------------------------------------------------------------- */

static struct auth_window *auth_window(struct sh_auth *auth, struct sh_auth_pair pair)
{
	struct auth_window *grown;
	uint32_t i;

	for (i = 0; i < auth->n_windows; i++)
		if (auth->windows[i].pair.from == pair.from && auth->windows[i].pair.to == pair.to)
			return &auth->windows[i];
	if (auth->n_windows == SH_AUTH_PATHS_MAX)
		return NULL;
	grown = realloc(auth->windows, (auth->n_windows + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	auth->windows = grown;
	grown[auth->n_windows] = (struct auth_window){ .pair = pair };
	return &grown[auth->n_windows++];
}

static uint64_t *window_word(struct auth_window *window, uint64_t number)
{
	return &window->seen[number / 64 % WINDOW_WORDS];
}

static void window_rise(struct auth_window *window, uint64_t number)
{
	if (number - window->highest >= SH_AUTH_WINDOW)
		memset(window->seen, 0, sizeof(window->seen));
	else
		while (++window->highest < number)
			*window_word(window, window->highest) &= ~(1ull << window->highest % 64);
	window->highest = number;
	*window_word(window, number) &= ~(1ull << number % 64);
}

/* True once for each number. */
static bool window_take(struct auth_window *window, uint64_t number)
{
	uint64_t bit = 1ull << number % 64;

	if (number > window->highest)
		window_rise(window, number);
	else if (window->highest - number >= SH_AUTH_WINDOW || *window_word(window, number) & bit)
		return false;
	*window_word(window, number) |= bit;
	return true;
}

/* Refuses a datagram without memory for its window, as if the datagram had been lost. */
enum sh_refusal sh_auth_check(struct sh_auth *auth, uint8_t to, const uint8_t *buf, size_t datagram,
			      size_t length)
{
	struct auth_window *window;
	struct wire_auth wire;
	enum sh_refusal refusal = auth_read(auth->in, buf, datagram, length, &wire);

	if (refusal)
		return refusal;
	if (wire.to != to)
		return SH_REFUSED_ASTRAY;
	window = auth_window(auth, (struct sh_auth_pair){ wire.from, wire.to });
	if (!window || !window_take(window, le64toh(wire.number)))
		return SH_REFUSED_REPLAYED;
	return SH_REFUSED_NOT;
}
