"""An interrupt as Jupyter and a terminal send it, to the whole process group, while the server of
the ranks still starts."""

import signal
import subprocess
import sys

from faults import ENVIRONMENT, PATIENCE_S

from lab_utils.launch import launch

SCRIPT = """
import os, sys, threading, time
from lab_utils.launch import launch

threading.Timer(float(sys.argv[1]), os.killpg, (0, {SIGINT})).start()
try:
    launch(time.sleep, 2, 50)
except KeyboardInterrupt:
    print("interrupted")
print(len(launch(os.getpid, 2)))
""".replace("{SIGINT}", str(int(signal.SIGINT)))
MOMENTS_S = (0.01, 0.5, 1.5)  # after the call of launch; the server imports for about 2 s


def test_interrupt_of_the_group_while_the_server_starts():
    runs = {
        moment: subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(moment)],
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        for moment in MOMENTS_S
    }
    said = {moment: run.communicate(timeout=PATIENCE_S) for moment, run in runs.items()}
    assert said == dict.fromkeys(MOMENTS_S, ("interrupted\n2\n", "")), (
        "interrupted, run again at once, and not a word from the server"
    )


def test_a_rank_ignores_an_interrupt_and_blocks_no_signal():
    def dispositions():
        return signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())

    here = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert launch(dispositions, 2) == [(signal.SIG_IGN, set())] * 2
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == here
