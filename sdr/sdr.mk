# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Targets of SDR, of the Makefile above.
.PHONY: bench-sdr bench-sdr-nccl bench-sdr-means bench-sdr-share nccl-long sdr-long sdr-ring sdr-figures sdr-fuzz sdr-help

sdr-help:
	@echo "make bench-sdr       Writes over a long link that loses packets beside RC, with targets; by scheme, beside the model"
	@echo "make bench-sdr-nccl  all-reduces of two sites of four ranks over 25 ms, over the plugin for NCCL, beside RC (40 minutes; QUICK=1: 6)"
	@echo "make bench-sdr-means SDR's and RC's times beside a simulation packet by packet, within 10 and 15 % (an hour and a half; QUICK=1: 10 minutes)"
	@echo "make bench-sdr-share senders that find their rate themselves: alone, beside TCP, beside each other; simulated, and on software NICs (20 minutes at most; QUICK=1: 3)"
	@echo "make sdr-figures     what SDR's paper claims beside what the model gives: $(OUT)/sdr-model.json, figures"
	@echo "make sdr-long        SDR: 1,000 rounds of late packets on each backend, bursts, a pulled NIC, a ring's sum (an hour)"
	@echo "make nccl-long       the plugin for NCCL: 1,000 runs on links, with NICs and messages that are drawn (RUNS=N, SEED=N, JOBS=N at a time; an hour)"
	@echo "make sdr-ring        SDR: sums over a ring of four hosts, SR beside hybrid and the ring's simulation, within MINUTES (35)"
	@echo "make sdr-fuzz        libFuzzer on SDR's control messages, $(MINUTES) minutes"

bench-sdr: build
	@python3 sdr/bench/against.py --build $(B) --out $(OUT) $(if $(SEED),--seed $(SEED))
	@python3 sdr/bench/completion.py --build $(B) --out $(OUT) --rounds $(or $(ROUNDS),3)

bench-sdr-nccl: build
	@python3 sdr/bench/nccl.py --build $(B) --out $(OUT) $(if $(SEED),--seed $(SEED)) $(if $(QUICK),--quick)

bench-sdr-means: build
	@python3 sdr/bench/means.py --build $(B) --out $(OUT) $(if $(SEED),--seed $(SEED)) $(if $(QUICK),--writes 25 --size 8M --rc-seconds 30)

bench-sdr-share: build
	@python3 sdr/bench/share.py --build $(B) --out $(OUT) $(if $(SEED),--seed $(SEED)) $(if $(QUICK),--quick)

sdr-long: build
	@SDR_BURST_ROUNDS=10000 $(B)/out/bin/sdr_burst_test
	@SDR_LONG=1 python3 sdr/tests/e2e/nics_e2e.py --build $(B) late pulled back left given_back unequal
	@SDR_LONG=1 python3 sdr/tests/e2e/sdr_e2e.py --build $(B) schemes link bursts allreduce
	@SDR_LONG=1 python3 sdr/tests/e2e/timed_e2e.py --build $(B) stalled silent
	@$(B)/out/bin/sdr_sim --seconds 600
	@$(B)/out/bin/sdr_rate_sim --seeds 200
	@python3 -B sdr/tests/model/model_test.py packets --points 200
	@python3 sdr/bench/ring.py --build $(B) --out $(OUT)

nccl-long: build
	@NCCL_DRAWN=$(or $(RUNS),1000) NCCL_JOBS=$(or $(JOBS),2) python3 sdr/tests/e2e/nccl_e2e.py --build $(B) $(if $(SEED),--seed $(SEED)) drawn

sdr-ring: build
	@python3 sdr/bench/ring.py --build $(B) --out $(OUT) --minutes $(or $(MINUTES),35)

sdr-figures: deps
	@python3 sdr/bench/figures.py --out $(OUT) $(if $(QUICK),--quick)

sdr-fuzz: build
	@$(B)/out/bin/fuzz_sdr_ctrl -max_total_time=$$(( $(MINUTES) * 60 )) -max_len=8192 \
		-artifact_prefix=$(B)/out/fuzz_sdr_
