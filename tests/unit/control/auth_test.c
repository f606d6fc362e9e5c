/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Signed datagrams: what somebody can do who records all of them, sends what he likes to whom he
 * likes, and has no secret; and that loss and reordering do no harm. The MACs are libcrypto's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "kvclient/backend.h"
#include "kvclient/kv.h"
#include "kvclient/mac.h"
#include "shiftlib/control/auth.h"
#include "tests/lib/random.h"

#define ALICE 0x1111222233334444ull
#define BOB   0x5555666677778888ull
#define EVE   0x9999aaaabbbbccccull
#define TEXT  60u /* bytes of a datagram */
#define SENT  (TEXT + SH_AUTH_BYTES)

static const uint8_t secret[KV_MAC_LEN] = "the job's", other_secret[KV_MAC_LEN] = "another job's";
static const struct sh_auth_pair pair = { .from = 3, .to = 5 };

struct end {
	struct sh_auths auths;
	struct sh_auth *auth;
};

static void end_init(struct end *end, uint64_t own, uint64_t peer, const uint8_t *key)
{
	sh_auths_init(&end->auths, own);
	assert_int_equal(sh_auths_begin(&end->auths, key), 0);
	end->auth = sh_auth_new(&end->auths, peer);
	assert_non_null(end->auth);
}

static void end_uninit(struct end *end)
{
	sh_auth_rest(&end->auths, end->auth);
	sh_auths_uninit(&end->auths);
}

/* Alice sends to Bob. */
struct world {
	struct end alice, bob;
	uint8_t sent[SENT];
};

static int world_setup(void **state)
{
	static struct world world;

	end_init(&world.alice, ALICE, BOB, secret);
	end_init(&world.bob, BOB, ALICE, secret);
	*state = &world;
	return 0;
}

static int world_teardown(void **state)
{
	struct world *world = *state;

	end_uninit(&world->alice);
	end_uninit(&world->bob);
	return 0;
}

static void send_over(struct world *world, struct sh_auth_pair over, uint64_t number)
{
	memset(world->sent, 'x', TEXT);
	assert_int_equal(sh_auth_sign(world->alice.auth, over, number, world->sent, TEXT), SENT);
}

static enum sh_refusal hear(struct world *world, uint8_t nic)
{
	return sh_auth_check(world->bob.auth, nic, world->sent, TEXT, SENT);
}

static enum sh_refusal say(struct world *world, uint64_t number)
{
	send_over(world, pair, number);
	return hear(world, pair.to);
}

/* ---- MACs ----------------------------------------------------------------------------------- */

/* RFC 4231, test case 1; a key is filled up with zeros anyway. */
static void mac_is_hmac_sha256(void **state)
{
	static const uint8_t key[KV_MAC_LEN] = { 11, 11, 11, 11, 11, 11, 11, 11, 11, 11,
						 11, 11, 11, 11, 11, 11, 11, 11, 11, 11 };
	static const uint8_t want[KV_MAC_LEN] = {
		0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
		0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
		0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7,
	};
	struct kv_mac *mac = kv_mac_new(key);
	uint8_t got[KV_MAC_LEN];
	int i;

	assert_non_null(mac);
	for (i = 0; i < 3; i++) {
		assert_int_equal(kv_mac_make(mac, "Hi There", 8, got), 0);
		assert_memory_equal(got, want, sizeof(want));
		assert_int_equal(kv_mac_make(mac, "another", 7, got), 0);
		assert_false(kv_mac_same(got, want, sizeof(want)));
	}
	kv_mac_free(mac);
	(void)state;
}

static void each_bit_counts(void **state)
{
	struct world *world = *state;
	size_t i;

	send_over(world, pair, 7);
	for (i = 0; i < SENT * 8; i++) {
		world->sent[i / 8] ^= 1u << i % 8;
		assert_int_equal(hear(world, pair.to), SH_REFUSED_FORGED);
		world->sent[i / 8] ^= 1u << i % 8;
	}
	assert_int_equal(hear(world, pair.to), SH_REFUSED_NOT);
}

