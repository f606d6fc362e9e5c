# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# `make demo` and `make test` do everything on a fresh Debian 12, as root, and may be repeated.
# `make help` lists the rest.

CMAKE_FLAGS ?=
JOBS        ?= $(shell nproc)
B           := build
OUT         := out
SCRIPTS     ?= 1000
MINUTES     ?= 10
COUNT       ?= 1000000
FLAPS       ?= 100
DEATHS      ?= 1000
RUNS        ?= 100
CMAKE       := cmake -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo $(CMAKE_FLAGS)
SOURCES      = $(shell git ls-files '*.c' '*.h')
PACKAGES     = $(OUT)/packages

# ARCH=arm64: build, deb and wheel for that, on another machine.
ifeq ($(ARCH),arm64)
B           := build-arm64
CMAKE       += -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake
PACKAGES     = $(OUT)/packages/arm64
ENTER       := ./scripts/arm64.sh $(B)
endif

.PHONY: all help deps build quick demo test san-address san-thread test-clang format check-format fuzz \
	proof proof-long model-long sim-long sim-detect psn-long diff-long diff-mutants verify-long verify-scripts atomics-long again-long soak cases situations alerts crossed gray-long \
	valgrind programs \
	pyverbs ucx-gtest fabtests rust-tests bench bench-simnic bench-ab bench-lat bench-fallback bench-resent bench-verbs bench-control bench-begin bench-regions bench-memory bench-idle bench-kv \
	bench-detect bench-push bench-scale bench-cluster bench-programs bench-test \
	bench-parity bench-bystanders bench-status bench-spread bench-txn figures figures-draw figures-publish install clean

all: build

