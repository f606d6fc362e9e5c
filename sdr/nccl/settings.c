/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "settings.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull

/* Units of bytes, of rates and of times: a name, and its worth in the smallest unit. */
struct unit {
	const char *name;
	uint64_t worth;
};

static const struct unit bytes[] = {
	{ "", 1 }, { "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 }, { NULL, 0 }
};
static const struct unit rates[] = {
	{ "", 1 }, { "K", 1000 }, { "M", 1000000 }, { "G", SECOND }, { NULL, 0 }
};
static const struct unit times[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", SECOND }, { NULL, 0 }
};
static const struct unit numbers[] = { { "", 1 }, { NULL, 0 } };

static const struct unit *units_of(const char *kind)
{
	if (!strcmp(kind, "bytes"))
		return bytes;
	if (!strcmp(kind, "rate"))
		return rates;
	return strcmp(kind, "time") ? numbers : times;
}

bool plug_number_read(const char *text, const char *kind, uint64_t *value)
{
	char *end;
	double number = strtod(text, &end);

	/* A number of 2^53 is exact, and more than anybody asks for. */
	if (end == text || !(number >= 0))
		return false;
	for (const struct unit *u = units_of(kind); u->name; u++) {
		if (strcasecmp(end, u->name) || number * (double)u->worth > 9e15)
			continue;
		*value = (uint64_t)(number * (double)u->worth);
		return true;
	}
	return false;
}

static int complain(const char *name, const char *text, const char *wanted)
{
	PLUG_WARN("%s=%s is not %s", name, text, wanted);
	return -EINVAL;
}

static int read_number(const char *name, const char *kind, uint64_t least, uint64_t most,
		       uint64_t *value)
{
	const char *text = getenv(name);
	char wanted[96];
	uint64_t got;

	if (!text || !*text)
		return 0;
	if (plug_number_read(text, kind, &got) && got >= least && got <= most) {
		*value = got;
		return 0;
	}
	snprintf(wanted, sizeof(wanted), "a %s from %llu to %llu", kind, (unsigned long long)least,
		 (unsigned long long)most);
	return complain(name, text, wanted);
}

static int read_power(const char *name, uint32_t least, uint32_t most, uint32_t *value)
{
	uint64_t got = *value;
	int err = read_number(name, "number", least, most, &got);

	if (!err && got & (got - 1))
		err = complain(name, getenv(name), "a power of two");
	if (!err)
		*value = (uint32_t)got;
	return err;
}

static int read_text(const char *name, char *value, size_t size)
{
	const char *text = getenv(name);

	if (!text || !*text)
		return 0;
	if (strlen(text) >= size)
		return complain(name, "...", "as short as it must be");
	strcpy(value, text);
	return 0;
}

static int read_scheme(int *scheme)
{
	const char *text = getenv("NCCL_SDR_SCHEME");

	if (!text || !*text)
		return 0;
	for (int i = SDR_SCHEME_AUTO; i <= SDR_SCHEME_HYBRID; i++)
		if (!strcmp(text, sdr_scheme_name(i))) {
			*scheme = i;
			return 0;
		}
	return complain("NCCL_SDR_SCHEME", text, "auto, sr, nack, ec or hybrid");
}

static int read_backend(enum sdr_backend *backend)
{
	const char *text = getenv("NCCL_SDR_BACKEND");

	if (!text || !*text)
		return 0;
	for (enum sdr_backend b = SDR_BACKEND_AUTO; b <= SDR_BACKEND_ROOT; b++)
		if (!strcmp(text, sdr_backend_name(b))) {
			*backend = b;
			return 0;
		}
	return complain("NCCL_SDR_BACKEND", text, "auto, window, stage or root");
}

static int read_gid_index(int *index)
{
	uint64_t got = 0;
	int err;

	const char *text = getenv("NCCL_SDR_GID_INDEX");

	if (!text || !*text)
		return 0;
	err = read_number("NCCL_SDR_GID_INDEX", "number", 0, 255, &got);
	if (!err)
		*index = (int)got;
	return err;
}

static int read_far(struct plug_far *far)
{
	const char *text = getenv("NCCL_SDR_FAR");
	int err = read_number("NCCL_SDR_FAR_RTT", "time", 1000, 10 * SECOND, &far->rtt_ns);

	if (!err && text && !plug_nets_read(text, far))
		err = complain("NCCL_SDR_FAR", text, "a list of networks, as 10.2.0.0/16");
	far->asked = far->rtt_ns || text;
	return err;
}

static int read_rate(uint64_t *rate_bps)
{
	const char *text = getenv("NCCL_SDR_RATE");

	if (text && !strcmp(text, "auto")) {
		*rate_bps = SDR_RATE_AUTO;
		return 0;
	}
	return read_number("NCCL_SDR_RATE", "rate", 0, 1ull << 50, rate_bps);
}

static int read_rc_timeout(uint8_t *timeout)
{
	uint64_t got = *timeout;
	int err = read_number("NCCL_SDR_RC_TIMEOUT", "number", 1, 31, &got);

	*timeout = (uint8_t)got;
	return err;
}

static int read_times(struct plug_settings *s)
{
	int err = read_number("NCCL_SDR_RTT", "time", 1000, 10 * SECOND, &s->rtt_ns);

	if (!err)
		err = read_number("NCCL_SDR_TIMEOUT", "time", SECOND / 10, 3600 * SECOND,
				  &s->timeout_ns);
	if (!err)
		err = read_number("NCCL_SDR_LIFETIME", "time", SECOND / 1000, 60 * SECOND,
				  &s->lifetime_ns);
	return err;
}

static int read_sizes(struct plug_settings *s)
{
	int err = read_number("NCCL_SDR_MAX_MESSAGE", "bytes", 4096, 1ull << 30, &s->max_message);

	if (!err)
		err = read_number("NCCL_SDR_PARITY", "bytes", 4096, 1ull << 28, &s->max_parity);
	if (!err)
		err = read_power("NCCL_SDR_IN_FLIGHT", 8, 256, &s->in_flight);
	if (!err)
		err = read_power("NCCL_SDR_SLOTS", 16, 16384, &s->slots);
	if (!err && s->slots < 2 * s->in_flight) {
		PLUG_WARN("NCCL_SDR_SLOTS is less than twice NCCL_SDR_IN_FLIGHT: a message takes "
			  "two slots");
		err = -EINVAL;
	}
	return err;
}

int plug_settings_read(struct plug_settings *s)
{
	int err;

	*s = (struct plug_settings){ .gid_index = -1,
				     .scheme = SDR_SCHEME_AUTO,
				     .rtt_ns = SECOND / 100,
				     .timeout_ns = 30 * SECOND,
				     .lifetime_ns = SECOND,
				     .rc_timeout = 18,
				     .max_message = 64 << 20,
				     .max_parity = 256 << 10,
				     .in_flight = 64,
				     .slots = 1024 };
	err = read_text("NCCL_SDR_HCA", s->hca, sizeof(s->hca));
	if (!err)
		err = read_text("NCCL_SOCKET_IFNAME", s->ifname, sizeof(s->ifname));
	if (!err)
		err = read_text("NCCL_SDR_IFNAME", s->ifname, sizeof(s->ifname));
	if (!err)
		err = read_gid_index(&s->gid_index);
	if (!err)
		err = read_scheme(&s->scheme);
	if (!err)
		err = read_backend(&s->backend);
	if (!err)
		err = read_rate(&s->rate_bps);
	if (!err)
		err = read_far(&s->far);
	if (!err)
		err = read_rc_timeout(&s->rc_timeout);
	if (!err)
		err = read_times(s);
	return err ? err : read_sizes(s);
}
