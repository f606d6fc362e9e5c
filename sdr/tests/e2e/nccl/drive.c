/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One end of connections over an NCCL network plugin, driven as NCCL drives it: by the table that
 * the library exports, a thread for each connection. Both ends draw the same messages from a seed.
 * Every byte that came is checked, and every byte of a buffer that must not have changed.
 *
 *   nccl_drive LIBRARY send|recv DIR [OPTION VALUE]...
 *
 * DIR carries handles from the receiver to the sender. Exit status: 0: all is right; 1: it is not;
 * 2: wrong options; 3: an end hangs; 4: the plugin has said that a request failed.
 */
#include "sdr/nccl/interface.h"
#include "sdr/tests/e2e/nccl/handle.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFERS_MAX = 8, GUARD_BYTES = 64, GUARD = 0x5a, IN_FLIGHT_MAX = 32, COMMS_MAX = 16 };

static struct options {
	const char *library, *dir;
	bool sends;
	uint64_t seed, messages, max_size, comms, in_flight, buffers, version, seconds, pause_us;
} opt = { .seed = 1,
	  .messages = 50,
	  .max_size = 1 << 20,
	  .comms = 1,
	  .in_flight = 8,
	  .buffers = 8,
	  .version = 12,
	  .seconds = 120 };

static struct nccl_net_v12 net;
static void *context;
static _Atomic uint64_t n_done, n_bytes;

static void say(const char *what, uint64_t a, uint64_t b)
{
	fprintf(stderr, "%s (%llu, %llu); seed %llu\n", what, (unsigned long long)a,
		(unsigned long long)b, (unsigned long long)opt.seed);
}

static void wrong(const char *what, uint64_t a, uint64_t b)
{
	say(what, a, b);
	_exit(1);
}

static void must(enum nccl_result result, const char *call)
{
	if (!result)
		return;
	say(call, result, atomic_load(&n_done));
	_exit(4);
}

__attribute__((format(printf, 5, 6))) static void logger(enum nccl_log_level level,
							 unsigned long parts, const char *file,
							 int line, const char *format, ...)
{
	va_list args;

	if (level > NCCL_LOG_INFO)
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix(*state) % below;
}

/* One receive of several buffers, and the sends that fill them. */
struct group {
	int n, tags[BUFFERS_MAX], order[BUFFERS_MAX];
	size_t room[BUFFERS_MAX], size[BUFFERS_MAX];
};

/* Sizes of all magnitudes, none too. */
static size_t draw_size(uint64_t *state)
{
	uint64_t bits = 0, size;

	if (!draw(state, 20))
		return 0;
	while (1ull << bits < opt.max_size)
		bits++;
	size = 1 + draw(state, 1ull << draw(state, bits + 1));
	return size < opt.max_size ? size : opt.max_size;
}

static void draw_group(uint64_t comm, uint64_t number, struct group *g)
{
	uint64_t state = mix(opt.seed ^ comm << 48) ^ mix(number);

	g->n = draw(&state, 2) ? 1 : 1 + (int)draw(&state, opt.buffers);
	for (int i = 0; i < g->n; i++) {
		size_t more = draw(&state, 3) ? 0 : draw_size(&state);

		g->size[i] = draw_size(&state);
		g->room[i] = g->size[i] + more < opt.max_size ? g->size[i] + more : opt.max_size;
		/* Equal tags, too: the first such buffer is filled first. */
		g->tags[i] = (int)(draw(&state, 4) ? draw(&state, 1u << 31) : draw(&state, 2));
		g->order[i] = i;
	}
	for (int i = g->n - 1; i > 0; i--) {
		int j = (int)draw(&state, (uint64_t)i + 1), other = g->order[i];

		g->order[i] = g->order[j];
		g->order[j] = other;
	}
}

/* Sends of equal tags go to buffers in the order of these. */
static int buffer_of(const struct group *g, int at)
{
	int tag = g->tags[g->order[at]], before = 0;

	for (int i = 0; i < at; i++)
		before += g->tags[g->order[i]] == tag;
	for (int i = 0; i < g->n; i++)
		if (g->tags[i] == tag && !before--)
			return i;
	abort();
}

