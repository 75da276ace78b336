"""The training engine: one loop for all models, and the recipes it runs."""

from .loop import Program, train
from .recipes import evaluate, load_recipe, run
from .settings import OptimizerSettings, TrainingSettings

__all__ = ["OptimizerSettings", "Program", "TrainingSettings", "evaluate", "load_recipe", "run", "train"]