static void cut_is_refused(void **state)
{
	struct world *world = *state;
	size_t n;

	send_over(world, pair, 7);
	for (n = TEXT; n < SENT; n++)
		assert_int_equal(sh_auth_check(world->bob.auth, pair.to, world->sent, TEXT, n),
				 SH_REFUSED_UNSIGNED);
	for (n = 0; n < TEXT; n++) /* what the datagram says of its own length */
		assert_int_equal(sh_auth_check(world->bob.auth, pair.to, world->sent, n, SENT),
				 SH_REFUSED_FORGED);
	assert_int_equal(hear(world, pair.to), SH_REFUSED_NOT);
}

/* ---- who, to whom --------------------------------------------------------------------------- */

static void only_from_the_peer_to_me(void **state)
{
	static const struct {
		uint64_t own, peer; /* of who hears what Alice said to Bob */
		bool good_secret;
	} others[] = {
		{ ALICE, BOB, true }, /* sent back to her */
		{ EVE, ALICE, true },
		{ BOB, EVE, true }, /* in another's name */
		{ BOB, ALICE, false },
	};
	struct world *world = *state;
	struct end end;
	size_t i;

	send_over(world, pair, 7);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		end_init(&end, others[i].own, others[i].peer,
			 others[i].good_secret ? secret : other_secret);
		assert_int_equal(sh_auth_check(end.auth, pair.to, world->sent, TEXT, SENT),
				 SH_REFUSED_FORGED);
		end_uninit(&end);
	}
	assert_int_equal(hear(world, pair.to), SH_REFUSED_NOT);
}

/* One process at both ends: what comes back to where it left from is no answer. */
static void not_back_to_oneself(void **state)
{
	struct world *world = *state;
	struct end end;

	end_init(&end, ALICE, ALICE, secret);
	assert_int_equal(sh_auth_sign(end.auth, pair, 7, world->sent, TEXT), SENT);
	assert_int_equal(sh_auth_check(end.auth, pair.from, world->sent, TEXT, SENT),
			 SH_REFUSED_ASTRAY);
	assert_int_equal(sh_auth_check(end.auth, pair.to, world->sent, TEXT, SENT), SH_REFUSED_NOT);
	end_uninit(&end);
}

static void strangers_with_the_secret(void **state)
{
	struct world *world = *state;
	struct end eve;

	end_init(&eve, EVE, ALICE, secret);
	send_over(world, pair, 7);
	assert_int_equal(sh_auth_stranger(&world->bob.auths, ALICE, world->sent, TEXT, SENT),
			 SH_REFUSED_NOT);
	assert_int_equal(sh_auth_stranger(&world->bob.auths, EVE, world->sent, TEXT, SENT),
			 SH_REFUSED_FORGED);
	assert_int_equal(sh_auth_stranger(&eve.auths, ALICE, world->sent, TEXT, SENT),
			 SH_REFUSED_FORGED);
	assert_int_equal(sh_auth_stranger(&world->bob.auths, ALICE, world->sent, TEXT, SENT - 1),
			 SH_REFUSED_UNSIGNED);
	end_uninit(&eve);
}

/* ---- replays -------------------------------------------------------------------------------- */

static void once_and_over_its_own_pair(void **state)
{
	struct world *world = *state;

	send_over(world, pair, 7);
	assert_int_equal(hear(world, pair.to + 1), SH_REFUSED_ASTRAY);
	assert_int_equal(hear(world, pair.to), SH_REFUSED_NOT);
	assert_int_equal(hear(world, pair.to), SH_REFUSED_REPLAYED);
	assert_int_equal(say(world, 6), SH_REFUSED_NOT);
	assert_int_equal(say(world, 6), SH_REFUSED_REPLAYED);
	assert_int_equal(say(world, 7 + SH_AUTH_WINDOW), SH_REFUSED_NOT);
	assert_int_equal(say(world, 8), SH_REFUSED_NOT); /* the last that may be overtaken */
	assert_int_equal(say(world, 5), SH_REFUSED_REPLAYED);
	assert_int_equal(say(world, UINT64_MAX), SH_REFUSED_NOT);
	assert_int_equal(say(world, 8), SH_REFUSED_REPLAYED);
	assert_int_equal(say(world, UINT64_MAX), SH_REFUSED_REPLAYED);
}

