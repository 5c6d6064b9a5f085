"""lm-evaluation-harness, with tasks of local files, against scores computed by hand."""

import json
import math

import numpy as np
import pytest
import yaml

from candi.cli import main
from candi.evaluation.answers import continuations
from candi.hub.loading import load
from tests.training.runs import train_here

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.usefixtures("cache")
QUESTIONS = [
    {"question": "the s", "choices": ["tatement", "zq"], "answer": 0},
    {"question": "an obj", "choices": ["xxq", "ect", "e"], "answer": 1},
    {"question": "a very long beginning of a quest", "choices": ["ion", "i"], "answer": 0},
]
TEXTS = ["The assert statement.", "def f(x): return x", "a"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("runs")
    for method in ("ar", "mdlm", "candi"):
        train_here(folder / method, steps=30, method=method)
    return folder


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A choice among answers, the likelihood of texts, and answers that are written."""
    folder = tmp_path_factory.mktemp("tasks")
    _lines(folder / "questions.jsonl", QUESTIONS)
    _lines(folder / "texts.jsonl", [{"text": text} for text in TEXTS])
    choice = {
        "task": "choice", "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_target": "answer",
        "doc_to_choice": "choices", "target_delimiter": "", "metric_list": [{"metric": "acc"}],
    }  # fmt: skip
    rolling = {
        "task": "texts", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "bits_per_byte"}],
    }  # fmt: skip
    written = {
        "task": "written", "output_type": "generate_until", "doc_to_text": "{{question}}",
        "doc_to_target": "{{choices[answer]}}", "generation_kwargs": {"until": ["e"], "max_gen_toks": 6},
        "metric_list": [{"metric": "exact_match"}],
    }  # fmt: skip
    for task, file in ((choice, "questions"), (rolling, "texts"), (written, "questions")):
        source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / f"{file}.jsonl")}}}
        (folder / f"{task['task']}.yaml").write_text(yaml.safe_dump({**task, **source, "test_split": "test"}))
    return folder


def _lines(path, rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _evaluated(runs, tasks, method: str, names: list[str], batch: int = 8, **options):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    import candi.hub.harness  # noqa: F401

    values = {"pretrained": runs / method, "times": 8, **options}
    arguments = ",".join(f"{name}={value}" for name, value in values.items())
    return simple_evaluate(
        "candi", model_args=arguments, tasks=names, batch_size=batch, device="cpu", log_samples=True,
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False), bootstrap_iters=0,
    )  # fmt: skip


def _pair(model, question: str, answer: str) -> tuple[list[int], list[int]]:
    return model.tokenizer.encode(question).tolist(), model.tokenizer.encode(answer).tolist()


@pytest.mark.parametrize("method", ["ar", "mdlm", "candi"])
def test_answers_are_ranked_by_our_likelihoods(runs, tasks, method):
    """Exactly for autoregression, else by the bound; the harness sees log p of each choice and counts the best."""
    found = _evaluated(runs, tasks, method, ["choice"])
    model = load(runs / method, "cpu")
    right = 0
    for question, sample in zip(QUESTIONS, found["samples"]["choice"], strict=True):
        pairs = [_pair(model, question["question"], answer) for answer in question["choices"]]
        nats = [one.nats for one in continuations(model, *zip(*pairs, strict=True), times=8)]
        told = [float(response[0][0]) for response in sample["resps"]]
        assert told == pytest.approx([-n for n in nats], rel=1e-4)
        right += int(np.argmin(nats)) == question["answer"]
    assert found["results"]["choice"]["acc,none"] == pytest.approx(right / len(QUESTIONS))
    told = found["config"]
    assert told["candi_likelihood"] == ("exact" if method == "ar" else "bound, 8 times")
    assert (told["candi_standard_error_nats"] > 0) == (method != "ar")


def test_whole_texts_are_scored_in_windows(runs, tasks):
    """Sixteen tokens at once: the last window is filled with what stands before, which is not scored again."""
    model, total, size = load(runs / "ar", "cpu"), 0.0, 0
    for text in TEXTS:
        tokens = model.tokenizer.encode(text).tolist()
        for start in range(0, len(tokens), 16):
            stop = min(start + 16, len(tokens))
            (one,) = continuations(model, [tokens[max(0, stop - 16) : start]], [tokens[start:stop]])
            total += one.nats
        size += len(text.encode())
    found = _evaluated(runs, tasks, "ar", ["texts"])
    assert found["results"]["texts"]["bits_per_byte,none"] == pytest.approx(total / size / math.log(2), rel=1e-4)


@pytest.mark.parametrize("method", ["ar", "mdlm", "candi"])
def test_what_is_written_stops_where_it_is_told_to(runs, tasks, method):
    found = _evaluated(runs, tasks, method, ["written"], steps=6)
    answers = [sample["resps"][0][0] for sample in found["samples"]["written"]]
    assert all("e" not in answer and len(answer) <= 6 for answer in answers)
    assert any(answers)


@pytest.mark.parametrize("method", ["mdlm", "candi"])
def test_neither_the_batch_nor_another_run_changes_the_results(runs, tasks, method):
    names = ["choice", "texts", "written"]
    one, eight, again = (_evaluated(runs, tasks, method, names, steps=4, batch=size) for size in (1, 8, 8))
    assert eight["results"] == again["results"]
    for name in names:
        for first, second in zip(one["samples"][name], eight["samples"][name], strict=True):
            flat = [np.ravel(np.array(some["resps"], dtype=object)).tolist() for some in (first, second)]
            numbers = [[float(value) for value in some if _number(value)] for some in flat]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-5)
            assert [v for v in flat[0] if not _number(v)] == [v for v in flat[1] if not _number(v)]


def _number(value: object) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def test_the_command_is_the_harness_own(runs, tasks, tmp_path, capsys):
    main(["lm-eval", "--model_args", f"pretrained={runs / 'candi'},times=2", "--tasks", "choice", "--include_path",
          str(tasks), "--device", "cpu", "--batch_size", "4", "--output_path", str(tmp_path / "out")])  # fmt: skip
    assert "|acc" in capsys.readouterr().out.replace(" ", "")
    (file,) = (tmp_path / "out").rglob("*.json")
    record = json.loads(file.read_text())
    assert record["config"]["model"] == "candi"
    assert record["config"]["candi_method"] == "candi"
    with pytest.raises(SystemExit) as exit:
        main(
            [
                "lm-eval",
                "--model_args",
                f"pretrained={tmp_path}/none",
                "--tasks",
                "choice",
                "--include_path",
                str(tasks),
            ]
        )
    assert exit.value.code == 2
    assert "There is no run or checkpoint" in capsys.readouterr().err
