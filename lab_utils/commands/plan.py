"""The fastest layouts of a model on a cluster, and why the others lose."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..config import ConfigError, ModelConfig
from ..config.presets import PRESETS, preset_shape
from ..i18n import t
from ..text import table
from .flags import one_sentence, whole_from_1

if TYPE_CHECKING:
    from ..estimate.plan import Plan

_MOST = 100  # layouts: each is played through, and told apart from the fastest in a sentence
_PINS = ("tp", "cp", "pp", "dp", "zero", "micro_batch", "virtual_stages")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the machine, and what is not to vary."""
    from ..estimate.hardware import HARDWARE

    parser.add_argument(
        "--preset",
        default="llama3-8b",
        metavar="NAME",
        help=t(f"model shape: {', '.join(PRESETS)}", f"模型规模：{'、'.join(PRESETS)}"),
    )
    parser.add_argument(
        "--seq",
        type=whole_from_1,
        default=None,
        help=t("tokens in a sequence; default: the preset's", "序列长度，默认同预设"),
    )
    parser.add_argument("--gpu", default="H100-SXM", metavar="NAME", help="、".join(HARDWARE))
    parser.add_argument(
        "--gpus",
        type=whole_from_1,
        default=64,
        help=t("how many GPUs, all of them used", "GPU 总数，全部用上"),
    )
    parser.add_argument(
        "--gpus-per-node",
        type=whole_from_1,
        default=8,
        help=t("GPUs in one machine", "每台机器的 GPU 数"),
    )
    parser.add_argument(
        "--global-batch",
        type=whole_from_1,
        default=512,
        help=t("sequences per optimizer step", "每个优化器步的序列数"),
    )
    parser.add_argument(
        "--precision",
        default="bf16-pure",
        choices=("bf16-pure", "bf16", "fp32"),
        help=t("number format", "数值精度"),
    )
    parser.add_argument(
        "--optimizer", default="adamw", choices=("adamw", "sgd"), help=t("optimizer", "优化器")
    )
    parser.add_argument(
        "--top",
        type=whole_from_1,
        default=8,
        metavar="N",
        help=t(f"layouts to print, at most {_MOST}", f"打印多少个布局，最多 {_MOST}"),
    )
    for name in _PINS:
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=int,
            default=None,
            help=t("do not vary it", "固定此项"),
        )
    parser.add_argument(
        "--cp-kind",
        default=None,
        choices=("ring", "all-to-all"),
        help=t("do not vary it", "固定此项"),
    )
    parser.add_argument(
        "--recompute",
        default=None,
        choices=("none", "selective", "full"),
        help=t("do not vary it", "固定此项"),
    )
    parser.add_argument(
        "--schedule",
        default=None,
        choices=("1f1b", "interleaved", "zero-bubble"),
        help=t("do not vary it", "固定此项"),
    )
    parser.add_argument(
        "--export",
        default=None,
        choices=("megatron", "torchtitan", "deepspeed"),
        help=t(
            "print what that framework needs to run the fastest layout that it can express,"
            " nothing else",
            "只输出让该框架运行其中最快（且它能表达）的布局所需的命令或配置",
        ),
    )


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Carry out `plan`."""
    from ..estimate.hardware import cluster
    from ..estimate.plan import neighbours, plan
    from ..estimate.plan.words import layout_words, resource_words
    from ..estimate.program.conventions import CONVENTIONS

    if args.top > _MOST:
        raise ConfigError(
            t(
                f"--top must be at most {_MOST}, not {args.top:,}.",
                f"--top 最多为 {_MOST}，而不是 {args.top:,}。",
            )
        )
    shape = preset_shape(args.preset) | ({"seq": args.seq} if args.seq else {})
    pins: dict[str, Any] = {
        name: getattr(args, name)
        for name in (*_PINS, "cp_kind", "recompute", "schedule")
        if getattr(args, name) is not None
    }
    plans = plan(
        ModelConfig(**shape),
        cluster(args.gpu, args.gpus_per_node),
        args.gpus,
        args.global_batch,
        precision=args.precision,
        optimizer=args.optimizer,
        top=_MOST if args.export else args.top,
        **pins,
    )
    if args.export:
        _print_export(plans, args.export, args.gpus_per_node)
        return 0
    head = (
        t("layout", "布局"),
        t("step", "步时"),
        "MFU",
        t("GB a GPU", "每张 GB"),
        t("bound by", "瓶颈"),
    )
    print(
        table(
            [
                head,
                *(
                    (
                        layout_words(p.config),
                        f"{p.seconds:.3f} s",
                        f"{p.time.mfu:.1%}",
                        f"{p.memory_bytes / 1e9:.1f}",
                        resource_words(p.bottleneck),
                    )
                    for p in plans
                ),
            ]
        )
    )
    for p in plans[1:]:
        print(f"{layout_words(p.config)}: {p.why}")
    basis = CONVENTIONS[plans[0].cluster.kernels].basis
    print(t("one change away from the fastest:", "与最快布局只差一步："))
    for config, why in neighbours(plans[0]):
        print(f"  {layout_words(config)}: {why}")
    print(
        t(
            "MFU is taken against the data sheet's bf16 peak; times are predicted; memory is"
            f" {basis}.",
            f"MFU 以标称 bf16 峰值算力为分母；时间为预测值；显存为{basis}。",
        )
    )
    return 0


def _print_export(plans: list[Plan], framework: str, node: int) -> None:
    """The export on stdout, so that it can be kept in a file; what is to be known about it on
    stderr."""
    from ..estimate.plan.words import layout_words
    from ..exports import export

    refused = None
    for place, one in enumerate(plans):
        try:
            found = export(one.config, framework, node)
        except ConfigError as error:
            refused = refused or error
            continue
        behind = one.seconds / plans[0].seconds - 1
        notes = [layout_words(one.config), *(t(*note) for note in found.notes)]
        if place:
            notes[0] += t(
                f": place {place + 1} of {len(plans)}, {behind:.1%} slower than the fastest. About"
                f" that one: {refused}",
                f"：第 {place + 1} 名（共 {len(plans)}），比最快的慢 {behind:.1%}。最快的那个："
                f"{refused}",
            )
        print(*notes, sep="\n", file=sys.stderr)
        print(found.text)
        return
    raise refused
