# Every target sets up what it needs (Debian packages, libtorch) and repeats cheaply. Nothing has to be exported.
#
#   MULTICARD_TORCH=DIR   use the PyTorch in DIR (.../site-packages/torch or an unpacked libtorch); .ci/torch-version says which
#   MULTICARD_DALI=DIR    use the NVIDIA DALI in DIR (.../site-packages/nvidia) instead of downloading it; .ci/dali-version says which
#   SESSION=DIR           where `make run` keeps its session
#   PREFIX=DIR            where `make install` puts the program (/usr/local); DESTDIR goes before it

BUILT := $(or $(CARGO_TARGET_DIR),target)
DATA := $(or $(XDG_DATA_HOME),$(HOME)/.local/share)
SESSION := $(DATA)/multicard/sessions/quickstart
PREFIX := /usr/local

# The libtorch of the set-up is the one that is linked, whatever the shell says of others.
unexport LIBTORCH LIBTORCH_INCLUDE LIBTORCH_LIB LIBTORCH_CXX11_ABI LIBTORCH_STATIC LIBTORCH_USE_PYTORCH
unexport LIBTORCH_BYPASS_VERSION_CHECK

# The workbench and the worker, in one call, so that what both use is compiled once.
ALL := --workspace
# With the tests that start the worker.
TESTS := $(ALL) --features torch
# OpenMP's threads sleep at barriers, unless the user decides: where they spin, ranks on a busy machine take each other's processors,
# and may wait for each other until they give up.
PATIENT = OMP_WAIT_POLICY=$${OMP_WAIT_POLICY:-PASSIVE}
# The same for runs on CPUs; runs on GPUs are left as they are.
PATIENT_ON_CPUS = $(if $(wildcard /dev/nvidia[0-9]*),,$(PATIENT))
# The CUDA part of the shim is built wherever its headers lie beside the linked libtorch.
CUDA_PART = $(if $(wildcard target/libtorch/../nvidia/cu13/include/crt/.),MULTICARD_BUILD_CUDA=1)
TORCH_CARGO = $(CUDA_PART) cargo
# Recorded with each run.
COMMIT = $(addprefix MULTICARD_BUILD=,$(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null))

.DEFAULT_GOAL := help
.PHONY: run quick window test test-gpu lint build build-cuda install uninstall package nightly fuzz mutants bench clean help packages test-packages libtorch dali readers

help: ## say what each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-11s %s\n", $$1, $$2 }'

run: quick ## build, run sessions/quickstart.toml (what it has done already is kept), print its table, write a figure, open the window
	$(PATIENT_ON_CPUS) $(BUILT)/quick/multicard run sessions/quickstart.toml --session "$(SESSION)" --resume
	$(BUILT)/quick/multicard table "$(SESSION)" --preset times
	$(BUILT)/quick/multicard figure "$(SESSION)" --preset times --out "$(SESSION).svg"
	@echo "next: $(BUILT)/quick/multicard figure \"$(SESSION)\" --preset loss --out loss.svg"
	@echo "      $(BUILT)/quick/multicard plan sessions/precision-layout-pin.toml    (what a study of a paper takes here)"
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then \
		$(BUILT)/quick/multicard --session "$(SESSION)" || echo "the runs and the table above are kept all the same"; \
	else \
		echo "no display here; where there is one: $(BUILT)/quick/multicard --session \"$(SESSION)\""; \
	fi

window: quick ## build and open the window
	$(BUILT)/quick/multicard

test: test-packages ## run every test: library, window, both programs, end to end
	@.ci/beside '.ci/libtorch && .ci/dali > /dev/null && .ci/from-pypi readers > /dev/null' 'cargo test --features torch --no-run'
	$(PATIENT) $(TORCH_CARGO) test $(TESTS)

test-gpu: libtorch dali ## run the tests that need NVIDIA GPUs, as far as this machine has them
	@$(CUDA_PART) .ci/test-gpu

lint: libtorch ## check form, lints, scripts and dependencies, with and without the window
	.ci/scripts
	cargo fmt --check
	$(TORCH_CARGO) clippy --all-targets $(TESTS) -- -D warnings
	$(TORCH_CARGO) clippy --no-default-features $(ALL) -- -D warnings
	.ci/audit

quick: packages # both programs in a fraction of the time, at nearly the speed of a release
	@.ci/beside .ci/libtorch '$(COMMIT) cargo build --profile quick'
	$(COMMIT) $(TORCH_CARGO) build --profile quick $(ALL)

build: packages ## build both programs for packages and measurements; they know their git commit
	@.ci/beside .ci/libtorch '$(COMMIT) cargo build --release'
	$(COMMIT) $(TORCH_CARGO) build --release $(ALL)

build-cuda: packages ## build both programs and the CUDA part of the worker; needs neither GPU nor driver
	@.ci/libtorch --cuda
	$(COMMIT) MULTICARD_BUILD_CUDA=1 cargo build --release $(ALL)

install: ## install what `make build` built: make install PREFIX=$$HOME/.local
	@BUILT="$(BUILT)/release" DESTDIR="$(DESTDIR)" .ci/install "$(PREFIX)"

uninstall: ## take it away again
	@DESTDIR="$(DESTDIR)" .ci/install --remove "$(PREFIX)"

package: ## make a .deb and a tar.gz of what `make build` or `make build-cuda` built, in target/packages
	@BUILT="$(BUILT)/release" .ci/package

nightly: ## what is too long for `make test`: fuzzing, kills, a soak, windows at random, clean roots, benchmarks
	@.ci/nightly

fuzz: packages ## change inputs of every parser for FUZZ_S seconds each (20), then whole sessions and reports, optimised
	MULTICARD_FUZZ_S=$(or $(FUZZ_S),20) cargo test --profile fuzz --test fuzz --test trace_fuzz -- --ignored --nocapture --test-threads 1

mutants: libtorch ## change the library in MUTANTS places (200), picked by SEED (1), and say which changes no library test notices
	@# Two of the library's tests start the programs.
	$(TORCH_CARGO) build --quiet $(ALL)
	@.ci/mutants

bench: libtorch ## run the benchmarks
	$(TORCH_CARGO) bench $(ALL)

dali: packages ## fetch NVIDIA DALI (230 MB, once, into the user's cache): loader = dali
	@.ci/dali > /dev/null

readers: packages # pandas and DuckDB, which read exported tables back, once into the user's cache
	@.ci/from-pypi readers > /dev/null

clean: ## remove what was built; downloads and sessions stay
	cargo clean

packages: # Debian packages that are missing
	@.ci/packages

test-packages: packages # and those that only tests need
	@.ci/packages --test

libtorch: packages # target/libtorch, downloaded once into the user's cache
	@.ci/libtorch
