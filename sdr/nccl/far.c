/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "far.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { MAPPED_BITS = 96, ADDRESS_BITS = 128, TEXT_MAX = 64 };

static void map(const struct in_addr *four, uint8_t *bytes)
{
	memset(bytes, 0, 10);
	bytes[10] = bytes[11] = 0xff;
	memcpy(bytes + 12, four, 4);
}

static bool net_read(const char *text, size_t length, struct plug_net *net)
{
	char address[TEXT_MAX], *slash, *end;
	struct in_addr four;
	long bits = ADDRESS_BITS, most = ADDRESS_BITS, mapped = 0;

	if (!length || length >= sizeof(address))
		return false;
	memcpy(address, text, length);
	address[length] = 0;
	slash = strchr(address, '/');
	if (slash)
		*slash = 0;
	if (inet_pton(AF_INET, address, &four) == 1) {
		map(&four, net->bytes);
		mapped = MAPPED_BITS;
		most -= MAPPED_BITS;
	} else if (inet_pton(AF_INET6, address, net->bytes) != 1) {
		return false;
	}
	bits = slash ? strtol(slash + 1, &end, 10) : most;
	if (slash && (end == slash + 1 || *end))
		return false;
	net->bits = (uint8_t)(bits + mapped);
	return bits >= 0 && bits <= most;
}

bool plug_nets_read(const char *text, struct plug_far *far)
{
	size_t n;

	far->n_nets = 0;
	while (*text) {
		n = strcspn(text, ",");
		if (far->n_nets == PLUG_NETS_MAX || !net_read(text, n, &far->nets[far->n_nets]))
			return false;
		far->n_nets++;
		text += n;
		if (*text && !*++text)
			return false; /* a comma that nothing follows */
	}
	return true;
}

static bool has(const struct plug_net *net, const uint8_t *bytes)
{
	uint32_t whole = net->bits / 8, rest = net->bits % 8;

	return !memcmp(net->bytes, bytes, whole) &&
	       (!rest || !((net->bytes[whole] ^ bytes[whole]) >> (8 - rest)));
}

bool plug_is_far(const struct plug_far *far, const struct sockaddr_storage *peer, uint64_t rtt_ns)
{
	const struct sockaddr_in *four = (const void *)peer;
	const struct sockaddr_in6 *six = (const void *)peer;
	uint8_t bytes[16];

	if (!far->asked || (far->rtt_ns && rtt_ns >= far->rtt_ns))
		return true;
	if (peer->ss_family == AF_INET)
		map(&four->sin_addr, bytes);
	else
		memcpy(bytes, &six->sin6_addr, sizeof(bytes));
	for (uint32_t i = 0; i < far->n_nets; i++)
		if (has(&far->nets[i], bytes))
			return true;
	return false;
}
