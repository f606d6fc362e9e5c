/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The time that a reliable Write takes, by link, scheme and size: from its first injection until
 * its last acknowledgement is back. All chunks count as full ones, except that of a Write shorter
 * than a chunk. Pure functions; any thread may call them.
 */
#ifndef SDR_MODEL_H
#define SDR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum sdr_scheme_kind {
	SDR_SCHEME_SR,	  /* a chunk without its acknowledgement is repeated after rto_rtts */
	SDR_SCHEME_NACK,  /* the receiver names what is missing */
	SDR_SCHEME_EC,	  /* an erasure code; what it cannot decode is repeated */
	SDR_SCHEME_HYBRID /* NACK, and a code for what leaves in the last tail_rtts */
};

enum sdr_code_kind {
	SDR_CODE_MDS, /* any m of k + m may be lost */
	SDR_CODE_XOR  /* a chunk of each of m groups may be lost */
};

/*
 * A link with independent losses, each packet's with the probability loss. A chunk is lost at most
 * 9 times of 10.
 */
struct sdr_link {
	double rate_bps, rtt_s, loss;
	uint32_t packet; /* bytes */
};

struct sdr_scheme {
	enum sdr_scheme_kind kind;
	enum sdr_code_kind code;
	uint32_t chunk; /* bytes that are repeated or coded as one */
	uint32_t k, m;	/* chunks of data and of parity of a submessage */
	double rto_rtts;
	double fto_rtts;  /* time after its expected end at which a coded message is given up */
	double tail_rtts; /* hybrid: part of the injection's end that is coded */
	bool serial;	  /* repeats take their time on the link; not in the published formulas */
	/*
	 * a failed message is repeated with all its data, as published; else only the missing
	 * chunks
	 */
	bool whole;
};

/* The defaults of a kind, with MDS; k and m are ignored where there is no code. */
struct sdr_scheme sdr_scheme_make(enum sdr_scheme_kind kind, uint32_t chunk, uint32_t k,
				  uint32_t m);

/* Seconds; NAN, and errno EINVAL, if a parameter makes no sense. bytes: at least 1. */
double sdr_model_mean(const struct sdr_link *link, const struct sdr_scheme *scheme, uint64_t bytes);
/* q: 0 to below 1. */
double sdr_model_quantile(const struct sdr_link *link, const struct sdr_scheme *scheme,
			  uint64_t bytes, double q);
/* The chance that a code does not suffice; 0 where there is none. */
double sdr_model_fallback(const struct sdr_link *link, const struct sdr_scheme *scheme,
			  uint64_t bytes);
/* Bytes sent on purpose (data and parity, no repeats) for each byte of data. */
double sdr_model_sent(const struct sdr_link *link, const struct sdr_scheme *scheme, uint64_t bytes);

/*
 * Returns the index of the scheme whose q-quantile is least, among those that send at most
 * max_sent bytes for a byte of data. Of schemes that are equal within 0.1 % it is the one that
 * sends least. -EINVAL: none may be taken.
 */
int sdr_model_choose(const struct sdr_link *link, const struct sdr_scheme *schemes, uint32_t n,
		     uint64_t bytes, double q, double max_sent);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
