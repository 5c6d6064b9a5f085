"""candi-lab: one module per subcommand."""

from candi.cli.entry import Program

PROGRAM = Program(
    name="candi-lab",
    about="Experiments, benchmarks and figures of candi.",
    package="candi_lab.cli",
    commands={
        "reproduce": "run an experiment from data to figure, or continue it",
        "bench": "how fast training, sampling and guidance are here",
        "figures": "figures of what identifiability says, and of how sure a comparison is",
        "results": "write the pages of results and performance, and the README's table",
    },
)
main = PROGRAM.main
