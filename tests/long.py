"""Which tests run in `make test-all`, and so in CI, alone: they take long, and say little that a
shorter one of `make test` does not say first."""

from __future__ import annotations

LONG = (  # files, tests, and single cases of them
    # a whole lesson run in JupyterLab; page 00 is run in make test
    "browser/test_second_day.py",
    "browser/test_notebooks_in_lab.py::test_runs_without_an_error_and_looks_as_it_should[lesson]",
    "browser/test_notebooks_in_lab.py::test_axe_finds_nothing_in_the_outputs"
    "[lesson-JupyterLab Light]",
    "browser/test_notebooks_in_lab.py::test_chinese_is_drawn_with_chinese_glyphs",
    "browser/test_notebooks_in_lab.py::test_a_quiz_answers_back_by_keyboard_in_chinese",
    "browser/test_notebooks_in_lab.py::test_a_picture_that_gives_the_answer_away_is_covered_too",
    "browser/test_notebooks_in_lab.py::test_who_makes_no_guess_can_ask_to_be_shown",
    "browser/test_notebooks_in_lab.py::test_the_tool_is_there_and_its_slider_moves",
    "browser/test_show_in_lab.py",
    # it builds the site: a minute of one core
    "browser/test_site.py",
    # a second language, a second width, a second place of what make test looks at once
    "browser/test_notebooks_in_lab.py::test_the_students_lab_stops_kindly_at_the_first_exercise"
    "[en-Exercise chunk-bounds is yours]",
    "browser/test_explorer_lab.py::test_the_verdict_stays_in_sight_and_nothing_is_cut[1280]",
    "browser/test_explorer_lab.py::test_the_verdict_stays_in_sight_and_nothing_is_cut[1920]",
    "browser/test_explorer_lab.py::test_slider_to_paint_is_about_a_frame_here_too",
    "browser/test_memory_tools.py::test_the_anatomy_is_drawn_as_python_draws_it[en]",
    # a build each; the others of these files share one
    "course/test_build.py::test_what_was_executed_here_is_known_until_something_changes",
    "course/test_build.py::test_a_changed_output_is_said_and_nothing_else_is",
    "course/test_build.py::test_a_claim_that_prints_nothing_is_refused",
    "course/test_build.py::test_a_file_outside_the_closure_is_refused",
    "course/test_build.py::test_the_kernel_imports_the_package_that_was_built_with",
    "course/test_new.py::test_the_lesson_and_the_lab_are_whole",
    "course/test_new.py::test_its_planted_answers_and_its_tool_pass_the_tests_of_all",
    "course/test_new.py::test_the_sources_keep_the_house_style",
    "course/test_new.py::test_another_lesson_makes_no_notebook_stale",
    "course/test_scripts.py::test_two_processes_train_as_one_does[train_fsdp.py]",
    # torch's own parallelism; test_torch_ddp and the grid of ours stay
    "engines/test_torch_equality.py",
    "estimate/test_formulas.py::test_shapes_of_every_proportion[50]",
    "estimate/test_formulas.py::test_shapes_of_every_proportion[100]",
    "estimate/test_planner.py::test_no_layout_one_change_away_is_faster",
    "estimate/test_planner.py::test_short_sequences_are_cut_when_asked_for_only",
    "estimate/test_planner.py::test_a_question_without_an_answer_gets_one_sentence_and_what_works"
    "[one node is too small]",
    "estimate/test_planner.py::test_published_layouts_fit_and_are_not_far_from_the_best"
    "[SC21 table 1 18B]",
    # an environment with what the package needs, from the package index
    "test_package.py::test_a_clean_environment_without_torch_shows_a_tool_and_estimates",
    # eight kernels with their ranks
    "launch/test_classroom.py",
    # a real torchrun, and the seconds after which it counts as hanging
    "labs/test_lab19_cases.py::test_a_script_that_hangs_is_ended_and_each_rank_says_where_it_waits",
    "launch/test_two_hosts.py::test_a_run_on_two_hosts_reports_what_a_run_on_one_does"
    "[pipeline over the cable, ZeRO inside a host]",
    "measure/test_fake_step.py::test_models_that_do_not_fit_here[llama3-70b-flags1]",
    # all tests are gathered twice
    "test_suite.py::test_what_is_long_is_there_and_runs_in_test_all_alone",
    # eight processes for a command that test_commands runs otherwise too
    "widgets/test_three_d_commands.py::test_the_small_run_trains",
)
