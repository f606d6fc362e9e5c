/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RESP without a connection: what a server may send, in pieces of any size, and what it may not. */
#include "tests/lib/kv_support.h"

#include <errno.h>
#include <string.h>

#include "kvclient/resp.h"

#define MAX_BYTES 64

static const struct kv_resp *const resp = &shift_redis_resp;

/* Feeds @text in pieces of @piece bytes until there is a reply, or a failure. */
static int read_pieces(const char *text, size_t piece, size_t max_elements, struct kv_reply **out)
{
	struct kv_reader *reader = resp->open();
	size_t n, left = strlen(text);
	int rc = 0;

	assert_non_null(reader);
	*out = NULL;
	for (; left && !rc; left -= n, text += n) {
		n = left < piece ? left : piece;
		assert_int_equal(resp->feed(reader, text, n), 0);
		rc = resp->next(reader, MAX_BYTES, max_elements, out);
	}
	resp->close(reader);
	return rc;
}

static void expect_rc(const char *text, size_t max_elements, int rc)
{
	struct kv_reply *reply;

	for (size_t piece = 1; piece <= strlen(text); piece++) {
		assert_int_equal(read_pieces(text, piece, max_elements, &reply), rc);
		resp->free_reply(reply);
	}
}

static void expect_text(const char *text, enum kv_reply_type type, const char *want)
{
	struct kv_reply *reply;

	for (size_t piece = 1; piece <= strlen(text); piece++) {
		assert_int_equal(read_pieces(text, piece, 0, &reply), 1);
		assert_int_equal(reply->type, type);
		assert_int_equal(reply->len, strlen(want));
		assert_string_equal(reply->text, want);
		resp->free_reply(reply);
	}
}

static void single_replies(void **state)
{
	expect_text("+OK\r\n", KV_REPLY_STATUS, "OK");
	expect_text("-ERR no\r\n", KV_REPLY_ERROR, "ERR no");
	expect_text("$5\r\na\r\nbc\r\n", KV_REPLY_STRING, "a\r\nbc");
	expect_text("$0\r\n\r\n", KV_REPLY_STRING, "");
	expect_text(":7\r\n", KV_REPLY_INTEGER, "");
	expect_text("$-1\r\n", KV_REPLY_NIL, "");
}

static void an_array_of_two(void **state)
{
	static const char text[] = "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n";
	struct kv_reply *reply;

	for (size_t piece = 1; piece < sizeof(text); piece++) {
		assert_int_equal(read_pieces(text, piece, 2, &reply), 1);
		assert_int_equal(reply->type, KV_REPLY_ARRAY);
		assert_int_equal(reply->len, 2);
		assert_string_equal(reply->element[0]->text, "127.0.0.1");
		assert_string_equal(reply->element[1]->text, "6379");
		resp->free_reply(reply);
	}
}

static void arrays(void **state)
{
	expect_rc("*-1\r\n", 2, 1);
	expect_rc("*0\r\n", 2, 1);
	expect_rc("*1\r\n:1\r\n", 2, 1);
	expect_rc("*1\r\n:1\r\n", 0, -EPROTO);
	expect_rc("*3\r\n:1\r\n:2\r\n:3\r\n", 2, -EPROTO);
	expect_rc("*3\r\n:1\r\n:2\r\n:3\r\n", 1000, -EPROTO);
	expect_rc("*2\r\n*1\r\n:1\r\n:2\r\n", 2, -EPROTO);
	expect_rc("*2000000000\r\n", 2, -EPROTO);
}

/* A partial reply is freed with its reader: a leak would be seen under ASan. */
static void cut_off(void **state)
{
	expect_rc("*2\r\n$3\r\nabc\r\n$3\r\n", 2, 0);
	expect_rc("$100\r\nabc", 0, 0);
	expect_rc("+O", 0, 0);
}

static void too_long(void **state)
{
	char text[4 * MAX_BYTES];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "$100000\r\n", 9);
	expect_rc(text, 0, -EPROTO);
	memcpy(text, "+long and", 9);
	expect_rc(text, 0, -EPROTO);
}

static void several_in_a_row(void **state)
{
	struct kv_reader *reader = resp->open();
	struct kv_reply *reply;

	assert_int_equal(resp->feed(reader, "+a\r\n*1\r\n+b\r\n", 12), 0);
	assert_int_equal(resp->next(reader, MAX_BYTES, 0, &reply), 1);
	assert_string_equal(reply->text, "a");
	resp->free_reply(reply);
	assert_int_equal(resp->next(reader, MAX_BYTES, 0, &reply), -EPROTO);
	resp->close(reader);
}

static void commands(void **state)
{
	const char *argv[] = { "SET", "k", "a\0b" };
	const size_t len[] = { 3, 1, 3 };
	static const char want[] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\0b\r\n";
	size_t n;
	char *command = resp->command(3, argv, len, &n);

	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(command, want, n);
	resp->free_command(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_replies), cmocka_unit_test(an_array_of_two),
		cmocka_unit_test(arrays),	  cmocka_unit_test(cut_off),
		cmocka_unit_test(too_long),	  cmocka_unit_test(several_in_a_row),
		cmocka_unit_test(commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
