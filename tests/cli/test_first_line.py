"""Every command says something at once: before PyTorch, which takes seconds, is imported."""

import json
import subprocess
import sys

from candi_lab.cli import PROGRAM as LAB

from candi.cli import PROGRAM

# ends where torch would be imported, and tells what each command has written until then
SCRIPT = """
import contextlib, io, json, sys

class Ends:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise SystemExit("torch")

sys.meta_path.insert(0, Ends())
from candi.cli import PROGRAM
from candi_lab.cli import PROGRAM as LAB

def written(program, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            program.main(arguments)
            code = 0
        except SystemExit as error:
            code = error.code
    return code, out.getvalue(), err.getvalue()

commands = {f"{p.name} {name}": written(p, name, "--json") for p in (PROGRAM, LAB) for name in p.commands}
others = [written(PROGRAM, *words.split()) for words in ("--version", "--help", "trian", "train --help")]
plugin = written(PROGRAM, "--plugin", sys.argv[1], "train")
print(json.dumps([commands, others, plugin]))
"""

NAMES = """
import sys
import candi
assert "torch" not in sys.modules
candi.Model, candi.data  # a name, and a room
assert "torch" in sys.modules and "lightning" not in sys.modules
candi.fit
assert {"CANDI", "fit", "__version__"} <= set(dir(candi))
from candi import *
sample
candi.nothing
"""


def test_every_command_speaks_before_it_loads_pytorch(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text("import torch\n")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(plugin)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    commands, others, with_plugin = json.loads(done.stdout)
    names = [f"{program.name} {name}" for program in (PROGRAM, LAB) for name in program.commands]
    assert list(commands) == names
    for name, (_, out, err) in commands.items():
        assert (out, err.split("\n")[0]) == ("", f"{name}: loading PyTorch ...")
    assert with_plugin == ["torch", "", "candi train: loading PyTorch ...\n"]
    version, about, mistake, options = others
    assert version[0] == about[0] == 0
    assert (version[2], about[2]) == ("", "")
    assert mistake[2] == "candi: There is no command 'trian'; did you mean 'train'?\n"
    assert options[2] == ""


def test_names_of_the_package_are_there_when_they_are_asked_for():
    done = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True)
    assert done.stderr.endswith("has no attribute 'nothing'\n")
