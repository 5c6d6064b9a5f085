"""What a person sees of a sweep."""

from types import TracebackType

from candi.base.progress import ProgressBar, text_column


class SweepProgress(ProgressBar):
    """Counts evaluations of the network, because a point of 64 steps takes eight times one of 8."""

    def __init__(self, points: int, evaluations: int) -> None:
        super().__init__(evaluations, [text_column("count")], [text_column("text")])
        self._points = points

    def __enter__(self) -> "SweepProgress":
        super().__enter__()
        self.start_at(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.update(text="", count=f"{self._points}/{self._points} points")
        super().__exit__(kind, error, trace)

    def begin(self, index: int, title: str) -> None:
        count = f"{index}/{self._points} points"
        self.update(text=title, count=count)
        if not self.live:
            self.say(f"{count}  {title}  {self.left() if self.done else ''}")

    def advance(self, evaluations: int) -> None:
        self.update(self.done + evaluations)
