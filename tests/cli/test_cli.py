"""The command as a person types it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from candi.cli import PROGRAM, main
from candi.cli.parsing import parse, parser
from candi.cli.sampling_flags import add_sampling
from candi.cli.train import presets, settings
from candi.diffusion.methods import METHODS
from candi.training.fit import prepare
from tests.training.runs import flags, train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache) -> Path:
    out = tmp_path_factory.mktemp("cli") / "run"
    train_here(out, steps=20)
    return out


def _refused(capsys, *arguments: object) -> str:
    """One sentence on standard error, nothing on standard output, exit code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (exit.value.code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("candi: ")
    return err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("trian", "no command 'trian'; did you mean 'train'?"),
        ("train --data pydoc --out X --stesp 5", "no option --stesp; did you mean --steps?"),
        ("train --data pydoc --out X --model.widht 5", "did you mean --model.width?"),
        ("train --preset dmeo --out X", "no preset 'dmeo'; did you mean 'demo'?"),
        ("train --preset", "no preset ''"),
        ("train --data pydoc --out X --method cnadi", "no method 'cnadi'; did you mean 'candi'?"),
        ("train --data pydoc --out X --steps many", '"steps": Expected a value of type int'),
        ("train --data pydoc --out X --steps 0", "--steps must be at least 1, not 0"),
        ("train --data pydoc --out X --candi.space nowhere", "Expected one of 'auto', 'onehot'"),
        ("train --data pydoc --out X --candi.rank_max 0.6", "rank range 0.05 to 0.6"),
        ("train --data pydoc --out X --method mdlm --candi.rank_max 0.3", "has no effect with --method mdlm"),
        ("train --data pydoc --out X --model.width 30", "cannot be divided into 4 heads"),
        ("train --data nothing.txt --out X", "no file or folder 'nothing.txt'"),
        ("train --data pydoc --out X --tokenizer bpe:ten", "has no size"),
        ("train --data pydoc --out X --valid nothing.txt", "no file or folder 'nothing.txt'"),
        ("train --data pydoc --out X --batch-size 6 --devices 4 --device cpu", "cannot be shared by 4 devices"),
        ("train --data pydoc --out X --device cuda", "no cuda device"),
        ("train --data pydoc", "required"),
        ("train --config nothing.yaml", "nothing.yaml"),
        ("sample nothing", "no run or checkpoint at 'nothing'"),
        ("sample .", "neither a run nor a checkpoint"),
        ("sample", "required"),
        ("sample RUN --steps 0", "at least 1 step"),
        ("sample RUN --temperature 0", "temperature must be above 0"),
        ("sample RUN --temperature -1", "temperature must be above 0"),
        ("sample RUN --solver eular", "no solver 'eular'; did you mean 'euler'?"),
        ("sample RUN --inference exactly", "did you mean 'exact'?"),
        ("sample RUN --prompt 日本", "no '日', '本'"),
        ("sample RUN --prompt aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "prompt has 29 tokens but the sequence only 16"),
        ("sample RUN --n nine", '"n": Expected a value of type int'),
        ("sample RUN --watch --json", "cannot go together"),
        ("sample RUN --watch --n 0", "At least 1 sample"),
        ("sample RUN --top_k 0", "top_k must be at least 1"),
        ("sample RUN --top_p 2", "top_p must be in"),
        ("sample RUN --sampler greedy", "no sampling option 'sampler'; it takes: solver, inference, order"),
        ("sample hf:not//valid", "cannot be fetched from the hub"),
        ("evaluate RUN --data pydoc --sequences 0", "at least 1 sequence"),
        ("evaluate RUN --data nothing.txt", "no file or folder 'nothing.txt'"),
        ("evaluate RUN", "Say what to evaluate"),
        ("train --data pydoc --out X --seed 99999999999999999999999", "below 2^63"),
        ("train --data pydoc --out X --tokenizer bpe:99999999999", "more than any text fills"),
        ("train --data pydoc --out X --method duo --duo.log_snr_max -5 --duo.log_snr_min 5", "noise range"),
        ("train --data  --out X", "no file or folder ''"),
        ("train --plugin nothing.py", "no plugin file 'nothing.py'"),
        ("sample RUN --device quantum", "quantum"),
        ("sample RUN --cfg-weight 2", "needs a --label"),
        ("train --data pydoc --out X --trunk nothing", "no trunk 'nothing'"),
        ("train --data pydoc --out X --trunk no.such:Trunk", "cannot be imported (ModuleNotFoundError"),
        ("train --data pydoc --out X --trunk json:dumps", "is no trunk"),
        ("analyse schedule RUN", "is now candi schedule"),
        ("reproduce text8", "candi-lab reproduce"),
    ],
)
def test_mistakes_are_one_sentence(capsys, tmp_path, monkeypatch, run, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in _refused(capsys, *(str(run) if word == "RUN" else word for word in arguments.split(" ")))
    assert list(tmp_path.iterdir()) == [], "a mistake wrote something"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("steps: [1]", '"steps": Expected a value of type int'),
        ("stesp: 1", "no option 'stesp'; did you mean --steps?"),
        ("model: {width: wide}", "width"),
        ("model: 3", "model"),
        ("preset: tiny", "command line"),
        ("a: [1", "config"),
    ],
)
def test_mistakes_in_a_file_are_one_sentence_too(capsys, tmp_path, content, complaint):
    (tmp_path / "run.yaml").write_text(content)
    arguments = ("train", "--config", tmp_path / "run.yaml", "--data", "pydoc", "--out", tmp_path / "out")
    assert complaint in _refused(capsys, *arguments)
    assert not (tmp_path / "out").exists()


