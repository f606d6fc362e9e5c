/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * engine_diff [--cases N] [--seed S] [--config I] [--trace] [--self-test]
 * A case is a request, taken or refused, or a completion.
 * Run on the software NIC: SIMNIC_FREEZE=1 simnicctl run --host h0 -- engine_diff
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/diff/diff.h"

int (*diff_inject)(uint32_t cqn, const void *cqe, const void *data);

static struct {
	uint64_t requests, completions, stores;
} totals;

struct options {
	uint64_t cases, seed;
	int config;
	bool self_test, fixed;
};

static bool step(struct diff_rig *rig)
{
	uint32_t what = diff_below(100);

	if (what < 40)
		return rig->cfg->type == IBV_QPT_RC && !rig->cfg->no_windows && diff_chance(3)
			       ? diff_step_bind(rig)
		       : rig->cfg->wr_calls && diff_chance(80) ? diff_step_wr(rig)
							       : diff_step_send(rig);
	if (what < 55)
		return rig->cfg->srq ? diff_step_srq(rig) : diff_step_recv(rig);
	if (what < 75)
		return diff_step_inject(rig);
	if (what < 82)
		return diff_step_arm(rig);
	return rig->cfg->cq_ex && diff_chance(80) ? diff_step_poll_ex(rig) : diff_step_poll(rig);
}

static void describe(const struct diff_config *c)
{
	printf("%s: %u+%u requests, %u+%u segments, inline %u%s%s%s%s%s%s, CQE %s, SHUT_UP_BF %s, "
	       "PREFER_BF %s, wc_flags %#llx\n",
	       c->name, c->send_wr, c->recv_wr, c->send_sge, c->recv_sge, c->inline_bytes,
	       c->sig_all ? ", sig_all" : "", c->cq_ex ? ", cq_ex" : "",
	       c->one_cq ? ", one CQ" : "", c->wr_calls ? ", ibv_wr" : "",
	       c->resized ? ", resized" : "", c->srq ? ", SRQ" : "",
	       c->cqe_size ? c->cqe_size : "-", c->shut_up_bf ? c->shut_up_bf : "-",
	       c->prefer_bf ? c->prefer_bf : "-", (unsigned long long)c->wc_flags);
}

/* Returns whether both stayed equal. */
static bool run_config(const struct diff_config *cfg, const struct options *opt, uint64_t cases,
		       uint64_t *done)
{
	struct diff_rig *rig = malloc(sizeof(*rig));
	bool ok = true;

	if (!rig)
		diff_die("malloc");
	if (!diff_rig_make(rig, cfg)) {
		free(rig);
		return true;
	}
	ok = !rig->failures && diff_trace_setup(rig);
	while (ok && rig->requests + rig->completions < cases) {
		rig->spoil = opt->self_test && rig->requests + rig->completions > cases / 2;
		ok = step(rig);
	}
	if (ok && !opt->self_test && cfg->srq)
		ok = diff_srq_page_fault(rig);
	*done += rig->requests + rig->completions;
	totals.requests += rig->requests;
	totals.completions += rig->completions;
	totals.stores += diff_tracing ? rig->traced : rig->stores;
	if (!ok)
		describe(cfg);
	if (ok)
		diff_rig_free(rig);
	free(rig);
	return ok;
}

/* The random ones have numbers behind the fixed ones; each has a seed of its own. */
static bool run_number(unsigned i, const struct options *opt, uint64_t cases, uint64_t *done)
{
	struct diff_config cfg;
	bool ok;

	diff_seed(opt->seed * 1000003 + i);
	if (i < diff_config_count)
		cfg = diff_configs[i];
	else
		diff_config_random(&cfg);
	ok = run_config(&cfg, opt, cases, done);
	if (!ok)
		printf("%s: --seed %llu --cases %llu --config %u%s\n",
		       opt->self_test ? "noticed" : "DIFFERENT, replay",
		       (unsigned long long)opt->seed, (unsigned long long)opt->cases, i,
		       diff_tracing ? " --trace" : "");
	fflush(stdout);
	return ok;
}

static void parse(int argc, char **argv, struct options *opt)
{
	static const struct option longs[] = {
		{ "cases", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "config", required_argument, NULL, 'c' },
		{ "self-test", no_argument, NULL, 't' },
		{ "fixed", no_argument, NULL, 'f' },
		{ "trace", no_argument, NULL, 'x' },
		{ 0 },
	};
	int c;

	*opt = (struct options){ .cases = 100000, .seed = time(NULL), .config = -1 };
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'n': opt->cases = strtoull(optarg, NULL, 0); break;
		case 's': opt->seed = strtoull(optarg, NULL, 0); break;
		case 'c': opt->config = atoi(optarg); break;
		case 't': opt->self_test = true; break;
		case 'f': opt->fixed = true; break;
		case 'x': diff_tracing = true; break;
		default: exit(2);
		}
	}
}

/* Half of the cases on the fixed configurations, the rest on random ones; --fixed: all on the first. */
static int run(const struct options *opt)
{
	uint64_t share = opt->cases / (opt->fixed ? 1 : 2) / diff_config_count + 1, done = 0;
	uint64_t random_share = opt->cases / 400 + 1000;
	unsigned different = 0, i;
	bool reached;

	for (i = 0; done < opt->cases; i++) {
		if (opt->config >= 0)
			i = opt->config;
		different +=
			!run_number(i, opt, i < diff_config_count ? share : random_share, &done);
		if (opt->config >= 0 ||
		    ((opt->self_test || opt->fixed) && i + 1 == diff_config_count)) {
			i++;
			break;
		}
	}
	if (opt->self_test) {
		printf("self-test: %u of %u spoiled bytes were noticed\n", different,
		       diff_config_count);
		return different != diff_config_count;
	}
	reached = diff_cover_report(opt->config < 0 && !opt->fixed ? done : 0);
	printf("%llu cases (%llu requests, %llu completions; %llu stores to registers%s) on %u "
	       "configurations: %u differences\n",
	       (unsigned long long)done, (unsigned long long)totals.requests,
	       (unsigned long long)totals.completions, (unsigned long long)totals.stores,
	       diff_tracing ? " and records, traced" : "", opt->config < 0 ? i : 1, different);
	return different || !reached;
}

int main(int argc, char **argv)
{
	struct options opt;

	parse(argc, argv, &opt);
	diff_inject = (int (*)(uint32_t, const void *, const void *))dlsym(
		RTLD_DEFAULT, "simnic_test_inject_cqe");
	if (!diff_inject) {
		fprintf(stderr,
			"engine_diff: not on the software NIC: start it with simnicctl run\n");
		return 77;
	}
	if (diff_tracing && !diff_trace_possible()) {
		fprintf(stderr, "engine_diff: --trace steps through x86-64 instructions only\n");
		return 77;
	}
	diff_print_version();
	printf("seed %llu (replay: --seed %llu --cases %llu)\n", (unsigned long long)opt.seed,
	       (unsigned long long)opt.seed, (unsigned long long)opt.cases);
	return run(&opt);
}