static void fill(uint8_t *at, size_t size, uint64_t comm, uint64_t number, int buffer)
{
	uint64_t state = mix(opt.seed + comm) + mix(number * BUFFERS_MAX + (uint64_t)buffer);

	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = state += 0x9e3779b97f4a7c15ull;

		word ^= word >> 29;
		memcpy(at + i, &word, size - i < 8 ? size - i : 8);
	}
}

static void check(const uint8_t *at, size_t size, size_t room, uint64_t comm, uint64_t number,
		  int buffer, uint8_t *expected)
{
	fill(expected, size, comm, number, buffer);
	if (memcmp(at, expected, size))
		for (size_t i = 0; i < size; i++)
			if (at[i] != expected[i])
				wrong("a byte is wrong: message, offset", number, i);
	for (size_t i = size; i < room + GUARD_BYTES; i++)
		if (at[i] != GUARD)
			wrong("a byte behind the message has changed: message, offset", number, i);
}

/* ---- handles --------------------------------------------------------------------------------- */

static void handle_write(uint64_t comm, const uint8_t *handle)
{
	if (!handle_give(opt.dir, comm, handle))
		wrong("cannot write a handle", comm, 0);
}

static void handle_read(uint64_t comm, uint8_t *handle)
{
	if (!handle_take(opt.dir, comm, handle))
		wrong("cannot read a handle", comm, 0);
}

/* ---- a connection ---------------------------------------------------------------------------- */

struct place {
	void *requests[BUFFERS_MAX]; /* a receive has one */
	int n_requests;
	uint64_t number;
	struct group group;
	uint8_t *memory[BUFFERS_MAX];
	void *mhandle;
};

struct end {
	uint64_t comm;
	void *listener, *net_comm;
	struct place places[IN_FLIGHT_MAX];
	uint8_t *memory, *expected;
	size_t buffer_size;
};

static void connect_end(struct end *e)
{
	_Alignas(16) uint8_t handle[NCCL_HANDLE_MAX];

	if (opt.sends) {
		handle_read(e->comm, handle);
		while (!e->net_comm)
			must(net.connect(context, 0, handle, &e->net_comm, NULL), "connect");
		return;
	}
	must(net.listen(context, 0, handle, &e->listener), "listen");
	handle_write(e->comm, handle);
	while (!e->net_comm)
		must(net.accept(e->listener, &e->net_comm, NULL), "accept");
}

static void make_memory(struct end *e)
{
	size_t one = (opt.max_size + GUARD_BYTES + 4095) / 4096 * 4096;

	e->buffer_size = one;
	e->expected = malloc(one);
	for (uint64_t p = 0; p < opt.in_flight; p++) {
		struct place *place = &e->places[p];
		uint8_t *memory = aligned_alloc(4096, one * opt.buffers);

		if (!memory || !e->expected)
			wrong("no memory", p, one);
		/* Every second place is registered with its end inside of a page. */
		must(net.reg_mr(e->net_comm, memory, one * opt.buffers - (p % 2 ? 1 : 0),
				NCCL_PTR_HOST, &place->mhandle),
		     "reg_mr");
		for (uint64_t i = 0; i < opt.buffers; i++)
			place->memory[i] = memory + i * one;
	}
}

static void end_over(struct end *e)
{
	for (uint64_t p = 0; p < opt.in_flight; p++) {
		must(net.dereg_mr(e->net_comm, e->places[p].mhandle), "dereg_mr");
		free(e->places[p].memory[0]);
	}
	free(e->expected);
	must(opt.sends ? net.close_send(e->net_comm) : net.close_recv(e->net_comm), "close");
	if (e->listener)
		must(net.close_listen(e->listener), "close_listen");
}

static bool post_recv(struct end *e, struct place *place)
{
	struct group *g = &place->group;
	void *data[BUFFERS_MAX], *mhandles[BUFFERS_MAX], *request = NULL;
	size_t sizes[BUFFERS_MAX];

	for (int i = 0; i < g->n; i++) {
		memset(place->memory[i], GUARD, g->room[i] + GUARD_BYTES);
		data[i] = place->memory[i];
		sizes[i] = g->room[i];
		mhandles[i] = place->mhandle;
	}
	must(net.irecv(e->net_comm, g->n, data, sizes, g->tags, mhandles, NULL, &request), "irecv");
	place->requests[0] = request;
	place->n_requests = request != NULL;
	return request != NULL;
}