help:
	@echo "Everyday"
	@echo "  make quick            build, units without NICs, style, format (a minute or two)"
	@echo "  make build            build into $(B)/, installing packages that are missing"
	@echo "  make test             all tests, gcc; then units and simulation under sanitizers (30 minutes)"
	@echo "  make san-address      units and simulation under ASan+UBSan alone (san-thread: TSan)"
	@echo "  make test-clang       everything, built by clang"
	@echo "  make format           clang-format on all sources (check-format: must have nothing to change)"
	@echo "  make demo             the main job: stock perftest outlives dead NICs and switches"
	@echo "Long tests"
	@echo "  make test-kernel      on Debian's own kernel with soft-RoCE, by QEMU (10 minutes; CASE=pattern)"
	@echo "  make test-driver      the kernel's own mlx5 driver over a PCI device of simnic, by QEMU (10 minutes; CASE=pattern)"
	@echo "  make test-arm64       arm64: cross build, all units and the engine against libmlx5 under qemu-user; 64 KiB pages (10 minutes)"
	@echo "  make litmus           arm64: the orders of memory that SHIFT relies on, by herd7 (seconds; gets it first)"
	@echo "  make proof            the promises as theorems, checked by Coq (docs/proof); gets it first"
	@echo "  make proof-long       1,000,000 schedules of the simulation held to the proof"
	@echo "  make model-long       the model of the protocol by spin: all configurations"
	@echo "  make sim-long         simulation, 1,000,000 schedules from a fresh seed"
	@echo "  make sim-detect       detection time against false moves, for several times of silence (4 minutes)"
	@echo "  make psn-long         simnic: rq_psn against memory, 10,000 faults from a fresh seed"
	@echo "  make diff-long        ring engine against libmlx5, 10,000,000 cases"
	@echo "  make diff-mutants     each store and barrier of the doorbells left out: must be noticed"
	@echo "  make verify-long      200 faults under verify; it fails on stock and on broken builds"
	@echo "  make verify-scripts   $(SCRIPTS) random scripts of faults on both hosts (2 s each)"
	@echo "  make atomics-long     $(COUNT) increments through drains and dead ports, none lost; $(FLAPS) flaps"
	@echo "  make again-long       $(DEATHS) deaths of a responder's NIC under WRITEs with a log"
	@echo "  make soak             $(MINUTES) minutes with a flap every 0 to 3 s"
	@echo "  make cases            verbs in every order, threads, shared receive queues, odd NICs: all cases"
	@echo "  make situations       60 made situations: what the operator is told; outputs in $(OUT)/situations"
	@echo "  make alerts           the critical alert: RUNS=100 scripts of programs' errors, RUNS of lost connections"
	@echo "  make crossed          1,000 rounds of connections made in crossed orders by 2 x 8 threads"
	@echo "  make gray-long        links that lose a packet in 1,000; RUNS=100 of each congestion"
	@echo "  make valgrind         1,000 cycles of create and destroy under memcheck"
	@echo "  make fuzz             libFuzzer on values, messages, configuration; $(MINUTES) minutes each"
	@echo "  make programs         MPI, training, PyTorch RPC, Mooncake, NIXL, perftest through faults; gets them"
	@echo "  make ucx-gtest        UCX's own gtest, without SHIFT and with; builds it, which takes half an hour"
	@echo "  make fabtests         libfabric's own tests, without SHIFT and with; gets them (SOURCE=its sources), 15 minutes"
	@echo "  make rust-tests       the own tests of the crates ibverbs and sideway, without SHIFT and with; gets them"
	@echo "  make pyverbs          rdma-core's python tests, without SHIFT and with; docs/pyverbs.md"
	@echo "                        SUITE=sid: in a root of Debian sid, for rdma-core's newest; $(OUT)/pyverbs.md; gets it"
	@echo "Benches (QUICK=1: a look; results in $(OUT)/)"
	@echo "  make bench            what misses its figure: goal, now, before (6 minutes; ONLY=point of the table)"
	@echo "  make bench-ab         no fault: stock against SHIFT; bench-fallback: how long one queue pair takes"
	@echo "  make bench-lat        Table 2: small messages beside 1,000 idle QPs (ONLY=\"1 MiB\" ROUNDS=40)"
	@echo "  make bench-resent     what is sent again after a fault, against a blind resend (10 minutes)"
	@echo "  make bench-verbs      instructions and time of each data verb: stock, SHIFT by each engine"
	@echo "  make bench-parity     SCRIPTS=1000 scripts of faults on stock and SHIFT: who lives? (3 s each)"
	@echo "  make bench-bystanders SCRIPTS=1000 bystanders: do they see what stock shows? (ONLY=death SEED=n)"
	@echo "  make bench-simnic     simnic itself: latency, messages per second (BEFORE=build folder of another commit)"
	@echo "  make bench-ucx        UCX by rc_mlx5, by rc_verbs, and by rc_verbs under SHIFT (ROUNDS=7)"
	@echo "  make bench-status     what watching costs: an answer for 2 x 1,000 QPs, throughput beside it"
	@echo "  make bench-kv         what the KV costs, up to 4,096 instances against one redis-server"
	@echo "  make bench-control    control verbs, and the set-up of up to 4,096 queue pairs"
	@echo "  make bench-begin      what a program sees of its set-up with 1 and 2 backups (1 minute)"
	@echo "  make bench-regions    registering memory while a program runs, with 2 and 8 NICs"
	@echo "  make bench-memory     memory of an idle queue pair: stock, with its standby, lazy (3 minutes)"
	@echo "  make bench-idle       memory, wake-ups and CPU of an idle process with 8 NICs; CPU of a move (5 minutes)"
	@echo "  make bench-detect     how soon each fault is found; what a drain costs (5 minutes)"
	@echo "  make bench-push       what a move waits for READs from other devices' memory (4 minutes)"
	@echo "  make bench-scale      how long 1 to 4,096 queue pairs of a dying NIC take to flow again"
	@echo "  make bench-spread     a dead NIC of 4 and of 8: rates of all streams, an all-reduce"
	@echo "  make bench-txn        transactions through faults, books checked (ROUNDS=3 ONLY=tpcc RANDOM=200)"
	@echo "  make bench-cluster    models: jobs to 65,536 GPUs, a shared NIC, storms; gets SimPy, SimGrid"
	@echo "  make bench-test       builds these two, which make build leaves out, and runs their tests"
	@echo "  make figures          takes all measurements and draws them into $(OUT)/figures"
	@echo "  make figures-draw     draws again what was measured (figures-publish: those of docs/figures)"
	@echo "  make sdr-help         the targets of SDR, a project of its own in sdr/"
	@echo "Packages"
	@echo "  make deb              Debian packages, into $(OUT)/packages; lintian has nothing to say"
	@echo "  make test-packages    they come and go in a copy of this system; dpkg is killed anywhere"
	@echo "  make rpm              RPMs, into $(OUT)/packages (test-rpm: they come and go in a root of rpm's own)"
	@echo "  make wheel            the Python package, into $(OUT)/packages (test-wheel: in fresh environments)"
	@echo "                        make build, deb, wheel ARCH=arm64: for arm64; packages into $(OUT)/packages/arm64"
	@echo "  make dist             the source archive, its bill of materials (SPDX), SHA256SUMS, into $(OUT)/dist"
	@echo "  make release          dist, and all packages beside it"
	@echo "  make test-distros     one build on Debian 11 to sid, each with its rdma-core, Redis and Python; gets them"
	@echo "  make install          into CMAKE_INSTALL_PREFIX (give it in CMAKE_FLAGS)"
	@echo "  make clean            removes build folders and $(OUT)/"

