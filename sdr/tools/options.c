/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdr/tools/perf.h"

enum {
	OPT_SCHEME = 256,
	OPT_SDK,
	OPT_CHUNK,
	OPT_INFLIGHT,
	OPT_RATE,
	OPT_BACKEND,
	OPT_CODE,
	OPT_K,
	OPT_M,
	OPT_VERIFY,
	OPT_DUPLICATES,
	OPT_JSON,
	OPT_NCCL,
	OPT_RTT,
	OPT_LOSS,
	OPT_CHANNELS,
	OPT_DEPTH,
	OPT_WAIT,
	OPT_TIMEOUT,
	OPT_LIFETIME,
	OPT_GID,
	OPT_AGAINST,
	OPT_SECRET,
	OPT_BURST,
	OPT_KV,
	OPT_JOB,
	OPT_MTU,
	OPT_CLIENT
};

enum { DEVICES_MAX = 8, CHUNK_MAX = 64 * 4096 };

#define BURST_MAX  (1ull << 40) /* far from where sums wrap */
#define RATE_LEAST 1000
#define HOUR_NS	   3600000000000ull

void usage(void)
{
	puts("usage: sdr_perf OPTIONS           the server\n"
	     "       sdr_perf OPTIONS HOST      the client: writes to it\n"
	     "       sdr_perf model --rate R --loss P [--rtt T] [--size S] [--mtu B] [--chunk "
	     "SIZE]\n"
	     "                      [--code C] [--k K] [--m M] [--json]\n"
	     "       sdr_perf model --nccl --rate R --loss P [--rtt T] [--size S] [--mtu B] "
	     "[--json]\n"
	     "\n"
	     "  -d, --dev DEV[,DEV]  devices, as ibv_devices names them\n"
	     "  -p, --port PORT      TCP port of the introduction (18600)\n"
	     "      --kv STORE       the introduction by a key-value store, redis://... or "
	     "lmdb:/...\n"
	     "      --job NAME       in that store (sdr_perf)\n"
	     "      --client         with --kv: this is the client\n"
	     "  -s, --size SIZE      of a Write (8M)\n"
	     "  -n, --writes N       how many (200)\n"
	     "      --scheme S       auto, sr, nack, ec, hybrid (auto)\n"
	     "      --code C         mds or xor (mds); -k and -m below\n"
	     "      --k K, --m M     chunks of data and of parity of a submessage (32, 8)\n"
	     "      --sdk            no reliability: messages alone, and what misses of them\n"
	     "      --against rc     each Write over a reliable connection, too, and the ratio of "
	     "the times\n"
	     "      --inflight N     Writes or messages at once (1)\n"
	     "      --chunk SIZE     a bit of the bitmap (a packet, of long Writes more)\n"
	     "      --backend B      auto, window, stage, root (auto)\n"
	     "      --channels N     queue pairs (one for each device)\n"
	     "      --depth N        packets that a receive queue has room for (4096)\n"
	     "      --rate R         bits per second to send at (no limit), such as 1G; or\n"
	     "                       auto: what the link has room for beside others\n"
	     "      --burst SIZE     that may leave at once after a pause (of 1 to 64 ms)\n"
	     "      --rtt T          round trip to begin with (10ms)\n"
	     "      --timeout T      of a Write (30s)\n"
	     "      --lifetime T     no packet is under way for longer (1s)\n"
	     "      --duplicates     the network may double packets\n"
	     "      --wait S         seconds to wait for the other end (10)\n"
	     "      --gid-index I    (the first of RoCE v2 over IPv4)\n"
	     "      --secret FILE    of the job: signs control datagrams\n"
	     "      --verify         every byte is checked by its place\n"
	     "      --json           one line for programs\n"
	     "      --loss P         model: of a packet, such as 1e-5\n"
	     "      --nccl           model: is the plugin for NCCL worth it, beside RC?\n"
	     "      --mtu B          model: bytes of a packet, 256 to 4096 (4096)\n"
	     "  -h, --help\n"
	     "  -V, --version\n"
	     "\n"
	     "SIZE: 4096, 64K, 8M, 2G; R: 400M, 100G; T: 200us, 25ms, 3s.\n"
	     "Both ends need the same size, n, chunk, scheme, code, k, m, inflight, channels, "
	     "against and secret. "
	     "See sdr_perf(1).");
}

