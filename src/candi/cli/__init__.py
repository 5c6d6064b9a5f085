"""The command line: one module per subcommand."""

from candi.cli.entry import Program

PROGRAM = Program(
    name="candi",
    about="Diffusion on discrete data.",
    package="candi.cli",
    commands={
        "prepare": "turn data into tokens beforehand, for many runs and machines",
        "train": "train a model, or continue a run",
        "train-classifier": "train a classifier that can guide a run",
        "distill": "train students of a run that take fewer steps",
        "sample": "write samples of a trained model",
        "demo": "open a page to play with, on this machine alone",
        "trace": "write a page that plays one trajectory from noise to text",
        "models": "list the models that ship, and what they were made of",
        "import": "make a model of a published checkpoint",
        "export": "pack a run to be shared: small weights, a model card",
        "join": "make one file of a checkpoint that several processes have written",
        "guide": "generate molecules that a classifier prefers",
        "evaluate": "bits per token of a text under a model, or measures of its samples",
        "lm-eval": "run tasks of lm-evaluation-harness on a model",
        "frontier": "compare runs by whole frontiers of diversity and quality",
        "schedule": "does a run's noise suit its vocabulary?",
        "tune-noise": "which ranges and paths of noise have the smallest bound under a run",
    },
    moved={
        "analyse": "candi analyse schedule is now candi schedule; the other studies are candi-lab figures STUDY.",
        "reproduce": "Experiments are run by candi-lab reproduce, in lab/ of the repository (pip install -e lab).",
        "bench": "Benchmarks are run by candi-lab bench, in lab/ of the repository (pip install -e lab).",
    },
)
main = PROGRAM.main
