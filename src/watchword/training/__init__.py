"""The training engine: one loop for all models, and the recipes it runs."""

from .loop import Program, train
from .recipes import load_recipe, run
from .settings import OptimizerSettings, TrainingSettings

__all__ = ["OptimizerSettings", "Program", "TrainingSettings", "load_recipe", "run", "train"]