/* Sends the group's next message; false: not now. */
static bool post_send(struct end *e, struct place *place)
{
	struct group *g = &place->group;
	int at = place->n_requests, buffer = buffer_of(g, at);
	uint8_t *memory = place->memory[buffer];
	void *request = NULL;

	fill(memory, g->size[buffer], e->comm, place->number, buffer);
	must(net.isend(e->net_comm, memory, g->size[buffer], g->tags[buffer], place->mhandle, NULL,
		       &request),
	     "isend");
	if (!request)
		return false;
	place->requests[place->n_requests++] = request;
	return true;
}

static void check_recv(struct end *e, struct place *place, const int *sizes)
{
	struct group *g = &place->group;
	void *request = (void *)1;

	for (int i = 0; i < g->n; i++) {
		if (sizes[i] != (int)g->size[i])
			wrong("a receive has another size: message, size", place->number,
			      (uint64_t)sizes[i]);
		check(place->memory[i], g->size[i], g->room[i], e->comm, place->number, i,
		      e->expected);
		atomic_fetch_add(&n_bytes, g->size[i]);
	}
	must(net.iflush(e->net_comm, 0, NULL, NULL, NULL, &request), "iflush");
	if (request)
		wrong("a flush of host memory", place->number, 0);
}

/* True: all of the place's requests are over. */
static bool test_place(struct end *e, struct place *place)
{
	int done, sizes[BUFFERS_MAX];
	bool over = true;

	for (int i = 0; i < place->n_requests; i++) {
		if (!place->requests[i])
			continue;
		must(net.test(place->requests[i], &done, sizes), "test");
		if (!done) {
			over = false;
			continue;
		}
		place->requests[i] = NULL;
		if (opt.sends && sizes[0] != (int)place->group.size[buffer_of(&place->group, i)])
			wrong("a send has another size: message, size", place->number,
			      (uint64_t)sizes[0]);
		if (!opt.sends)
			check_recv(e, place, sizes);
	}
	return over;
}

/* Messages begin in order, and end in any. */
static void run(struct end *e)
{
	const struct timespec nap = { .tv_nsec = (long)opt.pause_us * 1000 };
	uint64_t begun = 0, over = 0;
	bool posting = false;

	while (over < opt.messages) {
		struct place *place = &e->places[begun % opt.in_flight];

		if (!posting && begun < opt.messages && !place->n_requests) {
			place->number = begun;
			draw_group(e->comm, begun, &place->group);
			posting = true;
		}
		while (posting && (opt.sends ? post_send(e, place) : post_recv(e, place)))
			if (!opt.sends || place->n_requests == place->group.n) {
				posting = false;
				begun++;
			}
		for (uint64_t p = 0; p < opt.in_flight; p++) {
			struct place *other = &e->places[p];

			if (!other->n_requests || (posting && other == place) ||
			    !test_place(e, other))
				continue;
			other->n_requests = 0;
			over++;
			atomic_fetch_add(&n_done, 1);
			if (opt.pause_us)
				nanosleep(&nap, NULL);
		}
	}
}

static void *end_main(void *arg)
{
	struct end *e = arg;

	connect_end(e);
	make_memory(e);
	run(e);
	end_over(e);
	return NULL;
}

/* ---- the plugin ------------------------------------------------------------------------------ */

static struct nccl_net_v10 net_v10;

static enum nccl_result init_by_v10(void **ctx, uint64_t id, struct nccl_config *config,
				    nccl_logger log, nccl_profiler profiler)
{
	return net_v10.init(log, profiler);
}

static enum nccl_result listen_by_v10(void *ctx, int device, void *handle, void **listener)
{
	return net_v10.listen(device, handle, listener);
}

static enum nccl_result connect_by_v10(void *ctx, int device, void *handle, void **comm,
				       void **device_comm)
{
	struct nccl_config config = { NCCL_UNDEFINED };

	return net_v10.connect(device, &config, handle, comm, device_comm);
}

/* What version 12 has of version 10's table: the calls of a connection are the same. */
static void take_v10(const struct nccl_net_v10 *table)
{
	net_v10 = *table;
	net = (struct nccl_net_v12){ .name = table->name,
				     .init = init_by_v10,
				     .devices = table->devices,
				     .listen = listen_by_v10,
				     .connect = connect_by_v10 };
	memcpy(&net.accept, &table->accept,
	       offsetof(struct nccl_net_v10, make_vdevice) - offsetof(struct nccl_net_v10, accept));
}

