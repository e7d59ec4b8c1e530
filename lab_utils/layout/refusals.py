"""What is refused, and why: one sentence each, with what works instead."""

from __future__ import annotations

from ..config import ConfigError, TrainConfig
from ..i18n import t

ENGINES = ("ours", "torch")


def refuse_what_cannot_run(config: TrainConfig, engine: str = "ours") -> None:
    """Raise ConfigError for engines, layouts and formats that are not carried out."""
    if engine not in ENGINES:
        raise ConfigError(t(f"there is no engine {engine!r}; choose {', '.join(ENGINES)}.", f"没有名为 {engine!r} 的引擎，可选：{'、'.join(ENGINES)}。"))
    p = config.parallel
    if engine == "torch" and p.gradient_sync == "naive":
        raise ConfigError(t("torch's DDP always sends buckets: leave out --gradient-sync naive, or choose --engine ours.",
                            "torch 的 DDP 总是按桶发送：请去掉 --gradient-sync naive，或改用 --engine ours。"))
    wanted = [f"--tp {p.tp}"] * (p.tp > 1) + [f"--pp {p.pp}"] * (p.pp > 1) + [f"--zero {p.zero}"] * (p.zero > 0)
    wanted += ["--sequence-parallel"] * p.sequence_parallel + [f"--virtual-stages {p.virtual_stages}"] * (p.virtual_stages > 1)
    wanted += [f"--precision {config.precision}"] * (config.precision != "fp32") + [f"--recompute {config.recompute}"] * (config.recompute != "none")
    wanted += [f"--optimizer {config.optimizer}"] * (config.optimizer not in ("sgd", "adamw"))
    if wanted:
        listed, known = t(", ", "、").join(wanted), "--dp, --precision fp32, --optimizer sgd | adamw"
        raise ConfigError(t(f"the engine does not run {listed} yet; what runs, with any number of ranks: {known}.",
                            f"引擎暂不支持 {listed}；目前可以运行（进程数任意）：{known}。"))