/* A path that is slow by any number of datagrams loses nothing by another one. */
static void pairs_do_not_know_each_other(void **state)
{
	static const struct sh_auth_pair slow = { .from = 4, .to = 5 };
	struct world *world = *state;
	uint64_t i;

	for (i = 1; i < 10 * SH_AUTH_WINDOW; i++)
		assert_int_equal(say(world, i + 1000000), SH_REFUSED_NOT);
	for (i = 1; i < 10; i++) {
		send_over(world, slow, i);
		assert_int_equal(hear(world, slow.to), SH_REFUSED_NOT);
		assert_int_equal(hear(world, slow.to), SH_REFUSED_REPLAYED);
	}
}

/* Against a memory of all numbers: any order, with losses and repetitions. */
static void window_against_all_numbers(void **state)
{
	enum { NUMBERS = 20000 };
	static bool seen[NUMBERS + 4 * SH_AUTH_WINDOW];
	struct world *world = *state;
	uint64_t rng = random_seed("window"), highest = 0, n = 1;

	memset(seen, 0, sizeof(seen));
	while (n < NUMBERS) {
		uint64_t number = n + random_next(&rng) % (2 * SH_AUTH_WINDOW);
		bool take =
			number > highest || (highest - number < SH_AUTH_WINDOW && !seen[number]);

		assert_int_equal(say(world, number), take ? SH_REFUSED_NOT : SH_REFUSED_REPLAYED);
		seen[number] = true;
		highest = number > highest ? number : highest;
		n += random_next(&rng) % 4;
	}
}

static void forgotten_peers_leave_their_windows(void **state)
{
	struct world *world = *state;
	uint8_t recorded[SENT];

	assert_int_equal(say(world, 100), SH_REFUSED_NOT);
	memcpy(recorded, world->sent, SENT);
	sh_auth_rest(&world->bob.auths, world->bob.auth);
	assert_int_equal(world->bob.auths.n_resting, 1);
	world->bob.auth = sh_auth_new(&world->bob.auths, ALICE);
	assert_int_equal(world->bob.auths.n_resting, 0);
	assert_int_equal(sh_auth_check(world->bob.auth, pair.to, recorded, TEXT, SENT),
			 SH_REFUSED_REPLAYED);
	assert_int_equal(say(world, 101), SH_REFUSED_NOT);
}

/* As many as a process remembers; those that rested longest go. */
static void memory_is_bounded(void **state)
{
	struct world *world = *state;
	uint64_t i;

	assert_int_equal(say(world, 100), SH_REFUSED_NOT);
	sh_auth_rest(&world->bob.auths, world->bob.auth);
	for (i = 1; i <= SH_AUTH_RESTING_MAX; i++) {
		struct sh_auth *auth;

		auth = sh_auth_new(&world->bob.auths, UINT64_MAX - i);
		assert_non_null(auth);
		sh_auth_rest(&world->bob.auths, auth);
	}
	assert_int_equal(world->bob.auths.n_resting, SH_AUTH_RESTING_MAX);
	world->bob.auth = sh_auth_new(&world->bob.auths, ALICE);
	assert_int_equal(say(world, 100), SH_REFUSED_NOT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mac_is_hmac_sha256),
		TEST(each_bit_counts),
		TEST(cut_is_refused),
		TEST(only_from_the_peer_to_me),
		TEST(not_back_to_oneself),
		TEST(strangers_with_the_secret),
		TEST(once_and_over_its_own_pair),
		TEST(pairs_do_not_know_each_other),
		TEST(window_against_all_numbers),
		TEST(forgotten_peers_leave_their_windows),
		TEST(memory_is_bounded),
	};
	struct kv kv = { 0 };

	if (kv_mac_ready(&kv)) {
		printf("skipped: %s\n", kv.err);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
