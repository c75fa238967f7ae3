# make test       build the package in .venv and run all tests
# make lint       formatting, style and types
# make format     format all sources
# make build      build the package alone
# make demo       train, export and optimize a DeepFM, and show accuracy and latency (DATA=criteo.csv for a real file)
# make versions   run an optimized model on several versions of ONNX Runtime
# make sanitize   run the CPU kernels' tests with gcc's checks of memory and of undefined behaviour
# make clean      remove what was built; .venv stays
#
# A machine needs Python 3.11 with its headers and venv, gcc, g++ and make. docs/building.md says more.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n auto
# Where nvcc is, a development build compiles CUDA for one architecture; an ordinary install compiles for all.
export CMAKE_ARGS ?= -DDPIFRAME_CUDA_ARCHITECTURES=90

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TOOLS_STAMP := $(VENV)/.tools-installed
BUILD_STAMP := $(VENV)/.package-built

NATIVE := CMakeLists.txt $(shell find custom_ops -name CMakeLists.txt -o -name '*.cmake' -o -name '*.map' \
	-o -name '*.h' -o -name '*.cc' -o -name '*.cuh' -o -name '*.cu')
CXX_SOURCES := $(filter %.h %.cc %.cuh %.cu,$(NATIVE))

.PHONY: test demo lint format build versions sanitize clean FORCE

build: $(BUILD_STAMP)

test: $(BUILD_STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

demo: $(BUILD_STAMP)
	$(BIN)/python -m dpiframe.models.demo $(DATA)

lint: $(BUILD_STAMP) build/typed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)
	MYPYPATH=build/typed $(BIN)/mypy

format: $(BUILD_STAMP)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_SOURCES)

versions: $(BUILD_STAMP)
	$(BIN)/python tests/versions.py

sanitize: $(BUILD_STAMP)
	tests/sanitize.sh $(BIN)/python $(PYTEST_ARGS)

clean:
	rm -rf build dist

$(TOOLS_STAMP): requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --requirement requirements-dev.txt
	touch $@

# Python sources are used from where they are; only native ones need a new build.
$(BUILD_STAMP): $(TOOLS_STAMP) pyproject.toml $(NATIVE)
	$(PIP) install --no-build-isolation --editable '.[cpu,export,test,lint]'
	touch $@

# The package as it is installed, for mypy: the top-level folders in their places below dpiframe.
build/typed: FORCE
	rm -rf $@
	mkdir -p $@/dpiframe
	ln -s ../../../custom_ops ../../../export ../../../graph_passes ../../../models $@/dpiframe/
	ln -s $(addprefix ../../../,$(wildcard dpiframe/*.py)) $@/dpiframe/
