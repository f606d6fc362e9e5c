/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libshift-redis.so: RESP by hiredis, whose static library is linked in here and nowhere else.
 *
 * Only the formatter of commands and the reader of replies are used. Both stay with these
 * functions from hiredis 0.14 to 1.3; replies are made by functions of ours, so that hiredis
 * makes no room for as many elements as a server claims to send.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "kvclient/resp.h"

/* hiredis counts elements in another type since 1.0. */
#if HIREDIS_MAJOR >= 1
typedef size_t count_t;
#else
typedef int count_t;
#endif

struct kv_reader {
	redisReader *hi;
	bool begun;   /* part of the next reply was consumed */
	bool refused; /* the reply has what kv_resp.next() does not allow */
	size_t max_elements;
};

static void reply_free(struct kv_reply *reply)
{
	if (!reply)
		return;
	for (size_t i = 0; i < KV_REPLY_ELEMENTS; i++)
		reply_free(reply->element[i]);
	free(reply);
}

static void object_free(void *reply)
{
	reply_free(reply);
}

/* Makes a reply, and gives it to the array around it, if there is one. */
static struct kv_reply *reply_new(const redisReadTask *task, enum kv_reply_type type, size_t bytes)
{
	struct kv_reply *reply = calloc(1, sizeof(*reply) + bytes + 1), *array;

	if (!reply)
		return NULL;
	reply->type = type;
	if (task->parent) {
		array = task->parent->obj;
		array->element[task->idx] = reply;
	}
	return reply;
}

static void *string_new(const redisReadTask *task, char *text, size_t len)
{
	enum kv_reply_type type = KV_REPLY_STRING;
	struct kv_reply *reply;

	if (task->type == REDIS_REPLY_STATUS)
		type = KV_REPLY_STATUS;
	else if (task->type == REDIS_REPLY_ERROR)
		type = KV_REPLY_ERROR;
	reply = reply_new(task, type, len);
	if (!reply)
		return NULL;
	memcpy(reply->text, text, len);
	reply->len = len;
	return reply;
}

/* Returns NULL, which ends the reader, for an array inside of another one, and for a large one. */
static void *array_new(const redisReadTask *task, count_t n)
{
	struct kv_reader *reader = task->privdata;
	struct kv_reply *reply;

	reader->refused = task->parent || (size_t)n > reader->max_elements;
	reply = reader->refused ? NULL : reply_new(task, KV_REPLY_ARRAY, 0);
	if (reply)
		reply->len = (size_t)n;
	return reply;
}

static void *integer_new(const redisReadTask *task, long long value)
{
	return reply_new(task, KV_REPLY_INTEGER, 0);
}

static void *nil_new(const redisReadTask *task)
{
	return reply_new(task, KV_REPLY_NIL, 0);
}

static redisReplyObjectFunctions makers = {
	.createString = string_new,
	.createArray = array_new,
	.createInteger = integer_new,
	.createNil = nil_new,
	.freeObject = object_free,
};

static struct kv_reader *reader_open(void)
{
	struct kv_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->hi = redisReaderCreateWithFunctions(&makers);
	if (!reader->hi) {
		free(reader);
		return NULL;
	}
	reader->hi->privdata = reader;
	return reader;
}

static void reader_close(struct kv_reader *reader)
{
	redisReaderFree(reader->hi);
	free(reader);
}

static int reader_feed(struct kv_reader *reader, const char *bytes, size_t n)
{
	return redisReaderFeed(reader->hi, bytes, n) == REDIS_OK ? 0 : -ENOMEM;
}

/* Begins a reply if its first byte is that of a type that our commands get. */
static int reader_begin(struct kv_reader *reader, size_t max_elements)
{
	const redisReader *hi = reader->hi;
	const char *types = max_elements ? "+-:$*" : "+-:$";

	if (reader->begun)
		return 0;
	reader->begun = hi->pos < hi->len;
	reader->max_elements = max_elements;
	return reader->begun && !memchr(types, hi->buf[hi->pos], strlen(types)) ? -EPROTO : 0;
}

static int reader_error(const struct kv_reader *reader)
{
	return reader->hi->err == REDIS_ERR_OOM && !reader->refused ? -ENOMEM : -EPROTO;
}

static int reader_next(struct kv_reader *reader, size_t max_bytes, size_t max_elements,
		       struct kv_reply **out)
{
	void *reply = NULL;

	if (max_elements > KV_REPLY_ELEMENTS)
		max_elements = KV_REPLY_ELEMENTS;
	if (reader_begin(reader, max_elements))
		return -EPROTO;
	if (redisReaderGetReply(reader->hi, &reply) != REDIS_OK)
		return reader_error(reader);
	if (!reply)
		return reader->hi->len - reader->hi->pos > max_bytes ? -EPROTO : 0;
	reader->begun = false;
	*out = reply;
	return 1;
}

static char *command_new(int argc, const char **argv, const size_t *len, size_t *bytes)
{
	char *command = NULL;
	long long n = redisFormatCommandArgv(&command, argc, argv, len);

	*bytes = n > 0 ? (size_t)n : 0;
	return n > 0 ? command : NULL;
}

static void command_free(char *command)
{
	redisFreeCommand(command);
}

__attribute__((visibility("default"))) const struct kv_resp shift_redis_resp = {
	.version = KV_RESP_VERSION,
	.command = command_new,
	.free_command = command_free,
	.open = reader_open,
	.close = reader_close,
	.feed = reader_feed,
	.next = reader_next,
	.free_reply = reply_free,
};
