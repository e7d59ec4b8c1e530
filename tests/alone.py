"""Which tests need the machine to themselves."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
ALONE = (  # folders, files and tests
    # they measure seconds, or end what does not answer within some
    "browser/test_site.py::test_the_first_interaction_comes_within_a_second",
    "bench/test_bench.py::test_buckets_beat_one_message_per_gradient_where_gradients_are_many_and_small",
    "commands/test_limits.py::test_refused_at_once_in_one_sentence",
    "launch/test_faults.py",
    "launch/test_launch.py::test_output_and_events_arrive_live",
    "launch/test_lifetime.py",
    "launch/test_notebook.py",
    "launch/test_room.py::test_a_thousand_ranks_are_refused_with_the_number_that_would_fit",
    "launch/test_torchrun_exit.py",
    "measure/test_bottlenecks.py",
    "measure/test_calibrate.py",
    "measure/test_roofline.py",
    "measure/test_schedules_on_ranks.py",
    "measure/test_step_clock.py",
    "parallel/test_data_parallel.py::test_a_slow_link_carries_one_message_after_the_other",
    "parallel/test_ledger.py",
    "test_house.py::test_light_modules_load_in_300_ms_without_torch",
    "train/test_dead_rank.py",
    "widgets/test_explorer.py::test_importing_takes_no_torch_and_little_time",
    # every byte on the loopback interface
    "measure/test_wire.py",
)
ALONE_BY_NAME = ("test_slider_to_paint",)  # frames of a browser