static void check_properties(void *library)
{
	struct nccl_properties_v12 p;

	must(net.get_properties(0, &p), "get_properties");
	if (!p.name || p.speed <= 0 || p.max_recvs != 8 || !(p.ptr_support & NCCL_PTR_HOST) ||
	    p.vdevice.n != 1 || p.max_p2p_bytes < opt.max_size || p.max_comms < 1)
		wrong("a device's properties", (uint64_t)p.speed, p.max_p2p_bytes);
	if (net.get_properties(1000, &p) != NCCL_INVALID_ARGUMENT)
		wrong("properties of no device", 0, 0);
}

static void *load(void)
{
	static const char *const names[] = { NCCL_NET_SYMBOL_V10, NCCL_NET_SYMBOL_V11,
					     NCCL_NET_SYMBOL_V12 };
	void *library = dlopen(opt.library, RTLD_NOW | RTLD_LOCAL), *table;
	struct nccl_config config = { NCCL_UNDEFINED };
	int n = 0;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	table = dlsym(library, names[opt.version - 10]);
	if (!table)
		wrong("no table of this version", opt.version, 0);
	if (opt.version == 10)
		take_v10(table);
	else
		memcpy(&net, table, sizeof(net)); /* version 11's differs in properties alone */
	must(net.init(&context, opt.seed, &config, logger, NULL), "init");
	must(net.devices(&n), "devices");
	if (n < 1)
		wrong("no device", 0, 0);
	if (opt.version == 12)
		check_properties(library);
	return library;
}

static bool set_option(const char *name, const char *value)
{
	const struct {
		const char *name;
		uint64_t *value, most;
	} options[] = {
		{ "--seed", &opt.seed, UINT64_MAX },
		{ "--messages", &opt.messages, UINT64_MAX },
		{ "--max-size", &opt.max_size, 1ull << 30 },
		{ "--comms", &opt.comms, COMMS_MAX },
		{ "--in-flight", &opt.in_flight, IN_FLIGHT_MAX },
		{ "--buffers", &opt.buffers, BUFFERS_MAX },
		{ "--version", &opt.version, 12 },
		{ "--seconds", &opt.seconds, 3600 },
		{ "--pause-us", &opt.pause_us, 1000000 },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(options[i].name, name)) {
			*options[i].value = strtoull(value, NULL, 0);
			return *options[i].value <= options[i].most;
		}
	return false;
}

static bool read_options(int argc, char **argv)
{
	if (argc < 4 || argc % 2)
		return false;
	opt.library = argv[1];
	opt.sends = !strcmp(argv[2], "send");
	opt.dir = argv[3];
	for (int i = 4; i < argc; i += 2)
		if (!set_option(argv[i], argv[i + 1]))
			return false;
	return opt.version >= 10 && opt.comms && opt.in_flight && opt.buffers;
}

static void *watch(void *arg)
{
	sleep((unsigned)opt.seconds);
	say("this end hangs: messages that are over", atomic_load(&n_done), opt.messages);
	_exit(3);
}

int main(int argc, char **argv)
{
	static struct end ends[COMMS_MAX];
	pthread_t threads[COMMS_MAX], watcher;
	void *library;

	if (!read_options(argc, argv)) {
		fprintf(stderr, "usage: nccl_drive LIBRARY send|recv DIR [OPTION VALUE]...\n");
		return 2;
	}
	library = load();
	if (pthread_create(&watcher, NULL, watch, NULL))
		return 1;
	for (uint64_t i = 0; i < opt.comms; i++) {
		ends[i].comm = i;
		if (pthread_create(&threads[i], NULL, end_main, &ends[i]))
			return 1;
	}
	for (uint64_t i = 0; i < opt.comms; i++)
		pthread_join(threads[i], NULL);
	if (net.finalize)
		must(net.finalize(context), "finalize");
	dlclose(library); /* NCCL unloads it: no thread of it may be left */
	printf("%llu messages, %llu bytes\n", (unsigned long long)atomic_load(&n_done),
	       (unsigned long long)atomic_load(&n_bytes));
	return 0;
}
