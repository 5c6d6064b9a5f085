"""candi analyse, as it is called."""

import json

import pytest
import torch
from safetensors.torch import save_file

from candi.analysis import tables
from candi.analysis.simulate import simulate
from candi.cli import main
from candi.errors import UserError
from tests.training.runs import flags

pytestmark = pytest.mark.usefixtures("cache")


def _rows(folder, name: str) -> list[dict]:
    assert all((folder / f"{name}.{ending}").stat().st_size > 1000 for ending in ("svg", "png"))
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def test_curves_validation_and_kernels(tmp_path, capsys):
    main(["analyse", "curves", "--out", str(tmp_path)])
    assert {row["vocab_size"] for row in _rows(tmp_path, "curves")} == {2, 27, 500, 50_257, 1_000_000}
    main(["analyse", "validation", "--points", "2000", "--out", str(tmp_path)])
    farthest = float(capsys.readouterr().out.split("simulation is ")[1].split()[0])
    assert farthest < 4  # at each of 88 points, for this seed
    main(["analyse", "kernels", "--out", str(tmp_path)])
    hybrid = [row for row in _rows(tmp_path, "kernels") if row["kernel"] == "hybrid"]
    slopes = {round((b["rank"] - a["rank"]) / (b["t"] - a["t"]), 6) for a, b in zip(hybrid, hybrid[1:], strict=False)}
    assert len(slopes) == 1  # a straight line


def test_the_same_figure_is_the_same_file(tmp_path):
    for folder in ("a", "b"):
        main(["analyse", "kernels", "--out", str(tmp_path / folder)])
    assert (tmp_path / "a" / "kernels.svg").read_bytes() == (tmp_path / "b" / "kernels.svg").read_bytes()


def test_a_run_s_table_and_schedule(tmp_path, capsys):
    run = tmp_path / "run"
    main(["train", *flags(run, steps=2)])
    capsys.readouterr()
    main(["analyse", "schedule", str(run), "--draws", "20", "--out", str(tmp_path)])
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith("Vocabulary ")
    assert "temporal dissonance" in said
    rows = _rows(tmp_path, "schedule")
    assert rows[0]["t"] == 0
    assert rows[0]["identifiable"] > rows[-1]["identifiable"]
    main(["analyse", "schedule", str(next((run / "checkpoints").iterdir())), "--draws", "20", "--out", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[0] == said  # a checkpoint knows its run's text
    (run / "run.json").write_text("{}")
    with pytest.raises(SystemExit):
        main(["analyse", "schedule", str(run), "--out", str(tmp_path)])
    assert "damaged" in capsys.readouterr().err
    main(["analyse", "embeddings", str(run), "--draws", "40", "--out", str(tmp_path)])
    rows = _rows(tmp_path, "embeddings")
    assert {row["kind"] for row in rows} == {"learned", "random"}
    assert all(row["corruption_simulated"] == 0 for row in rows if row["sigma"] < 0.03)


def test_tables_in_files(tmp_path):
    table = torch.randn(12, 4)
    save_file({"model.embed_tokens.weight": table, "other": torch.zeros(2, 2)}, tmp_path / "a.safetensors")
    path = str(tmp_path / "a.safetensors")
    assert torch.equal(tables.load_table(path), table)
    with pytest.raises(UserError, match="all zero"):
        tables.load_table(path + ":other")


def test_a_gguf_table(tmp_path):
    gguf = pytest.importorskip("gguf")
    table = torch.randn(12, 32)
    writer = gguf.GGUFWriter(str(tmp_path / "a.gguf"), "llama")
    writer.add_tensor("token_embd.weight", table.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert torch.equal(tables.load_table(str(tmp_path / "a.gguf")), table)


def test_a_simulation_of_a_large_vocabulary_holds_little(monkeypatch):
    """50,257 tokens and 300 points in parts of a million numbers: no part is larger."""
    held = []
    monkeypatch.setattr("candi.analysis.simulate._HELD", 2**20)
    original = torch.Tensor.normal_

    def normal(self, *args, **kwargs):
        held.append(self.numel())
        return original(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "normal_", normal)
    simulate(torch.tensor([0.2, 1.0]), 50_257, points=300)
    assert max(held) <= 2**20
    assert sum(held) == 300 * 50_257


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["curve"], "curves"),
        (["schedule", "nowhere"], "no run or checkpoint"),
        (["embeddings", "nowhere.safetensors"], "cannot be read"),
        (["embeddings", "nowhere.gguf"], "GGUF"),
        (["validation", "--points", "1"], "at least 2 points"),
        (["schedule"], "run"),
    ],
)
def test_mistakes_are_one_sentence(arguments, says, capsys, tmp_path):
    with pytest.raises(SystemExit) as exit:
        main(["analyse", *arguments, *(["--out", str(tmp_path)] if len(arguments) > 1 else [])])
    assert exit.value.code == 2
    told = capsys.readouterr().err
    assert says in told
    assert len(told.strip().splitlines()) == 1