deps:
	@./scripts/install-deps.sh

build: deps
	@$(ENTER) $(CMAKE) -S . -B $(B) >/dev/null
	@$(ENTER) ninja -C $(B) -j $(JOBS)

# A verdict while one works. NICs, programs and what takes minutes are left to `make test`.
quick: build check-format
	@ctest --test-dir $(B) -L '^unit$$' -LE '^(simnic|fuzz)$$' -j $(JOBS) --output-on-failure --progress

demo: build
	@python3 tools/demo/demo.py --build $(B)/out --out $(OUT)

# What is got for tests comes while the build runs; without it its tests are skipped.
test: deps
	@{ ./scripts/get-prometheus.sh $(B); ./scripts/install-coq.sh; } & \
	$(MAKE) --no-print-directory build; built=$$?; wait; exit $$built
	@./tests/run.py $(B) --out $(OUT) --jobs $(JOBS)

san-address san-thread: san-%: deps
	@$(CMAKE) -S . -B build-$* -DSHIFT_SANITIZE=$* >/dev/null
	@ninja -C build-$* -j $(JOBS)
	@ctest --test-dir build-$* --output-on-failure -LE 'e2e|simnic'

test-clang: deps
	@CC=clang $(CMAKE) -S . -B build-clang >/dev/null
	@ninja -C build-clang -j $(JOBS)
	@ctest --test-dir build-clang --output-on-failure

format:
	@clang-format -i $(SOURCES)

check-format:
	@clang-format --dry-run -Werror $(SOURCES)

proof-long: build
	@python3 tests/proof/run_accept.py --sim $(B)/out/bin/failover_sim --build $(B)/proof-accept \
		--proof $(B)/proof --schedules 1000000

# Needs no build.
model-long:
	@python3 tests/model/run_model.py --jobs $(JOBS)

sim-detect: build
	@$(B)/out/bin/detect_sim --table

sim-long: build
	@$(B)/out/bin/failover_sim --seeds 1000000

psn-long: build
	@$(B)/out/bin/simnic_psn_test 0 10000

diff-long: build
	@tests/diff/run.sh $(B)/out --cases 10000000

diff-mutants: build
	@python3 tests/diff/mutants.py $(B)

verify-long: build
	@python3 tests/e2e/run_verify.py --build $(B) --seeds 1..200
	@SHIFT_ENGINE=ledger python3 tests/e2e/run_verify.py --build $(B) --seeds 1..40
	@python3 tests/e2e/run_verify.py --build $(B) --spread --seeds 1..40 --patterns abcdeg --qps 6
	@python3 tests/e2e/run_verify.py --build $(B) --lazy --seeds 1..15 --patterns abcdefg --qps 7
	@python3 tests/e2e/run_verify.py --build $(B) --lazy pool --seeds 1..15 --patterns abcdefg --qps 7
	@python3 tests/e2e/run_verify.py --build $(B) --seeds 1..200 --patterns ghi --qps 6
	@python3 tests/e2e/run_verify.py --build $(B) --seeds 1..200 --patterns gh --qps 4 --exact off
	@SHIFT_ENGINE=ledger python3 tests/e2e/run_verify.py --build $(B) --seeds 1..40 --patterns ghi --qps 6
	@python3 tests/e2e/run_verify.py --build $(B) --seeds 1..12 --stock
	@python3 tests/e2e/run_mutants.py --build $(B)

