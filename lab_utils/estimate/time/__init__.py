"""Seconds: of an op, a message, a stage, a schedule, a step, and what the step is bound by."""

from __future__ import annotations

from .data_parallel import DataParallelStep, data_parallel_step
from .step import RESOURCES, StepTime, step_time

__all__ = ["RESOURCES", "DataParallelStep", "StepTime", "data_parallel_step", "step_time"]
