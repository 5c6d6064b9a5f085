"""The wheel: it builds, is small, and works where there is nothing of the repository."""

import os
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMOKE = """
import sys, candi
assert candi.__file__.startswith(sys.argv[1]), candi.__file__
from candi.cli import main
main(["--version"])
main(["models"])
main(["sample", "text8", "--length", "16", "--steps", "2", "--prompt", "the "])
main(["sample", "qm9", "--n", "2", "--steps", "2"])
try:
    import candi_lab
except ImportError:
    print("no lab")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """From a copy of what it is made of, so that nothing of an earlier build is in it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.glob("*.whl")
    return made


def test_it_is_the_library_alone_and_small(wheel):
    assert wheel.stat().st_size <= 20e6
    names = zipfile.ZipFile(wheel).namelist()
    rooms = {name.split("/")[1] for name in names if name.startswith("candi/") and name.count("/") > 1}
    assert rooms == {"base", "diffusion", "nets", "data", "model", "training", "evaluation", "hub", "views", "demo",
                     "cli", "models", "presets"}  # fmt: skip
    assert not [name for name in names if name.startswith(("candi_lab", "tests", "lab"))]


def test_it_samples_by_name_where_there_is_no_repository(wheel, tmp_path):
    """Unpacked into an empty folder; of this environment only the other packages are seen, not what is installed in it
    in place: path files are read from a folder that is a site, and here it is none."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    packages = next(path for path in site.getsitepackages() if Path(path).is_dir())
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CANDI"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "installed"), packages])
    python = Path(sys.base_prefix) / "bin" / "python3"
    done = subprocess.run([python, "-c", SMOKE, str(tmp_path / "installed")], capture_output=True, text=True,
                          cwd=tmp_path, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the " in done.stdout
    assert done.stdout.rstrip().endswith("no lab")