def test_a_plugin_that_fails_is_one_sentence(capsys, tmp_path):
    (tmp_path / "broken.py").write_text("def broken(:\n")
    assert "The plugin" in _refused(capsys, "train", "--plugin", tmp_path / "broken.py", "--data", "pydoc")


@pytest.mark.parametrize("spelling", ["--batch-size 3 --candi.rank-max=0.3", "--batch_size 3 --candi.rank_max=0.3"])
def test_hyphens_and_underscores_mean_the_same(spelling):
    given = settings(["--preset", "tiny", "--data", "pydoc", "--out", "x", *spelling.split()])
    assert (given.batch_size, given.settings.rank_max) == (3, 0.3)


def test_preset_then_file_then_flag(tmp_path):
    """The later wins."""
    (tmp_path / "run.yaml").write_text("length: 48\nmodel: {blocks: 3}\n")
    given = settings(
        ["--preset", "tiny", "--config", str(tmp_path / "run.yaml"), "--data=pydoc", "--out=x", "--model.blocks=5"]
    )
    assert (given.batch_size, given.length, given.model.blocks, given.model.width) == (8, 48, 5, 64)


@pytest.mark.parametrize("name", [name for name in presets() if name.startswith("paper")])
def test_presets_to_the_letter_take_nothing_of_ours(name):
    made = settings(["--preset", name, "--data", "x", "--out", "y"])
    assert made.model.input_scale == "one"
    assert (made.settings.precondition, made.settings.solver, made.settings.space) == ("paper", "euler", "projected")


@pytest.mark.parametrize("name", presets())
def test_presets_are_valid(name):
    assert settings(["--preset", name, "--data", "pydoc", "--out", "x"]).steps > 0


def test_the_paper_preset_is_the_paper_to_the_letter():
    given = settings(["--preset", "paper-text8", "--data", "text8", "--out", "x"])
    assert (given.length, given.batch_size, given.steps, given.learning_rate, given.warmup) == (
        1024,
        512,
        1000,
        3e-4,
        250,
    )
    assert (given.model.width, given.model.blocks, given.model.heads, given.model.dropout) == (768, 12, 12, 0.1)
    method = given.settings
    assert (method.space, method.precondition, method.bias_weight) == ("projected", "paper", 0.5)
    assert (method.rank_min, method.rank_max, method.solver) == (0.1, 0.4, "euler")


def test_help_is_readable(capsys):
    main(["--help"])
    listing = capsys.readouterr().out
    assert all(command in listing for command in PROGRAM.commands)
    for command in PROGRAM.commands:
        with pytest.raises(SystemExit) as exit:
            main([command, "--help"])
        assert exit.value.code == 0
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 120
        assert text.startswith(f"usage: candi {command} ")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert all(f"  {flag} " in text for flag in ("--preset", "--data", "--out", "--method", "--model.width", "--steps"))
    assert "Tokens in a sequence" in text
    assert "--micro-batch-size MICRO_BATCH_SIZE" in text
    assert "--micro_batch_size" not in text


