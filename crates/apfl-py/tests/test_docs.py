"""What the documents show is what happens; types are what the stubs say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import ROOT, table

PACKAGE = Path(__file__).resolve().parents[1]


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)


def run(code: str, where: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + "\n" + code
    return done.stdout


def test_the_readmes_python_block(tmp_path):
    shown = blocks(ROOT / "README.md")
    assert len(shown) == 1
    table().rename(columns={}).to_csv(tmp_path / "my.csv", index=False)
    run(shown[0], tmp_path)


def test_the_guides_blocks_one_after_the_other(tmp_path):
    shown = blocks(ROOT / "docs" / "PYTHON.md")
    assert len(shown) > 5
    table().to_csv(tmp_path / "my.csv", index=False)
    run("\n".join(shown), tmp_path)


def test_the_notebook(tmp_path):
    notebook = nbformat.read(ROOT / "examples" / "heart.ipynb", as_version=4)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}})
    client.execute()
    shown = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert len(shown) >= 3


def test_types():
    words = [sys.executable, "-m", "mypy", "--no-error-summary"]
    done = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_is_what_the_module_has():
    words = [sys.executable, "-m", "mypy.stubtest", "apfl._apfl"]
    done = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Model", "Records", "Run", "load", "train", "RunError", "SpecError"])
def test_everything_is_documented(name):
    import apfl

    thing = getattr(apfl, name)
    assert thing.__doc__
    for member in vars(thing) if isinstance(thing, type) else []:
        if not member.startswith("_") and callable(getattr(thing, member)):
            assert getattr(thing, member).__doc__, member
