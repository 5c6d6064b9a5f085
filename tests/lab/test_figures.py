"""candi-lab figures, as it is called, and the tables of token vectors that it reads."""

import json
from pathlib import Path

import pytest
import torch
from candi_lab.cli import main
from candi_lab.studies import tables
from candi_lab.studies.rates import rate_table
from safetensors.torch import save_file

from candi.base.errors import UserError

pytestmark = pytest.mark.usefixtures("cache")


ROOT = Path(__file__).parents[2]


def _rows(folder, name: str) -> list[dict]:
    assert (folder / f"{name}.svg").stat().st_size > 1000
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def test_all_figures_of_the_page_on_identifiability(tmp_path, capsys):
    table = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    save_file({"embedding.weight": table}, tmp_path / "a.safetensors")
    out = tmp_path / "out"
    main(["figures", "all", "--points", "200", "--draws", "40", "--trials", "2", "--table",
          str(tmp_path / "a.safetensors"), "--out", str(out)])  # fmt: skip
    farthest = float(capsys.readouterr().out.split("simulation is ")[1].split()[0])
    assert farthest < 4  # at each of 88 points, for this seed
    assert {row["vocab_size"] for row in _rows(out, "curves")} == {2, 27, 500, 50_257, 1_000_000}
    assert {row["points"] for row in _rows(out, "validation")} == {200}
    hybrid = [row for row in _rows(out, "kernels") if row["kernel"] == "hybrid"]
    slopes = {round((b["rank"] - a["rank"]) / (b["t"] - a["t"]), 6) for a, b in zip(hybrid, hybrid[1:], strict=False)}
    assert len(slopes) == 1  # a straight line
    rows = _rows(out, "embeddings")
    assert {row["kind"] for row in rows} == {"learned", "random"}
    assert all(row["corruption_simulated"] == 0 for row in rows if row["sigma"] < 0.03)
    assert {(row["n"], row["trials"]) for row in _rows(out, "rates")} == {(32, 2), (128, 2), (512, 2)}
    main(["figures", "kernels", "--out", str(tmp_path / "again")])
    assert (out / "kernels.svg").read_bytes() == (tmp_path / "again" / "kernels.svg").read_bytes()


def test_the_rates_on_the_page_are_those_of_the_file():
    """And without a difference they are the 5% that are stated: four standard errors of 1,000 trials are 2.8%."""
    rows = _rows(ROOT / "docs" / "figures", "rates")
    assert rate_table(rows) in (ROOT / "docs" / "frontiers.md").read_text()
    assert {row["trials"] for row in rows} == {1000}
    assert all(row[key] < 0.078 for row in rows if not row["difference"] for key in ("told", "somewhere"))


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["curve"], "curves"),
        (["embeddings", "--table", "nowhere.safetensors"], "cannot be read"),
        (["embeddings", "--table", "nowhere.gguf"], "GGUF"),
        (["embeddings", "--draws", "2"], "at least 8"),
        (["validation", "--points", "1"], "at least 2 points"),
        (["validation", "--piont", "1"], "did you mean --points?"),
    ],
)
def test_mistakes_are_one_sentence(arguments, says, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        main(["figures", *arguments, *(["--out", str(tmp_path)] if len(arguments) > 1 else [])])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.strip().splitlines()) == 1
