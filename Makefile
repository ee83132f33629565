# Start with `make digits` or `make test`. Everything is installed into .venv and target/.

PYTHON ?= python3
BIN := .venv/bin
export VIRTUAL_ENV := $(CURDIR)/.venv

# A checkout of data-apis/array-api-tests, with its submodule.
SUITE ?= ../array-api-tests

.PHONY: help digits test check build tools format generate wheel standard softcuda test-cuda
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

digits: build ## install rushlight and train on real handwritten digits with two processes
	$(BIN)/python examples/hogwild_digits.py

test: build $(BIN)/pytest ## install rushlight and run the Rust and Python tests
	.ci/test-rust
	.ci/test-python

check: ## everything that CI checks, cheapest first
	.ci/run

build: $(BIN)/maturin ## compile the engine for development and install it into .venv
	PIP_QUIET=1 $(BIN)/maturin develop --quiet

tools: $(BIN)/pytest ## install the checkers into .venv

format: $(BIN)/pytest ## format Rust and Python
	cargo fmt --all
	$(BIN)/ruff format
	$(BIN)/ruff check --fix-only --quiet

generate: ## write the stubs and reference pages from the operator table
	cargo dev generate

softcuda: ## build the card made of software, for tests, into target/softcuda
	cargo build --quiet --locked --package rushlight-softcuda
	mkdir -p target/softcuda
	rm -rf target/softcuda/headers-*
	# A new file in the place of the old one, which programs may be using.
	cp target/debug/libsoftcuda.so target/softcuda/libcuda.so.1.new
	mv -f target/softcuda/libcuda.so.1.new target/softcuda/libcuda.so.1
	ln -sf libcuda.so.1 target/softcuda/libnvrtc.so.13
	ln -sf libcuda.so.1 target/softcuda/libcublasLt.so.13
	ln -sf libcuda.so.1 target/softcuda/libcudnn.so.9
	ln -sf libcuda.so.1 target/softcuda/libcublas.so.13
	ln -sf libcuda.so.1 target/softcuda/libcufft.so.12
	ln -sf libcuda.so.1 target/softcuda/libcusolver.so.12
	ln -sf libcuda.so.1 target/softcuda/libnccl.so.2
	ln -sf libcuda.so.1 target/softcuda/libnvidia-ml.so.1

test-cuda: build softcuda $(BIN)/pytest ## run the tests of GPUs on the card made of software
	LD_LIBRARY_PATH=target/softcuda RUSHLIGHT_KERNEL_CACHE=target/softcuda/kernels \
		$(BIN)/python -m pytest tests/cuda --thorough

wheel: $(BIN)/pytest ## build the wheel for Linux with glibc 2.28 or later, into dist/
	PATH="$(CURDIR)/$(BIN):$$PATH" maturin build --zig --compatibility manylinux_2_28 --out dist

standard: build ## run the public test suite of the Python array API standard, from a checkout in SUITE
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $(SUITE)/requirements.txt
	cd $(SUITE) && ARRAY_API_TESTS_MODULE=rushlight.array_api ARRAY_API_TESTS_SKIP_DTYPES=uint16,uint32,uint64 \
		$(CURDIR)/$(BIN)/python -m pytest array_api_tests --rootdir . -q -rfEX --disable-deadline \
		--xfails-file $(CURDIR)/tests/array_api_skips.txt

$(BIN)/maturin:
	@$(PYTHON) -c 'import sys; sys.exit("rushlight needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "this Python cannot create virtual environments; on Debian: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.16,<2'

# pyproject.toml lists the tools.
$(BIN)/pytest: $(BIN)/maturin pyproject.toml
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['dev'], sep='\n')" > .venv/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement .venv/dev.txt
	@touch $@