/* Number and suffix; false: neither. */
static bool scaled(const char *text, const char *const *suffixes, const double *factors, size_t n,
		   uint64_t *value)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !(v >= 0) || v > 1e18)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(end, suffixes[i]))
			continue;
		if (v * factors[i] > 1e18)
			return false;
		*value = (uint64_t)(v * factors[i]);
		return true;
	}
	return false;
}

bool parse_number(const char *text, uint64_t *value)
{
	static const char *const suffixes[] = { "", "K", "M", "G", "T" };
	static const double factors[] = { 1, 1024., 1048576., 1073741824., 1099511627776. };

	return scaled(text, suffixes, factors, 5, value);
}

bool parse_rate(const char *text, uint64_t *bps)
{
	static const char *const suffixes[] = { "", "K", "M", "G", "T" };
	static const double factors[] = { 1, 1e3, 1e6, 1e9, 1e12 };

	return scaled(text, suffixes, factors, 5, bps);
}

bool parse_time(const char *text, uint64_t *ns)
{
	static const char *const suffixes[] = { "ns", "us", "ms", "s" };
	static const double factors[] = { 1, 1e3, 1e6, 1e9 };

	return scaled(text, suffixes, factors, 4, ns);
}

static bool one_of(const char *text, const char *const *names, int n, int first, int *value)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(text, names[i]))
			continue;
		*value = first + i;
		return true;
	}
	return false;
}

static bool set_name(struct options *o, int option, const char *text)
{
	static const char *const schemes[] = { "auto", "sr", "nack", "ec", "hybrid" };
	static const char *const backends[] = { "auto", "window", "stage", "root" };
	static const char *const codes[] = { "mds", "xor" };
	int value = 0;
	bool ok;

	switch (option) {
	case OPT_SCHEME: return one_of(text, schemes, 5, SDR_SCHEME_AUTO, &o->scheme);
	case OPT_BACKEND:
		ok = one_of(text, backends, 4, 0, &value);
		o->backend = (enum sdr_backend)value;
		return ok;
	default:
		ok = one_of(text, codes, 2, 0, &value);
		o->code = (enum sdr_code_kind)value;
		return ok;
	}
}

static bool set_int(const char *text, int *value)
{
	char *end;
	long v = strtol(text, &end, 10);

	*value = (int)v;
	return *text && !*end && v >= 0 && v <= 65535;
}

static bool set_mtu(const char *text, uint64_t *value)
{
	return parse_number(text, value) && *value >= 256 && *value <= 4096 &&
	       !(*value & (*value - 1));
}

static bool set_loss(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return *text && !*end && *value >= 0 && *value < 1;
}

static bool set_rate(const char *text, uint64_t *bps)
{
	if (strcmp(text, "auto"))
		return parse_rate(text, bps);
	*bps = SDR_RATE_AUTO;
	return true;
}

