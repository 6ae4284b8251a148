# Main targets: `make demo` and `make test`; `make` alone lists all of them.
SHELL := /bin/bash
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test quick check vm fuzz bench deb mutants soak clean

FUZZ_SECONDS ?= 10
SOAK_SECONDS ?= 600
CARGO ?= cargo
BIN = $(or $(CARGO_TARGET_DIR),target)/release/wirepool
SIM = $(BIN)-sim
# Each stage prints its time of day, so that the log shows where the time went.
say = @echo "== $(1) ($$(date +%H:%M:%S))"

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## serve a volume of a mirrored pool on loopback, compare it with a local one and a file (KEEP=1 keeps serving)
	@xtask/install.sh build
	$(call say,build the release binary)
	$(CARGO) build --release --locked -p wirepool
	$(call say,demo)
	$(BIN) demo $(if $(filter-out 0,$(KEEP)),--keep)

test: ## all checks and tests, also with a stock Linux kernel as client; ends with the runner's summary
	@xtask/install.sh build check fuzz vm test posix deb
	@$(MAKE) --no-print-directory check
	$(call say,fuzz targets: up to $(FUZZ_SECONDS) s each)
	xtask/fuzz.sh $(FUZZ_SECONDS)
	$(call say,the guest's image)
	$(CARGO) xtask vm --image
	$(call say,tests: quick ones then simulation then a stock Linux kernel)
	$(CARGO) build --workspace --bins --locked
	$(CARGO) nextest run --workspace --locked

quick: ## the checks and the quick half of the tests: no guests, no fuzz targets, no new seeds
	@xtask/install.sh build check test
	@$(MAKE) --no-print-directory check
	$(CARGO) build --workspace --bins --locked
	$(CARGO) nextest run --workspace --locked --profile quick

check: ## formatting, clippy, links in comments, licences and sources, house rules
	@xtask/install.sh build check
	$(call say,formatting)
	$(CARGO) fmt --all --check
	$(call say,house rules)
	$(CARGO) xtask tidy
	$(call say,licences and sources)
	$(CARGO) deny --locked --log-level error check licenses bans sources
	$(call say,clippy)
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(call say,links in comments)
	RUSTDOCFLAGS="-D rustdoc::broken_intra_doc_links -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --document-private-items --locked --quiet

vm: ## only the tests with a stock Linux kernel as client (NAMES="connect live" for some of them)
	@xtask/install.sh build vm deb
	$(CARGO) xtask vm $(NAMES)

fuzz: ## only the fuzz targets, up to FUZZ_SECONDS each (10)
	@xtask/install.sh build fuzz
	xtask/fuzz.sh $(FUZZ_SECONDS)

bench: ## performance tables: Wirepool compared with qemu-storage-daemon, tgt, nfs-ganesha, a raw file, btrfs and ext4, in alternation
	@xtask/install.sh build bench
	$(CARGO) build --release --locked -p wirepool -p wirepool-suite
	$(BIN)-suite
	WIREPOOL_BIN=$(BIN) $(CARGO) xtask files

deb: ## a Debian package with systemd unit, man pages and completions, in target/debian
	@xtask/install.sh build deb
	$(CARGO) build --release --locked -p wirepool
	$(CARGO) xtask deb

mutants: ## break promises on purpose; the simulator must notice each within a minute
	@xtask/install.sh build
	$(CARGO) xtask mutants

soak: ## a long run: new seeds of the simulations, sequences of members, memory under load and each fuzz target for SOAK_SECONDS (600), mutants, all POSIX suites, pynfs, the guest checks three times
	@xtask/install.sh build fuzz vm posix posix-sources
	$(CARGO) build --release --locked -p wirepool-sim
	minutes=$$(awk 'BEGIN { print $(SOAK_SECONDS) / 60 }'); \
	$(SIM) --scenario pool --minutes $$minutes & pool=$$!; \
	$(SIM) --minutes $$minutes; all=$$?; \
	wait $$pool && [ $$all = 0 ] && $(SIM) --members 6 --minutes $$minutes
	WIREPOOL_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --release --locked -p wirepool --test server -- --nocapture memory::
	$(CARGO) xtask mutants
	xtask/fuzz.sh $(SOAK_SECONDS)
	$(CARGO) xtask posix
	@if [ -n "$$WIREPOOL_PYNFS" ]; then $(CARGO) xtask pynfs; else echo "SKIPPED: WIREPOOL_PYNFS is not set: pynfs has not judged the NFS service"; fi
	for round in 1 2 3; do WIREPOOL_VM_WHOLE=1 $(CARGO) xtask vm || exit 1; done

clean: ## remove target/ with the guest's image
	$(CARGO) clean
