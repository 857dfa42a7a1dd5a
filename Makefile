# Every target sets up what it needs (Debian packages, libtorch) and repeats cheaply. Nothing has to be exported.
#
#   MULTICARD_TORCH=DIR   use the PyTorch in DIR (.../site-packages/torch or an unpacked libtorch); .ci/torch-version says which
#   MULTICARD_DALI=DIR    use the NVIDIA DALI in DIR (.../site-packages/nvidia) instead of downloading it; .ci/dali-version says which
#   SESSION=DIR           where `make run` keeps its session

BUILT := $(or $(CARGO_TARGET_DIR),target)
DATA := $(or $(XDG_DATA_HOME),$(HOME)/.local/share)
SESSION := $(DATA)/multicard/sessions/quickstart

# The libtorch of the set-up is the one that is linked, whatever the shell says of others.
unexport LIBTORCH LIBTORCH_INCLUDE LIBTORCH_LIB LIBTORCH_CXX11_ABI LIBTORCH_STATIC LIBTORCH_USE_PYTORCH
unexport LIBTORCH_BYPASS_VERSION_CHECK

# The CUDA part of the shim is built wherever its headers lie beside the linked libtorch.
CUDA_PART = $(if $(wildcard target/libtorch/../nvidia/cu13/include/crt/.),MULTICARD_BUILD_CUDA=1)
TORCH_CARGO = $(CUDA_PART) cargo
# Recorded with each run.
COMMIT = $(addprefix MULTICARD_BUILD=,$(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null))

.DEFAULT_GOAL := help
.PHONY: run window test test-gpu lint build build-cuda fuzz mutants bench clean help packages test-packages libtorch dali readers

help: ## say what each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-11s %s\n", $$1, $$2 }'

run: build ## build, run sessions/quickstart.toml (what it has done already is kept), print its table, write a figure, open the window
	$(BUILT)/release/multicard run sessions/quickstart.toml --session "$(SESSION)" --resume
	$(BUILT)/release/multicard table "$(SESSION)" --preset times
	$(BUILT)/release/multicard figure "$(SESSION)" --preset times --out "$(SESSION).svg"
	@echo "next: $(BUILT)/release/multicard figure \"$(SESSION)\" --preset loss --out loss.svg"
	@echo "      $(BUILT)/release/multicard plan sessions/precision-layout-pin.toml    (what a study of a paper takes here)"
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then \
		$(BUILT)/release/multicard --session "$(SESSION)" || echo "the runs and the table above are kept all the same"; \
	else \
		echo "no display here; where there is one: $(BUILT)/release/multicard --session \"$(SESSION)\""; \
	fi

window: build ## build and open the window
	$(BUILT)/release/multicard

test: libtorch dali readers test-packages ## run every test: library, window, both binaries, end to end
	$(TORCH_CARGO) test --features torch

test-gpu: libtorch dali ## run the tests that need NVIDIA GPUs, as far as this machine has them
	@$(CUDA_PART) .ci/test-gpu

lint: libtorch ## check form, lints and dependencies, with and without the window
	cargo fmt --check
	$(TORCH_CARGO) clippy --all-targets --features torch -- -D warnings
	$(TORCH_CARGO) clippy --no-default-features --features torch -- -D warnings
	.ci/audit

build: libtorch ## build both binaries, optimised; they know their git commit
	$(COMMIT) $(TORCH_CARGO) build --release --features torch

build-cuda: packages ## build both binaries and the CUDA part of the worker; needs neither GPU nor driver
	@.ci/libtorch --cuda
	$(COMMIT) MULTICARD_BUILD_CUDA=1 cargo build --release --features torch

fuzz: packages ## change inputs of every parser for FUZZ_S seconds each (20), then whole sessions and reports, optimised
	MULTICARD_FUZZ_S=$(or $(FUZZ_S),20) cargo test --profile fuzz --test fuzz --test trace_fuzz -- --ignored --nocapture --test-threads 1

mutants: packages ## change the library in MUTANTS places (200), picked by SEED (1), and say which changes no library test notices
	@.ci/mutants

bench: libtorch ## run the benchmarks
	$(TORCH_CARGO) bench --features torch

dali: packages ## fetch NVIDIA DALI (230 MB, once, into the user's cache): loader = dali
	@.ci/dali > /dev/null

readers: packages # pandas and DuckDB, which read exported tables back, once into the user's cache
	@.ci/readers > /dev/null

clean: ## remove what was built; downloads and sessions stay
	cargo clean

packages: # Debian packages that are missing
	@.ci/packages

test-packages: packages # and those that only tests need
	@.ci/packages --test

libtorch: packages # target/libtorch, downloaded once into the user's cache
	@.ci/libtorch