verify-scripts: build
	@python3 tests/e2e/run_verify.py --build $(B) --scripts --fresh $(SCRIPTS)

# Needs no build. Two files at a time.
proof:
	@./scripts/install-coq.sh
	@python3 tests/proof/run_proof.py --build $(B)/proof --jobs $(JOBS) --library

atomics-long: build
	@python3 tests/e2e/home.py --build $(B)
	@python3 tests/e2e/home.py --build $(B) --increments $(COUNT)
	@python3 tests/e2e/home.py --build $(B) --together $(COUNT)
	@python3 tests/e2e/exact.py --build $(B) --flaps $(FLAPS)

again-long: build
	@python3 tests/e2e/again.py --build $(B) --deaths $(DEATHS)
	@SHIFT_ENGINE=ledger python3 tests/e2e/again.py --build $(B) --deaths $(DEATHS)

soak: build
	@python3 tests/e2e/soak.py --build $(B) --minutes $(MINUTES)

cases: build
	@failed=; for t in abuse doctor probe threads srq scarce; do python3 tests/e2e/$$t.py --build $(B) || failed=1; done; \
	for t in threads srq scarce; do SHIFT_ENGINE=ledger python3 tests/e2e/$$t.py --build $(B) || failed=1; done; \
	[ -z "$$failed" ]

situations: build
	@rm -rf $(OUT)/situations
	@python3 tests/e2e/situations.py --build $(B) --write $(OUT)/situations

alerts: build
	@python3 tests/e2e/alerts.py --build $(B) --runs $(RUNS) $(if $(SEED),--seed $(SEED))

crossed: build
	@python3 tests/e2e/crossed.py --build $(B) --rounds 1000

gray-long: build
	@python3 tests/e2e/gray.py --build $(B)
	@python3 tests/e2e/slow_path.py --build $(B)
	@python3 tests/e2e/gray_long.py --build $(B) --runs $(RUNS)

valgrind: build
	@python3 tests/e2e/leaks.py --build $(B) --cycles 1000

fuzz: build
	@python3 tests/fuzz/run_fuzz.py --build $(B) --seconds $$(( $(MINUTES) * 60 ))

# Status 77: skipped, with the reason printed.
programs: build
	@-./scripts/install-programs.sh $(B)
	@for t in mpi training torch_rpc mooncake_engine nixl_agent programs return stock_says; do \
		python3 tests/e2e/$$t.py --build $(B) || [ $$? -eq 77 ] || failed=1; \
	done; \
	for way in none path preload both; do \
		python3 tests/e2e/stock_tools.py --build $(B) --shift $$way || failed=1; \
	done; \
	python3 tests/e2e/checkpoint.py --build $(B) again || [ $$? -eq 77 ] || failed=1; \
	python3 tests/e2e/training.py --build $(B) --stock || [ $$? -eq 77 ] || failed=1; \
	python3 tests/e2e/nothing_set.py --build $(B) --fault link,switch,drain || [ $$? -eq 77 ] || failed=1; \
	python3 tests/e2e/nothing_set.py --build $(B) --fault switch --stock || [ $$? -eq 77 ] || failed=1; \
	[ -z "$$failed" ]

# UCX's own tests, built out of Debian's source package: half an hour for the build, and longer to run.
ucx-gtest: build
	@./scripts/build-ucx-gtest.sh $(B)
	@python3 tests/ucx/run_ucx_gtest.py --build $(B)

# libfabric's own tests, which no package of Debian has; SOURCE: folder or repository with libfabric's sources.
fabtests: build
	@./scripts/build-fabtests.sh $(B) $(SOURCE)
	@python3 tests/fabtests/run_fabtests.py --build $(B)