def _checked(output: str) -> None:
    records = [json.loads(line) for line in output.splitlines()]
    assert len(records) == 2
    for record in records:
        assert record["text"].startswith("Py")
        assert len(record["tokens"]) == 16
        assert record["draws"] == "float64"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_samples(tmp_path, method, capfd):
    main(["train", *flags(tmp_path / "run", steps=10, method=method)])
    trained = capfd.readouterr()
    assert "tokens/s" in trained.err
    assert trained.out == ""
    main(["sample", str(tmp_path / "run"), "--n=2", "--steps=3", "--json", "--prompt=Py"])
    _checked(capfd.readouterr().out)


def test_train_and_sample_through_the_real_command(tmp_path):
    """As installed: the console script, in processes of their own."""
    candi = str(Path(sys.executable).parent / "candi")
    for arguments in (
        ["train", *flags(tmp_path / "run", steps=10)],
        ["sample", tmp_path / "run", "--n=2", "--steps=3", "--json", "--prompt=Py"],
    ):
        done = subprocess.run([candi, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    _checked(done.stdout)


def test_samples_are_written_during_training(tmp_path):
    train_here(tmp_path / "run", steps=10, sample_every=5, samples=2, sample_steps=2)
    assert [path.name for path in sorted((tmp_path / "run" / "samples").iterdir())] == [
        "step-00000005.txt",
        "step-00000010.txt",
    ]
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_text_samples_and_repeatability(capsys, run):
    main(["sample", str(run), "--n", "2", "--steps", "2", "--seed", "3"])
    first = capsys.readouterr().out
    main(["sample", str(run), "--n", "2", "--steps", "2", "--seed", "3", "--batch-size", "1"])
    assert capsys.readouterr().out == first
    main(["sample", str(run), "--n", "2", "--steps", "2", "--seed", "4"])
    assert capsys.readouterr().out != first
    main(["sample", str(run), "--steps", "2", "--solver", "euler", "--inference", "approximate", "--json"])
    record = json.loads(capsys.readouterr().out)
    assert (record["solver"], record["inference"]) == ("euler", "approximate")


def test_a_reader_that_leaves_is_no_error(run):
    script = f"{sys.executable} -m candi sample {run} --n 200 --batch-size 1 --steps 1 | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_interrupting_a_sample_is_no_traceback(run):
    process = subprocess.Popen(
        [sys.executable, "-m", "candi", "sample", str(run), "--n", "100000", "--batch-size", "1", "--watch"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["# Introduction", "null", "~", "&a", "yes", "1e3", "[a]", "a: b"])
def test_a_prompt_is_taken_as_it_is(text):
    flags = parser("sample", "RUN", "")
    add_sampling(flags)
    given = parse(flags, ["--prompt", text, "--infill", text])
    assert (given.prompt, given.infill) == (text, text)
    assert parse(flags, []).prompt is None


def test_remasking_in_another_order_is_refused_before_training(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--preset", "tiny", "--data", "pydoc", "--out", str(tmp_path / "run"), "--method", "mdlm",
              "--mdlm.order", "entropy", "--mdlm.remask", "on"])  # fmt: skip
    assert "Remasking reveals in random order" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_too_little_to_validate_on_is_refused_or_trained_on(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("the cat sat on the mat " * 10)
    (tmp_path / "short.txt").write_text("the cat")
    base = ["--preset=tiny", f"--data={tmp_path / 'text.txt'}", "--length=64", f"--cache={tmp_path / 'cache'}"]
    with pytest.raises(SystemExit):
        main(["train", *base, f"--out={tmp_path / 'run'}", f"--valid={tmp_path / 'short.txt'}"])
    assert "too few for a sequence of 64; give more" in capsys.readouterr().err
    dataset = prepare(settings([*base, f"--out={tmp_path / 'run'}"])).dataset
    assert dataset.valid is None
    assert dataset.train.size == "230 tokens of text"  # all of them


def test_a_temperature_that_float32_cannot_divide_by_is_refused(run, capsys):
    with pytest.raises(SystemExit):
        main(["sample", str(run), "--temperature", "1e-39"])
    assert "must be above 0" in capsys.readouterr().err
