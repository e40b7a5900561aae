# Forebay's commands. `make up` and `make test` are the two that matter; see README.md.
SHELL := /bin/bash
PY := .venv/bin/python
MODEL ?= .models/smollm2
PORT ?= 8000
ARGS ?=

.PHONY: up down models run check test test-clients sanitize bench crds venv lock

up:             ## a Kubernetes, the images, the chart, a served model, one answer
	python3 e2e/cluster/up.py

down:           ## leaves nothing behind
	python3 e2e/cluster/down.py

venv: .venv/.ready
KERNELS := runtime/build_kernels.py $(wildcard runtime/src/forebay_runtime/kernels/cpu/*.h runtime/src/forebay_runtime/kernels/cpu/*.cpp)
.venv/.ready: requirements/dev.lock operator/pyproject.toml runtime/pyproject.toml $(KERNELS)
	python3 -m pip --version >/dev/null && (command -v uv >/dev/null || python3 -m pip install --quiet --root-user-action=ignore uv)
	[ -x $(PY) ] || uv venv --quiet --python 3.11 .venv
	uv pip sync --quiet --compile-bytecode --require-hashes --python $(PY) requirements/dev.lock
	uv pip install --quiet --python $(PY) --no-deps --no-build-isolation -e operator -e runtime
	touch $@

models: venv    ## the two sample models under .models/
	$(PY) e2e/models.py

run: models     ## the runtime alone on 127.0.0.1, no Kubernetes
	.venv/bin/forebay-runtime serve $(MODEL) --host 127.0.0.1 --port $(PORT) $(ARGS)

crds: venv      ## crds/ from the pydantic models
	.venv/bin/forebay crds > crds/inferenceservices.yaml
	cp crds/inferenceservices.yaml helm/forebay/files/

check: venv     ## everything that needs no cluster
	$(PY) -m tests.gate check

test: venv models  ## everything
	$(PY) -m tests.gate test

SANITIZED := .state/sanitized
sanitize: venv  ## the tests of the native kernels with every access checked (ASan, UBSan)
	$(PY) runtime/build_kernels.py $(SANITIZED) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	FOREBAY_TEST_KERNELS=$(SANITIZED) $(PY) -m pytest -q --timeout 600 \
	tests/runtime/kernels/test_native.py tests/runtime/equalities/test_native.py tests/runtime/equalities/test_adapters.py tests/runtime/models/test_logits.py

test-clients: venv models ## real clients of other makers against the runtime, in environments of their own
	$(PY) -m tests.clients

bench: venv models ## beside llama.cpp and others, in one run: about an hour; `$(PY) -m bench --help` for a part of it
	$(PY) -m bench --output bench/results/cpu.json

lock:           ## renews requirements/*.lock
	for t in operator runtime; do uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet $$t/pyproject.toml -o requirements/$$t.lock; done
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet requirements/build.in -o requirements/build.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet requirements/dev.in operator/pyproject.toml runtime/pyproject.toml -o requirements/dev.lock