# Status 77: there is no cargo, and it says so.
rust-tests: build
	@./scripts/build-rust-tests.sh $(B)
	@python3 tests/rust/run_rust.py --build $(B)

pyverbs: build
	@$(if $(SUITE),python3 tests/distros/distros.py --build $(B) --out $(OUT) --suites $(SUITE) --cases pyverbs,\
		python3 tests/pyverbs/run_pyverbs.py --build $(B) --write docs/pyverbs.md)

bench: build
	@python3 bench/goals.py --build $(B) --out $(OUT) $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

bench-lat: build
	@python3 bench/ab.py --latency --rounds $(or $(ROUNDS),20) $(if $(ONLY),--only "$(ONLY)") \
		$(if $(BLOCK),--block $(BLOCK)) --build $(B) --out $(OUT)

bench-ab: build
	@python3 bench/ab.py --build $(B) --out $(OUT)

bench-fallback: build
	@python3 bench/fallback.py --build $(B) --out $(OUT)

bench-resent: build
	@python3 bench/resent.py --build $(B) --out $(OUT) --runs $(or $(ROUNDS),10)

bench-verbs: build
	@python3 bench/verbs.py --build $(B) --out $(OUT)

bench-parity: build
	@python3 bench/parity.py --build $(B) --out $(OUT) --scripts $(or $(SCRIPTS),$(if $(QUICK),40,1000))

bench-bystanders: build
	@python3 bench/bystanders.py --build $(B) --out $(OUT) $(if $(ONLY),--only $(ONLY)) \
		$(if $(SEED),--seed $(SEED),--scripts $(if $(QUICK),40,$(SCRIPTS)))

# bench/txn and bench/cluster: no part of `make build` and `make test`.
bench-programs: build
	@ninja -C $(B) -j $(JOBS) bench_programs

bench-test: bench-programs
	@./scripts/install-cluster.sh $(B) || true
	@ctest --test-dir $(B) -C bench -L '^bench$$' --output-on-failure

