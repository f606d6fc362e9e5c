/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the command line asks for. */
#ifndef VERIFY_OPTIONS_H
#define VERIFY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Rules of the sender of slots; docs/mutants.md. */
enum mutant {
	MUTANT_NONE,
	MUTANT_OLDER_AGAIN,
	MUTANT_TOO_SOON,
};

struct options {
	bool server;
	const char *host;
	const char *dev;
	const char *patterns;
	uint64_t seed;
	uint64_t rounds;
	double duration_s;
	double stuck_s;
	double idle_after_s;
	double idle_for_s;
	uint32_t max_size;
	int gid_index;
	int qps;
	const char *listen; /* address of a server; NULL: of this machine alone */
	int port;
	int timeout;
	int retry;
	enum mutant mutant;
	bool expect_error;
	bool may_fail;
	bool allow_events;
	bool plain;
	bool control;
};

int options_parse(struct options *o, int argc, char **argv);

#endif
