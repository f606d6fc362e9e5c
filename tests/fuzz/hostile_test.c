/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The values and messages that tests/fuzz/hostile/ lists: none is accepted, none does harm. Each is
 * read from memory of exactly its length, so that a sanitizer sees a byte that is read too far.
 *
 * usage: hostile_test DIRECTORY
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/kv.h"
#include "shiftlib/control/wire.h"

#define LINE_MAX_LEN 512
#define DATA_MAX     8192

struct data {
	uint8_t byte[DATA_MAX];
	size_t n;
};

static void die(const char *file, unsigned line, const char *what)
{
	fprintf(stderr, "%s:%u: %s\n", file, line, what);
	exit(1);
}

/* ---- what is edited ------------------------------------------------------------------------- */

static void base_value(struct data *data)
{
	struct kv_record rec = {
		.instance = 0x1122334455667788,
		.conn_id = 7,
		.nonce = 0xfeedbeef,
		.qpn = 0x123,
		.remote_qpn = 0x456,
		.default_nic = 1,
		.n_addr = 3,
		.n_backup = 2,
		.backup = { 2, 0 },
	};
	static const uint8_t nics[] = { 0, 1, 2 };

	for (uint32_t i = 0; i < 3; i++) {
		rec.addr[i] = (struct kv_addr){ .nic = nics[i],
						.link_layer = KV_LINK_ETHERNET,
						.mtu = 5,
						.gid = { [10] = 0xff, 0xff, 10, 1, 0, 2 },
						.ctrl_qpn = 0x100 + i,
						.qkey = 0x11111111,
						.revision = 1 };
	}
	rec.addr[2].link_layer = KV_LINK_INFINIBAND;
	rec.addr[2].lid = 17;
	if (kv_record_encode(&rec, data->byte, sizeof(data->byte), &data->n))
		abort();
}

static int put_message(struct sh_wire_writer *writer, const char *type)
{
	static const struct sh_wire_ids ids = { 1, 2, 3 };
	static const struct sh_wire_key keys[2] = { { .rkey = 5 }, { .rkey = 6 } };
	static const struct sc_msg_standby standby = {
		.epoch = 1, .address = { .qpn = 9, .gid = { [10] = 0xff, 0xff, 10, 1, 0, 2 } }
	};
	static const struct sc_msg_state state = { .epoch = 1 };
	static const struct sh_wire_ping ping = { .seq = 4 };
	struct sh_wire_nic nics[2] = { { .nic = 0 }, { .nic = 1 } };

	for (uint8_t i = 0; i < 2; i++) {
		nics[i].address.link_layer = KV_LINK_ETHERNET;
		nics[i].address.qpn = 9;
		memcpy(nics[i].address.gid, standby.address.gid, sizeof(nics[i].address.gid));
	}
	if (!strcmp(type, "unknown"))
		return sh_wire_put_unknown(writer, &ids);
	if (!strcmp(type, "standby"))
		return sh_wire_put_standby(writer, &ids, &standby);
	if (!strcmp(type, "state"))
		return sh_wire_put_state(writer, &ids, &state);
	if (!strcmp(type, "keys"))
		return sh_wire_put_keys(writer, 1, keys, 2) - 2;
	if (!strcmp(type, "keys-ack"))
		return sh_wire_put_keys_ack(writer, 1);
	if (!strcmp(type, "key-ask"))
		return sh_wire_put_key_ask(writer, 1);
	if (!strcmp(type, "nics"))
		return sh_wire_put_nics(writer, nics, 2);
	if (!strcmp(type, "nics-ack"))
		return sh_wire_put_nics_ack(writer, 1);
	if (!strcmp(type, "ping"))
		return sh_wire_put_ping(writer, &ping);
	return strcmp(type, "pong") ? -1 : sh_wire_put_pong(writer, &ping);
}

static bool base_message(struct data *data, const char *type)
{
	struct sh_wire_writer writer;

	sh_wire_begin(&writer, data->byte, sizeof(data->byte), 1, 2);
	if (put_message(&writer, type))
		return false;
	data->n = sh_wire_end(&writer);
	return true;
}

/* ---- edits ---------------------------------------------------------------------------------- */

static bool edit_hex(struct data *data, size_t at, const char *hex)
{
	unsigned byte;

	for (; *hex; hex += 2, at++) {
		if (at >= data->n || sscanf(hex, "%2x", &byte) != 1 || !hex[1])
			return false;
		data->byte[at] = (uint8_t)byte;
	}
	return true;
}

static bool edit(struct data *data, const char *word)
{
	size_t n;
	int at = 0;

	if (sscanf(word, "len=%zu", &n) == 1 && n <= DATA_MAX) {
		if (n > data->n)
			memset(data->byte + data->n, 0, n - data->n);
		data->n = n;
		return true;
	}
	if (!strncmp(word, "raw=", 4)) {
		data->n = strlen(word + 4) / 2;
		return edit_hex(data, 0, word + 4);
	}
	return sscanf(word, "@%zu=%n", &n, &at) == 1 && at && edit_hex(data, n, word + at);
}

/* ---- judgement ------------------------------------------------------------------------------ */

static bool value_accepted(const uint8_t *bytes, size_t n)
{
	struct kv_record rec;

	return !kv_record_decode(&rec, bytes, n);
}

/* A datagram counts up to its first wrong record, so here there is one record in each. */
static bool message_accepted(const uint8_t *bytes, size_t n)
{
	struct sh_wire_reader reader;
	struct sh_wire_record record;
	struct sh_wire_header header;

	if (sh_wire_open(&reader, bytes, n, &header))
		return false;
	return sh_wire_next(&reader, &record) == 1;
}

static bool accepted(const struct data *data, bool message)
{
	uint8_t *exact = malloc(data->n + !data->n);
	bool yes;

	if (!exact)
		abort();
	memcpy(exact, data->byte, data->n);
	yes = message ? message_accepted(exact, data->n) : value_accepted(exact, data->n);
	free(exact);
	return yes;
}

/* Returns whether the line holds a case. */
static bool run_line(const char *file, unsigned line, char *text, bool message)
{
	static struct data data;
	char *why = strchr(text, '#'), *word, *rest;

	if (why)
		*why++ = '\0';
	word = strtok_r(text, " \t\n", &rest);
	if (!word)
		return false;
	if (!why || strspn(why, " \n") == strlen(why))
		die(file, line, "it is not said what is wrong with it");
	if (!message)
		base_value(&data);
	else if (!base_message(&data, word))
		die(file, line, "no such type");
	else
		word = strtok_r(NULL, " \t\n", &rest);
	if (!accepted(&data, message))
		die(file, line, "it is refused before it is edited");
	for (; word; word = strtok_r(NULL, " \t\n", &rest))
		if (!edit(&data, word))
			die(file, line, "an edit is malformed");
	if (accepted(&data, message))
		die(file, line, why);
	return true;
}

static unsigned run_file(const char *dir, const char *name, bool message)
{
	char path[4096], text[LINE_MAX_LEN];
	unsigned line = 0, n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "r");
	if (!file)
		die(path, 0, "cannot be read");
	while (fgets(text, sizeof(text), file))
		n += run_line(path, ++line, text, message);
	fclose(file);
	return n;
}

int main(int argc, char **argv)
{
	unsigned values, messages;

	if (argc != 2)
		return 2;
	values = run_file(argv[1], "values.txt", false);
	messages = run_file(argv[1], "messages.txt", true);
	printf("%u values and %u messages, none accepted\n", values, messages);
	return values + messages < 100;
}