static bool set_value(struct options *o, int option, const char *text)
{
	switch (option) {
	case 'd': o->dev = text; return true;
	case OPT_SECRET: o->secret = text; return true;
	case OPT_KV: o->kv = text; return true;
	case OPT_JOB: o->job = text; return true;
	case 'p': return set_int(text, &o->port) && o->port;
	case 's': return parse_number(text, &o->size) && o->size;
	case 'n': return parse_number(text, &o->n) && o->n && o->n <= 10000000;
	case OPT_CHUNK: return parse_number(text, &o->chunk) && o->chunk && o->chunk <= CHUNK_MAX;
	case OPT_INFLIGHT:
		return parse_number(text, &o->inflight) && o->inflight && o->inflight <= 256;
	case OPT_K: return parse_number(text, &o->k) && o->k && o->k < 255;
	case OPT_M: return parse_number(text, &o->m) && o->m && o->m < 255;
	case OPT_CHANNELS:
		return parse_number(text, &o->channels) && o->channels && o->channels <= 8;
	case OPT_DEPTH: return parse_number(text, &o->depth) && o->depth && o->depth <= 1 << 20;
	case OPT_RATE: return set_rate(text, &o->rate);
	case OPT_BURST: return parse_number(text, &o->burst) && o->burst && o->burst <= BURST_MAX;
	case OPT_AGAINST: o->against_rc = !strcmp(text, "rc"); return o->against_rc;
	case OPT_RTT: return parse_time(text, &o->rtt_ns) && o->rtt_ns && o->rtt_ns <= HOUR_NS / 4;
	case OPT_TIMEOUT: return parse_time(text, &o->timeout_ns) && o->timeout_ns;
	case OPT_LIFETIME:
		return parse_time(text, &o->lifetime_ns) && o->lifetime_ns &&
		       o->lifetime_ns <= HOUR_NS;
	case OPT_WAIT: return set_int(text, &o->wait_s) && o->wait_s;
	case OPT_GID: return set_int(text, &o->gid_index);
	case OPT_LOSS: return set_loss(text, &o->loss);
	case OPT_MTU: return set_mtu(text, &o->mtu);
	default: return set_name(o, option, text);
	}
}

static const struct option longs[] = {
	{ "dev", 1, NULL, 'd' },
	{ "port", 1, NULL, 'p' },
	{ "size", 1, NULL, 's' },
	{ "writes", 1, NULL, 'n' },
	{ "scheme", 1, NULL, OPT_SCHEME },
	{ "code", 1, NULL, OPT_CODE },
	{ "k", 1, NULL, OPT_K },
	{ "m", 1, NULL, OPT_M },
	{ "sdk", 0, NULL, OPT_SDK },
	{ "inflight", 1, NULL, OPT_INFLIGHT },
	{ "chunk", 1, NULL, OPT_CHUNK },
	{ "backend", 1, NULL, OPT_BACKEND },
	{ "channels", 1, NULL, OPT_CHANNELS },
	{ "depth", 1, NULL, OPT_DEPTH },
	{ "rate", 1, NULL, OPT_RATE },
	{ "burst", 1, NULL, OPT_BURST },
	{ "secret", 1, NULL, OPT_SECRET },
	{ "kv", 1, NULL, OPT_KV },
	{ "job", 1, NULL, OPT_JOB },
	{ "client", 0, NULL, OPT_CLIENT },
	{ "against", 1, NULL, OPT_AGAINST },
	{ "rtt", 1, NULL, OPT_RTT },
	{ "timeout", 1, NULL, OPT_TIMEOUT },
	{ "lifetime", 1, NULL, OPT_LIFETIME },
	{ "wait", 1, NULL, OPT_WAIT },
	{ "gid-index", 1, NULL, OPT_GID },
	{ "verify", 0, NULL, OPT_VERIFY },
	{ "duplicates", 0, NULL, OPT_DUPLICATES },
	{ "json", 0, NULL, OPT_JSON },
	{ "nccl", 0, NULL, OPT_NCCL },
	{ "loss", 1, NULL, OPT_LOSS },
	{ "mtu", 1, NULL, OPT_MTU },
	{ "help", 0, NULL, 'h' },
	{ "version", 0, NULL, 'V' },
	{ 0 },
};

static const char *name_of(int option)
{
	for (const struct option *l = longs; l->name; l++)
		if (l->val == option)
			return l->name;
	return "?";
}

/* Of "mlx5_0,mlx5_1". */
static uint64_t devices(const char *list)
{
	uint64_t n = 1;

	for (; list && *list; list++)
		n += *list == ',';
	return n;
}

