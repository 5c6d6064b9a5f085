"""What is kept of a run's metrics."""

import pytest
from candi_lab.report import plots
from candi_lab.runner.metrics import summarize_metrics


def _metrics(tmp_path, losses, valid=""):
    rows = [f"{10 * (index + 1)},{loss},{valid if index % 2 else ''}" for index, loss in enumerate(losses)]
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join(["step,loss,valid_loss", *rows]) + "\n")
    return path


def test_a_long_history_is_thinned_to_means_that_lose_no_step(tmp_path):
    found = summarize_metrics(_metrics(tmp_path, [float(index) for index in range(1000)], "3.5"))
    steps, means = zip(*found["losses"], strict=True)
    assert len(steps) == 40
    assert list(steps) == [250 * (share + 1) for share in range(40)]  # 25 rows each, of 10 steps
    assert means[0] == 12  # the mean of 0 to 24
    assert sum(means) / 40 == pytest.approx(999 / 2)
    assert found["valid_loss"] == 3.5
    (axes,) = plots.losses({"a": found["losses"]}).axes
    assert axes.get_lines()[0].get_xdata()[-1] == 10_000


def test_a_loss_that_is_no_number_is_no_point(tmp_path):
    assert summarize_metrics(_metrics(tmp_path, [2.0, float("nan"), 1.0]))["losses"] == [[10, 2.0], [30, 1.0]]
    assert summarize_metrics(_metrics(tmp_path, [])) == {"valid_loss": None, "losses": []}


def test_a_short_one_is_kept_as_it_is(tmp_path):
    assert summarize_metrics(_metrics(tmp_path, [2.0, 1.0, 0.5])) == {
        "valid_loss": None,
        "losses": [[10, 2.0], [20, 1.0], [30, 0.5]],
    }
