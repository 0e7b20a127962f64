"""deploy/check_layers.py finds what it is there to find. That the project keeps to its layers is a test of ctest."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "deploy" / "check_layers.py"

CLEAN = {
    "CMakeLists.txt": (
        "foreach(folder compiler/support compiler/ir compiler/reference kernels/library server client)\nendforeach()"
    ),
    "compiler/support/CMakeLists.txt": "preheat_layer(support PUBLIC_LIBS absl::status)",
    "compiler/support/error.h": "#include <string>\n",
    "compiler/ir/CMakeLists.txt": "# of nodes\npreheat_layer(ir DEPS support  # and no more\n  TEST_DEPS reference)",
    "compiler/ir/graph.h": '#include "compiler/support/error.h"\n',
    "compiler/ir/graph.cc": '#include "compiler/ir/graph.h"\n',
    "compiler/ir/graph_test.cc": '#include "compiler/reference/run.h"\n',
    "compiler/reference/CMakeLists.txt": (
        "preheat_layer(reference DEPS support)\ntarget_link_libraries(preheat_reference PUBLIC $<LINK_ONLY:preheat_ir>)"
    ),
    "compiler/reference/run.h": '#include "compiler/ir/graph.h"\n',
    "compiler/reference/run.cc": "#include <torch/torch.h>\n",
    "kernels/library/CMakeLists.txt": "add_library(preheat_onednn SHARED plugin.cc)\npreheat_headers(support)",
    "kernels/library/call.h": '#include "compiler/support/error.h"\n',
    "kernels/library/plugin.cc": "#include <oneapi/dnnl/dnnl.hpp>\n",
    "server/CMakeLists.txt": "preheat_layer(server DEPS support)\npreheat_program(preheatd DEPS server)",
    "client/CMakeLists.txt": "preheat_layer(client DEPS support)",
}


def run_check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(CHECK), str(root)], capture_output=True, text=True)


def write_tree(root: Path, changes: dict[str, str]) -> None:
    for name, text in (CLEAN | changes).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_clean_tree_passes(tmp_path: Path) -> None:
    write_tree(tmp_path, {})
    result = run_check(tmp_path)
    assert result.returncode == 0, result.stdout


BREACHES = {
    "include that no link allows": (
        {"compiler/support/error.cc": '\n#include "compiler/ir/graph.h"\n'},
        "compiler/support/error.cc:2: includes compiler/ir/graph.h of layer compiler/ir",
    ),
    "a link list may not be reached through another": (
        {"client/main.cc": '#include "compiler/ir/graph.h"\n'},
        "client/main.cc:1: includes compiler/ir/graph.h",
    ),
    "test links are for tests": (
        {"compiler/ir/graph.cc": '#include "compiler/reference/run.h"\n'},
        "compiler/ir/graph.cc:1: includes compiler/reference/run.h",
    ),
    "link upward": (
        {"compiler/support/CMakeLists.txt": "\npreheat_layer(support\n  DEPS ir)"},
        "compiler/support/CMakeLists.txt:2: links ir (compiler/ir), which stands above compiler/support",
    ),
    "link upward by hand": (
        {"compiler/support/CMakeLists.txt": "preheat_layer(support)\ntarget_link_libraries(mine preheat_ir)"},
        "compiler/support/CMakeLists.txt:2: links ir",
    ),
    "client sees server": (
        {"client/CMakeLists.txt": "preheat_layer(client DEPS server)"},
        "client must never lean on server",
    ),
    "torch elsewhere": (
        {"compiler/ir/graph.cc": '#include "compiler/ir/graph.h"\n#include <ATen/ATen.h>\n'},
        "compiler/ir/graph.cc: reaches ATen/ATen.h (at compiler/ir/graph.cc:2): torch headers belong to",
    ),
    "torch reached through a header": (
        {
            "compiler/reference/run.h": "#include <torch/torch.h>\n",
            "compiler/ir/graph_test.cc": '#include "compiler/reference/run.h"\n',
        },
        "compiler/ir/graph_test.cc: reaches torch/torch.h (at compiler/reference/run.h:1)",
    ),
    "torch with Protobuf": (
        {"compiler/reference/run.cc": '#include "proto/preheat/v1/program.pb.h"\n#include <torch/torch.h>\n'},
        "meet in one source",
    ),
    "Protobuf in the runtime": (
        {"kernels/library/plugin.cc": '#include "proto/preheat/v1/program.pb.h"\n'},
        "the runtime runs without gRPC and Protobuf",
    ),
    "gRPC in the runtime": (
        {"kernels/library/plugin.cc": "#include <grpcpp/grpcpp.h>\n"},
        "the runtime runs without gRPC and Protobuf",
    ),
    "oneDNN elsewhere": (
        {"server/main.cc": "#  include <dnnl.hpp>\n"},
        "oneDNN is met in kernels/library only",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_breach_is_found(name: str, tmp_path: Path) -> None:
    changes, message = BREACHES[name]
    write_tree(tmp_path, changes)
    result = run_check(tmp_path)
    assert result.returncode == 1
    assert message in result.stdout


def test_empty_folder_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("")
    assert run_check(tmp_path).returncode == 1