static bool is_for(int option, bool model)
{
	switch (option) {
	case 's':
	case OPT_CHUNK:
	case OPT_RATE:
	case OPT_RTT:
	case OPT_CODE:
	case OPT_K:
	case OPT_M:
	case OPT_JSON: return true;
	case OPT_LOSS:
	case OPT_NCCL:
	case OPT_MTU: return model;
	default: return !model;
	}
}

/* Complains of an option that is not for this command, and does not leave it out in silence. */
static bool is_for_this(const struct options *o, int option)
{
	if (is_for(option, o->model))
		return true;
	if (o->model)
		complain("--%s is not for model: see sdr_perf --help", name_of(option));
	else
		complain("--%s is for sdr_perf model", name_of(option));
	return false;
}

/* false: it was said what does not. */
static bool fits_together(struct options *o)
{
	if (o->model) {
		if (o->host)
			complain("model meets nobody, not \"%s\"", o->host);
		if (o->nccl && (o->own_code || o->chunk || o->code))
			complain("--nccl: the plugin chooses code and chunk itself");
		return !o->host && !(o->nccl && (o->own_code || o->chunk || o->code));
	}
	o->devices = devices(o->dev);
	if (!o->channels)
		o->channels = o->devices;
	if (o->against_rc &&
	    (o->sdk || o->inflight > 1 || o->size > 1ull << 31 || o->devices > 1)) {
		complain("--against rc is for Writes of at most 2G, one at a time, by one device: "
			 "neither --sdk nor --inflight");
		return false;
	}
	if (o->rate && o->rate < RATE_LEAST) {
		complain("--rate %llu bits per second are too few: at least 1K",
			 (unsigned long long)o->rate);
		return false;
	}
	if (o->channels < o->devices || o->devices > DEVICES_MAX) {
		complain("at most %d devices, and a channel for each: --dev %s, --channels %llu",
			 DEVICES_MAX, o->dev, (unsigned long long)o->channels);
		return false;
	}
	if (o->kv ? o->host != NULL : o->client && !o->host) {
		complain("the client is told by HOST, or with --kv by --client");
		return false;
	}
	return true;
}

bool options_parse(int argc, char **argv, bool model, struct options *o)
{
	int option;

	*o = (struct options){ .model = model,
			       .port = 18600,
			       .job = "sdr_perf",
			       .gid_index = -1,
			       .scheme = SDR_SCHEME_AUTO,
			       .wait_s = 10,
			       .size = 8 << 20,
			       .n = 200,
			       .k = 32,
			       .m = 8,
			       .inflight = 1,
			       .loss = -1,
			       .mtu = 4096,
			       .rtt_ns = 10000000,
			       .timeout_ns = 30000000000ull };
	while ((option = getopt_long(argc, argv, "d:p:s:n:hV", longs, NULL)) != -1) {
		if (option != 'h' && option != 'V' && option != '?' && !is_for_this(o, option))
			return false;
		o->own_code |= option == OPT_K || option == OPT_M;
		o->own_size |= option == 's';
		switch (option) {
		case 'h': usage(); exit(0);
		case 'V': puts("sdr_perf " SDR_VERSION); exit(0);
		case '?': complain("see sdr_perf --help"); return false;
		case OPT_SDK: o->sdk = true; break;
		case OPT_CLIENT: o->client = true; break;
		case OPT_VERIFY: o->verify = true; break;
		case OPT_DUPLICATES: o->duplicates = true; break;
		case OPT_JSON: o->json = true; break;
		case OPT_NCCL: o->nccl = true; break;
		default:
			if (set_value(o, option, optarg))
				break;
			complain("--%s %s makes no sense: see sdr_perf --help", name_of(option),
				 optarg);
			return false;
		}
	}
	o->host = optind < argc ? argv[optind] : NULL;
	o->client |= o->host != NULL;
	if (optind + 1 < argc) {
		complain("one HOST at most, not \"%s\" too", argv[optind + 1]);
		return false;
	}
	return fits_together(o);
}