bench-txn: bench-programs
	@python3 bench/txn.py --build $(B) --out $(OUT) $(if $(ONLY),--workload $(ONLY)) $(if $(ROUNDS),--runs $(ROUNDS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(QUICK),--fault none port) $(if $(RANDOM),--random $(RANDOM) --mode shift+owner)

bench-ucx: build
	@python3 bench/ucx.py --build $(B) --out $(OUT) --rounds $(or $(ROUNDS),7)

bench-simnic: build
	@python3 bench/simnic.py --build $(B) --out $(OUT) --rounds $(or $(ROUNDS),5) $(if $(BEFORE),--before $(BEFORE))

bench-status: build
	@python3 bench/status.py --build $(B) --out $(OUT)

bench-kv: build
	@python3 bench/kv_scale.py --build $(B) --out $(OUT)

bench-control: build
	@python3 bench/control.py --build $(B) --out $(OUT)

bench-begin: build
	@python3 bench/control.py --build $(B) --out $(OUT) --begin 100 --rounds $(or $(ROUNDS),7)

bench-regions: build
	@python3 bench/regions.py --build $(B) --out $(OUT) --rounds $(or $(ROUNDS),5)

bench-memory: build
	@python3 bench/memory.py --build $(B) --out $(OUT)

bench-idle: build
	@python3 bench/idle.py --build $(B) --out $(OUT) --rounds $(or $(ROUNDS),3)

bench-detect: build
	@python3 bench/detect.py --build $(B) --out $(OUT)
	@python3 bench/drain.py --build $(B) --out $(OUT)

bench-push: build
	@python3 bench/push.py --build $(B) --out $(OUT) --runs $(or $(ROUNDS),20)

bench-scale: build
	@python3 bench/scale.py --lazy --build $(B) --out $(OUT)

bench-spread: build
	@python3 bench/spread.py --build $(B) --out $(OUT) $(if $(QUICK),--quick)

# Models of a cluster. SimPy is needed; without SimGrid its part is left out.
bench-cluster: bench-programs
	@./scripts/install-cluster.sh $(B) || $(B)/cluster/bin/python -c 'import simpy'
	@$(B)/cluster/bin/python bench/cluster/cluster.py --build $(B) --out $(OUT) $(if $(QUICK),--quick)

# The training needs programs of other people; without them its figure is left out.
figures: bench-programs
	@$(B)/programs/bin/python -c 'import mpi4py, numpy' 2>/dev/null || ./scripts/install-programs.sh $(B) || true
	@python3 bench/figures.py --build $(B) --out $(OUT) $(if $(QUICK)$(FIGURES_QUICK),--quick)

figures-draw: deps
	@python3 bench/figures.py --draw --out $(OUT)

figures-publish: figures-draw
	@cp $(OUT)/figures/*.svg docs/figures/

.PHONY: deb test-packages
deb: deps
	@$(ENTER) ./scripts/make-deb.sh $(PACKAGES) $(if $(ENTER),--arch $(ARCH))
	@$(if $(ENTER),python3 tests/packages/cross_test.py $(PACKAGES) $(OUT)/packages)

test-packages: deb
	@tests/packages/run.sh --debs $(OUT)/packages --cuts all
	@tests/packages/run.sh --debs $(OUT)/packages --autopkgtest

.PHONY: wheel test-wheel
wheel: build
	@$(ENTER) python3 scripts/make-wheel.py $(B) $(PACKAGES)
	@$(if $(ENTER),python3 tests/packages/cross_test.py $(PACKAGES) $(OUT)/packages)

# PYTHONS: interpreters, each of which gets an environment of its own.
test-wheel: build
	@python3 -B tests/packages/wheel_test.py --build $(B) $(PYTHONS)

# rpmbuild is Debian's, where this is Debian. test-rpm says why it skips (status 77).
.PHONY: rpm test-rpm
rpm: deps
	@./scripts/install-rpm.sh
	@./scripts/make-rpm.sh $(OUT)/packages

test-rpm: rpm
	@python3 -B tests/packages/rpm_test.py --rpms $(OUT)/packages || [ $$? -eq 77 ]

# The source archive is of the commit. A release has the packages, too.
.PHONY: dist release
dist: build
	@./scripts/make-dist.sh $(OUT)/dist $(B)

release: build deb rpm wheel
	@python3 -B scripts/check-packages.py $(OUT)/packages/*.deb $(OUT)/packages/*.rpm $(OUT)/packages/*.whl
	@./scripts/make-dist.sh $(OUT)/dist $(B) $(OUT)/packages

# SUITES and CASE: some of them, with commas; ENVIRONMENTS: so many of doctor's, drawn; SHIFT_MIRROR: where from;
# PYTHONS: folders of more Pythons for the wheel, such as ~/.pyenv/versions/3.9.18.
.PHONY: test-distros
test-distros: build deb wheel
	@python3 -B tests/distros/distros.py --build $(B) --out $(OUT) $(if $(SUITES),--suites $(SUITES)) \
		$(if $(CASE),--cases $(CASE)) $(if $(ENVIRONMENTS),--environments $(ENVIRONMENTS)) \
		$(if $(PYTHONS),--pythons $(PYTHONS))

.PHONY: test-kernel
test-kernel: build deb
	@python3 tests/kernel/lane.py --build $(B) --out $(OUT) --debs $(OUT)/packages $(if $(CASE),--case '$(CASE)')

# Needs no build of this machine's own.
.PHONY: test-arm64
test-arm64: deps
	@./tests/run_arm64.py build-arm64 --jobs $(JOBS) $(if $(ONLY),--only '$(ONLY)')

.PHONY: litmus
litmus:
	@./scripts/install-litmus.sh $(B)
	@python3 tests/litmus/run_litmus.py --herd7 $(B)/litmus/herd7

.PHONY: test-driver
test-driver: build
	@python3 tests/driver/lane.py --build $(B) --out $(OUT) $(if $(CASE),--case '$(CASE)')

-include sdr/sdr.mk

install: build
	@cmake --install $(B)

clean:
	rm -rf build build-address build-thread build-clang build-arm64 $(OUT)
